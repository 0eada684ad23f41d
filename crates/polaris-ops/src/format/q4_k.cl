// Q4_K: 256 elements in 144 bytes, 16 of scales and minima (k_ranges.cl), then 128 of two elements each: each 64
// elements take 32 bytes, the lower halves first.

#define storage_q4_k uchar

float load_q4_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 144;
    const uint j = (uint)i % 256;
    const float2 range = k_range(block, j / 32);
    return range.s0 * (float)(block[16 + j / 64 * 32 + j % 32] >> j % 64 / 32 * 4 & 15) - range.s1;
}

float4 load4_q4_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 144;
    const uint j = (uint)i % 256;
    const float2 range = k_range(block, j / 32);
    const uint four = WORD(block + 16 + j / 64 * 32 + j % 32) >> j % 64 / 32 * 4 & 0x0f0f0f0f;
    return range.s0 * floats_of(four) - range.s1;
}

#define elements_q4_k 64
#define start_q4_k(u) ((u) * 64)
#define place_q4_k(i) ((i) * 4)
#define entry_q4_k(i) 0.0f

typedef struct { uint words[8]; float4 ranges; } unit_q4_k;

unit_q4_k open_q4_k(__global const uchar *row, uint u)
{
    unit_q4_k unit;
    __global const uchar *block = row + u / 4 * 144;
    unit.ranges = k_ranges(block, u % 4);
    FOUR_WORDS(block + 16 + u % 4 * 32, unit.words)
    FOUR_WORDS(block + 32 + u % 4 * 32, unit.words + 4)
    return unit;
}

float4 four_q4_k(const unit_q4_k unit, uint i, __local const float *table)
{
    const uint levels = unit.words[i % 8] & (i < 8 ? 0x0f0f0f0f : 0xf0f0f0f0);
    const float scale = i < 8 ? unit.ranges.s0 : unit.ranges.s1 / 16;
    return scale * floats_of(levels) - (i < 8 ? unit.ranges.s2 : unit.ranges.s3);
}
