// Q3_K: 256 elements in 110 bytes, 32 bytes whose bit g of byte j is the third bit of element 32 g + j, 64 bytes of the
// two bits below (each 128 elements take 32 bytes, from the lowest bits up), 12 bytes of scales, and their factor in
// half precision. Elements are raised by 4. The scale of 16 elements has six bits and is raised by 32: its lower four
// are nibbles of the first 8 bytes, its upper two lie in the last 4.

#define storage_q3_k uchar

// What the elements from j on are scaled by.
float scale_q3_k(__global const uchar *block, uint j)
{
    const uint group = j / 16;
    const uint low = block[96 + group % 8] >> group / 8 * 4 & 15;
    const uint high = block[104 + group % 4] >> group / 4 * 2 & 3;
    return vload_half(54, (__global const half *)block) * (float)((int)(low | high << 4) - 32);
}

float load_q3_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 110;
    const uint j = (uint)i % 256;
    const uint third = block[j % 32] >> j / 32 & 1;
    const uint low = block[32 + j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3;
    return scale_q3_k(block, j) * (float)((int)(low | third << 2) - 4);
}

float4 load4_q3_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 110;
    const uint j = (uint)i % 256;
    const int4 third = convert_int4(vload4(0, block + j % 32)) >> (int4)(j / 32) & 1;
    const int4 four = convert_int4(vload4(0, block + 32 + j / 128 * 32 + j % 32));
    const int4 low = four >> (int4)(j % 128 / 32 * 2) & 3;
    return scale_q3_k(block, j) * convert_float4((low | third << 2) - 4);
}
