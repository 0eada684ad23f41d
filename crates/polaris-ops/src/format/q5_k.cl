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
    const int4 fifth = convert_int4(vload4(0, block + 16 + j % 32)) >> (int4)(j / 32) & 1;
    const int4 four = convert_int4(vload4(0, block + 48 + j / 64 * 32 + j % 32));
    const int4 low = four >> (int4)(j % 64 / 32 * 4) & 15;
    return range.s0 * convert_float4(low | fifth << 4) - range.s1;
}
