// Q5_K: 256 elements in 176 bytes, 16 of scales and minima (k_ranges.cl), 32 whose bit g of byte j is the fifth bit of
// element 32 g + j, then 128 of two elements each: each 64 elements take 32 bytes, the lower halves first.

#define storage_q5_k uchar

float load_q5_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 176;
    const uint j = (uint)i % 256;
    const float2 range = k_range(block, j / 32);
    const uint fifth = block[16 + j % 32] >> j / 32 & 1;
    const uint low = block[48 + j / 64 * 32 + j % 32] >> j % 64 / 32 * 4 & 15;
    return range.s0 * (float)(low | fifth << 4) - range.s1;
}

float4 load4_q5_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 176;
    const uint j = (uint)i % 256;
    const float2 range = k_range(block, j / 32);
    const uint fifth = WORD(block + 16 + j % 32) >> j / 32 & 0x01010101;
    const uint low = WORD(block + 48 + j / 64 * 32 + j % 32) >> j % 64 / 32 * 4 & 0x0f0f0f0f;
    return range.s0 * floats_of(low | fifth << 4) - range.s1;
}

#define elements_q5_k 64
#define start_q5_k(u) ((u) * 64)
#define place_q5_k(i) ((i) * 4)
#define entry_q5_k(i) 0.0f

typedef struct { uint words[8], fifths[8]; float4 ranges; } unit_q5_k;

unit_q5_k open_q5_k(__global const uchar *row, uint u)
{
    unit_q5_k unit;
    __global const uchar *block = row + u / 4 * 176;
    unit.ranges = k_ranges(block, u % 4);
    FOUR_WORDS(block + 16, unit.fifths)
    FOUR_WORDS(block + 32, unit.fifths + 4)
    FOUR_WORDS(block + 48 + u % 4 * 32, unit.words)
    FOUR_WORDS(block + 64 + u % 4 * 32, unit.words + 4)
    FOR_ALL (uint j = 0; j < 8; ++j) {
        unit.fifths[j] >>= u % 4 * 2;
    }
    return unit;
}

float4 four_q5_k(const unit_q5_k unit, uint i, __local const float *table)
{
    const uint j = i % 8, low = unit.words[j] >> i / 8 * 4 & 0x0f0f0f0f;
    const uint levels = low | (unit.fifths[j] << (4 - i / 8) & 0x10101010);
    return (i < 8 ? unit.ranges.s0 : unit.ranges.s1) * floats_of(levels) - (i < 8 ? unit.ranges.s2 : unit.ranges.s3);
}
