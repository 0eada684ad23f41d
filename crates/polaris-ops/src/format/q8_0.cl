// Q8_0: 32 elements in 34 bytes, a scale in half precision and 32 signed bytes.

#define storage_q8_0 uchar

float load_q8_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 34;
    const float scale = vload_half(0, (__global const half *)block);
    return scale * (float)as_char(block[2 + i % 32]);
}

float4 load4_q8_0(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 34;
    const float scale = vload_half(0, (__global const half *)block);
    return scale * convert_float4(as_char4(vload4(0, block + 2 + i % 32)));
}
