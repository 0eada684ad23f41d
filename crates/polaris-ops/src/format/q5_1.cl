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
    const int4 fifth = (int4)(block[4 + j / 8] >> j % 8) >> (int4)(0, 1, 2, 3) & 1;
    const int4 low = convert_int4(vload4(0, block + 8 + j % 16)) >> (int4)(j / 16 * 4) & 15;
    return range.s0 * convert_float4(low | fifth << 4) + range.s1;
}
