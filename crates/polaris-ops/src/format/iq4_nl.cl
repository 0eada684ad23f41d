// IQ4_NL: 32 elements in 18 bytes, a scale in half precision and 16 bytes of two elements each: byte j holds element j
// in its lower half and element j + 16 in its upper half, as places in iq4_table.cl.

#define storage_iq4_nl uchar

float load_iq4_nl(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 18;
    const float scale = vload_half(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return scale * (float)iq4_table[block[2 + i % 16] >> shift & 15];
}

float4 load4_iq4_nl(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 18;
    const float scale = vload_half(0, (__global const half *)block);
    const uint shift = (uint)i % 32 / 16 * 4;
    return scale * iq4_values(convert_uint4(vload4(0, block + 2 + i % 16)) >> (uint4)(shift) & 15);
}
