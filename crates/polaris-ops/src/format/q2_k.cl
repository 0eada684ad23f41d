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
    const int4 four = convert_int4(vload4(0, block + 16 + j / 128 * 32 + j % 32));
    return range.s0 * convert_float4(four >> (int4)(j % 128 / 32 * 2) & 3) - range.s1;
}
