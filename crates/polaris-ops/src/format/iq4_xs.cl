// IQ4_XS: 256 elements in 136 bytes, a factor in half precision, the upper two bits of 8 scales in 2 bytes and the lower
// four in 4 bytes, and for each 32 elements 16 bytes of two elements each: byte j holds element j in its lower half and
// element j + 16 in its upper half, as places in iq4_table.cl. Scales are raised by 32.

#define storage_iq4_xs uchar

// What the elements of group number `group` are scaled by.
float scale_iq4_xs(__global const uchar *block, uint group)
{
    const uint high = block[2 + group / 4] >> group % 4 * 2 & 3;
    const uint low = block[4 + group / 2] >> group % 2 * 4 & 15;
    return vload_half(0, (__global const half *)block) * (float)((int)(low | high << 4) - 32);
}

float load_iq4_xs(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 136;
    const uint group = (uint)i % 256 / 32, j = (uint)i % 32;
    const uint place = block[8 + group * 16 + j % 16] >> j / 16 * 4 & 15;
    return scale_iq4_xs(block, group) * (float)iq4_table[place];
}

float4 load4_iq4_xs(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 136;
    const uint group = (uint)i % 256 / 32, j = (uint)i % 32;
    return scale_iq4_xs(block, group) * iq4_values(WORD(block + 8 + group * 16 + j % 16) >> j / 16 * 4);
}

#define elements_iq4_xs 32
#define start_iq4_xs(u) ((u) * 32)
#define place_iq4_xs(i) ((i) * 4)
#define entry_iq4_xs(i) (float)iq4_table[i]

typedef struct { uint words[4]; float scale; } unit_iq4_xs;

unit_iq4_xs open_iq4_xs(__global const uchar *row, uint u)
{
    unit_iq4_xs unit;
    __global const uchar *block = row + u / 8 * 136;
    const uint group = u % 8;
    uint bits[2];
    WORDS(2, block, bits)
    WORDS(4, block + 8 + group * 16, unit.words)
    const uint low = bits[1] >> 4 * group & 15, high = bits[0] >> (16 + 2 * group) & 3;
    unit.scale = vload_half(0, (__global const half *)block) * ((float)(low | high << 4) - 32.0f);
    return unit;
}

float4 four_iq4_xs(const unit_iq4_xs unit, uint i, __local const float *table)
{
    return unit.scale * looked_up(unit.words[i % 4] >> i / 4 * 4, table);
}
