// Q2_K: 256 elements in 84 bytes, for each 16 elements a byte with the scale in its lower and the minimum in its upper
// half, 64 bytes of two bits (each 128 elements take 32 bytes, from the lowest bits up), and in half precision the
// factors of scales and minima.

#define storage_q2_k uchar

// What the elements from j on are scaled by, and what is taken from them.
float2 range_q2_k(__global const uchar *block, uint j)
{
    const float2 factors = vload_half2(20, (__global const half *)block);
    const uint both = block[j / 16];
    return factors * (float2)(both & 15, both >> 4);
}

float load_q2_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 84;
    const uint j = (uint)i % 256;
    const float2 range = range_q2_k(block, j);
    return range.s0 * (float)(block[16 + j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3) - range.s1;
}

float4 load4_q2_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 84;
    const uint j = (uint)i % 256;
    const float2 range = range_q2_k(block, j);
    const uint four = WORD(block + 16 + j / 128 * 32 + j % 32) >> j % 128 / 32 * 2 & 0x03030303;
    return range.s0 * floats_of(four) - range.s1;
}

#define elements_q2_k 64
#define start_q2_k(u) ((u) / 2 * 128 + (u) % 2 * 16)
#define place_q2_k(i) ((i) / 4 * 32 + (i) % 4 * 4)
#define entry_q2_k(i) 0.0f

typedef struct { uint words[4]; float4 scales, minima; } unit_q2_k;

// A unit has 16 bytes of the lower or upper 128 elements: 16 elements at each of four shifts.
unit_q2_k open_q2_k(__global const uchar *row, uint u)
{
    unit_q2_k unit;
    __global const uchar *block = row + u / 4 * 84;
    const float2 factors = vload_half2(20, (__global const half *)block);
    uint ranges[2];
    WORDS(2, block + u / 2 % 2 * 8, ranges)
    WORDS(4, block + 16 + u % 4 * 16, unit.words)
    const uint shift = u % 2 * 8;
    const uint first = ranges[0] >> shift, second = ranges[1] >> shift;
    // Levels are not shifted down.
    const float4 steps = factors.s0 * (float4)(1.0f, 0.25f, 0.0625f, 0.015625f);
    unit.scales = steps * (float4)(first & 15, first >> 16 & 15, second & 15, second >> 16 & 15);
    unit.minima = factors.s1 * (float4)(first >> 4 & 15, first >> 20 & 15, second >> 4 & 15, second >> 20 & 15);
    return unit;
}

float4 four_q2_k(const unit_q2_k unit, uint i, __local const float *table)
{
    const float scales[4] = {unit.scales.s0, unit.scales.s1, unit.scales.s2, unit.scales.s3};
    const float minima[4] = {unit.minima.s0, unit.minima.s1, unit.minima.s2, unit.minima.s3};
    return scales[i / 4] * floats_of(unit.words[i % 4] & 0x03030303u << (i / 4 * 2)) - minima[i / 4];
}
