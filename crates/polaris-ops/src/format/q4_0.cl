// Q4_0: 32 elements in 18 bytes, a scale in half precision and 16 bytes of two elements each: byte j holds element j
// in its lower half and element j + 16 in its upper half, both raised by 8.

#define storage_q4_0 uchar

float load_q4_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 18;
    const float scale = vload_half(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return scale * (float)((int)(block[2 + i % 16] >> shift & 15) - 8);
}

float4 load4_q4_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 18;
    const float scale = vload_half(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    const int4 pairs = convert_int4(vload4(0, block + 2 + i % 16));
    return scale * convert_float4((pairs >> (int4)(shift) & 15) - 8);
}
