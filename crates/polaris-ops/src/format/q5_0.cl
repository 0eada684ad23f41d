// Q5_0: 32 elements in 22 bytes, a scale in half precision, 4 bytes whose bit j is the fifth bit of element j, and 16
// bytes of two elements each: byte j holds element j in its lower half and element j + 16 in its upper half. Elements
// are raised by 16.

#define storage_q5_0 uchar

float load_q5_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 22;
    const float scale = vload_half(0, (__global const half *)block);
    const uint j = (uint)i % 32;
    const uint fifth = block[2 + j / 8] >> j % 8 & 1;
    const uint low = block[6 + j % 16] >> j / 16 * 4 & 15;
    return scale * (float)((int)(low | fifth << 4) - 16);
}

float4 load4_q5_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 22;
    const float scale = vload_half(0, (__global const half *)block);
    const uint j = (uint)i % 32;
    const uint low = EVEN_WORD(block + 6 + j % 16) >> j / 16 * 4 & 0x0f0f0f0f;
    return scale * floats_of(low | fifths_of(EVEN_WORD(block + 2), j / 4)) - 16.0f * scale;
}

#define elements_q5_0 32
#define start_q5_0(u) ((u) * 32)
#define place_q5_0(i) ((i) * 4)
#define entry_q5_0(i) 0.0f

typedef struct { uint words[5]; float scale; } unit_q5_0;

unit_q5_0 open_q5_0(__global const uchar *row, uint u)
{
    unit_q5_0 unit;
    __global const uchar *block = row + u * 22;
    unit.scale = vload_half(0, (__global const half *)block);
    LOOSE_WORDS(5, block + 2, 0, unit.words)
    return unit;
}

float4 four_q5_0(const unit_q5_0 unit, uint i, __local const float *table)
{
    const uint low = unit.words[1 + i % 4] >> i / 4 * 4 & 0x0f0f0f0f;
    return unit.scale * floats_of(low | fifths_of(unit.words[0], i)) - 16.0f * unit.scale;
}
