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
    const int4 four = convert_int4(vload4(0, block + 16 + j / 64 * 32 + j % 32));
    return range.s0 * convert_float4(four >> (int4)(j % 64 / 32 * 4) & 15) - range.s1;
}
