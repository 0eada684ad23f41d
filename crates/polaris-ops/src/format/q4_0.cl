// Q4_0: 32 elements in 18 bytes, a scale in half precision and 16 bytes of two elements each: byte j holds element j
// in its lower half and element j + 16 in its upper half, both raised by 8.

#define storage_q4_0 uchar

float load_q4_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 18;
    const float scale = vload_half(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return scale * (float)((int)(block[2 + i % 16] >> shift & 15) - 8);
}

float4 load4_q4_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 18;
    const float scale = vload_half(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return scale * floats_of(EVEN_WORD(block + 2 + i % 16) >> shift & 0x0f0f0f0f) - 8.0f * scale;
}

#define elements_q4_0 32
#define start_q4_0(u) ((u) * 32)
#define place_q4_0(i) ((i) * 4)
#define entry_q4_0(i) 0.0f

typedef struct { uint words[4]; float scale; } unit_q4_0;

unit_q4_0 open_q4_0(__global const uchar *row, uint u)
{
    unit_q4_0 unit;
    __global const uchar *block = row + u * 18;
    unit.scale = vload_half(0, (__global const half *)block);
    LOOSE_WORDS(4, block + 2, 0, unit.words)
    return unit;
}

float4 four_q4_0(const unit_q4_0 unit, uint i, __local const float *table)
{
    const uint levels = unit.words[i % 4] & (i < 4 ? 0x0f0f0f0f : 0xf0f0f0f0);
    return (i < 4 ? unit.scale : unit.scale / 16) * floats_of(levels) - 8.0f * unit.scale;
}
