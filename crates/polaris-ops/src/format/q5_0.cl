// Q5_0: 32 elements in 22 bytes, a scale in half precision, 4 bytes whose bit j is the fifth bit of element j, and 16
// bytes of two elements each: byte j holds element j in its lower half and element j + 16 in its upper half. Elements
// are raised by 16.

#define storage_q5_0 uchar

float load_q5_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 22;
    const float scale = vload_half(0, (__global const half *)block);
    const uint j = (uint)i % 32;
    const uint fifth = block[2 + j / 8] >> j % 8 & 1;
    const uint low = block[6 + j % 16] >> j / 16 * 4 & 15;
    return scale * (float)((int)(low | fifth << 4) - 16);
}

float4 load4_q5_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 22;
    const float scale = vload_half(0, (__global const half *)block);
    const uint j = (uint)i % 32;
    const int4 fifth = (int4)(block[2 + j / 8] >> j % 8) >> (int4)(0, 1, 2, 3) & 1;
    const int4 low = convert_int4(vload4(0, block + 6 + j % 16)) >> (int4)(j / 16 * 4) & 15;
    return scale * convert_float4((low | fifth << 4) - 16);
}
