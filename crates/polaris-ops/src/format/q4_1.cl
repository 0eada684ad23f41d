// Q4_1: 32 elements in 20 bytes, a scale and a minimum in half precision, and 16 bytes of two elements each: byte j
// holds element j in its lower half and element j + 16 in its upper half.

#define storage_q4_1 uchar

float load_q4_1(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 20;
    const float2 range = vload_half2(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return range.s0 * (float)(block[4 + i % 16] >> shift & 15) + range.s1;
}

float4 load4_q4_1(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 20;
    const float2 range = vload_half2(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return range.s0 * floats_of(WORD(block + 4 + i % 16) >> shift & 0x0f0f0f0f) + range.s1;
}

#define elements_q4_1 32
#define start_q4_1(u) ((u) * 32)
#define place_q4_1(i) ((i) * 4)
#define entry_q4_1(i) 0.0f

typedef struct { uint words[4]; float2 range; } unit_q4_1;

unit_q4_1 open_q4_1(__global const uchar *row, uint u)
{
    unit_q4_1 unit;
    __global const uchar *block = row + u * 20;
    unit.range = vload_half2(0, (__global const half *)block);
    WORDS(4, block + 4, unit.words)
    return unit;
}

float4 four_q4_1(const unit_q4_1 unit, uint i, __local const float *table)
{
    const uint levels = unit.words[i % 4] & (i < 4 ? 0x0f0f0f0f : 0xf0f0f0f0);
    return (i < 4 ? unit.range.s0 : unit.range.s0 / 16) * floats_of(levels) + unit.range.s1;
}
