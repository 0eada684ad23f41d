// Q5_1: 32 elements in 24 bytes, a scale and a minimum in half precision, 4 bytes whose bit j is the fifth bit of
// element j, and 16 bytes of two elements each: byte j holds element j in its lower half and element j + 16 in its
// upper half.

#define storage_q5_1 uchar

float load_q5_1(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 24;
    const float2 range = vload_half2(0, (__global const half *)block);
    const uint j = (uint)i % 32;
    const uint fifth = block[4 + j / 8] >> j % 8 & 1;
    const uint low = block[8 + j % 16] >> j / 16 * 4 & 15;
    return range.s0 * (float)(low | fifth << 4) + range.s1;
}

float4 load4_q5_1(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 24;
    const float2 range = vload_half2(0, (__global const half *)block);
    const uint j = (uint)i % 32;
    const uint low = WORD(block + 8 + j % 16) >> j / 16 * 4 & 0x0f0f0f0f;
    return range.s0 * floats_of(low | fifths_of(WORD(block + 4), j / 4)) + range.s1;
}

#define elements_q5_1 32
#define start_q5_1(u) ((u) * 32)
#define place_q5_1(i) ((i) * 4)
#define entry_q5_1(i) 0.0f

typedef struct { uint words[5]; float2 range; } unit_q5_1;

unit_q5_1 open_q5_1(__global const uchar *row, uint u)
{
    unit_q5_1 unit;
    __global const uchar *block = row + u * 24;
    unit.range = vload_half2(0, (__global const half *)block);
    WORDS(5, block + 4, unit.words)
    return unit;
}

float4 four_q5_1(const unit_q5_1 unit, uint i, __local const float *table)
{
    const uint low = unit.words[1 + i % 4] >> i / 4 * 4 & 0x0f0f0f0f;
    return unit.range.s0 * floats_of(low | fifths_of(unit.words[0], i)) + unit.range.s1;
}
