// Q6_K: 256 elements in 210 bytes, 128 of the lower four bits (each 128 elements take 64 bytes, the lower halves first),
// 64 of the upper two (each 128 elements take 32 bytes, from the lowest bits up), 16 signed scales of 16 elements each,
// and their factor in half precision. Elements are raised by 32.

#define storage_q6_k uchar

// What the elements from j on are scaled by.
float scale_q6_k(__global const uchar *block, uint j)
{
    return vload_half(104, (__global const half *)block) * (float)as_char(block[192 + j / 16]);
}

float load_q6_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 210;
    const uint j = (uint)i % 256;
    const uint low = block[j / 128 * 64 + j % 64] >> j % 128 / 64 * 4 & 15;
    const uint high = block[128 + j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3;
    return scale_q6_k(block, j) * (float)((int)(low | high << 4) - 32);
}

float4 load4_q6_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 210;
    const uint j = (uint)i % 256;
    const int4 lows = convert_int4(vload4(0, block + j / 128 * 64 + j % 64));
    const int4 highs = convert_int4(vload4(0, block + 128 + j / 128 * 32 + j % 32));
    const int4 low = lows >> (int4)(j % 128 / 64 * 4) & 15;
    const int4 high = highs >> (int4)(j % 128 / 32 * 2) & 3;
    return scale_q6_k(block, j) * convert_float4((low | high << 4) - 32);
}
