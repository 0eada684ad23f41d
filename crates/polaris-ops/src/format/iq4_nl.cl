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
    return scale * iq4_values(EVEN_WORD(block + 2 + i % 16) >> shift);
}

#define elements_iq4_nl 32
#define start_iq4_nl(u) ((u) * 32)
#define place_iq4_nl(i) ((i) * 4)
#define entry_iq4_nl(i) (float)iq4_table[i]

typedef struct { uint words[4]; float scale; } unit_iq4_nl;

unit_iq4_nl open_iq4_nl(__global const uchar *row, uint u)
{
    unit_iq4_nl unit;
    __global const uchar *block = row + u * 18;
    unit.scale = vload_half(0, (__global const half *)block);
    LOOSE_WORDS(4, block + 2, 0, unit.words)
    return unit;
}

float4 four_iq4_nl(const unit_iq4_nl unit, uint i, __local const float *table)
{
    return unit.scale * looked_up(unit.words[i % 4] >> i / 4 * 4, table);
}
