// Q4_1: 32 elements in 20 bytes, a scale and a minimum in half precision, and 16 bytes of two elements each: byte j
// holds element j in its lower half and element j + 16 in its upper half.

#define storage_q4_1 uchar

float load_q4_1(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 20;
    const float2 range = vload_half2(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return range.s0 * (float)(block[4 + i % 16] >> shift & 15) + range.s1;
}

float4 load4_q4_1(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 20;
    const float2 range = vload_half2(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    const int4 pairs = convert_int4(vload4(0, block + 4 + i % 16));
    return range.s0 * convert_float4(pairs >> (int4)(shift) & 15) + range.s1;
}
