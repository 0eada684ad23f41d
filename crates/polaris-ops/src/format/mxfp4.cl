// MXFP4: 32 elements in 17 bytes, an exponent of two and 16 bytes of two elements each: byte j holds element j in its
// lower half and element j + 16 in its upper half. Elements are E2M1 numbers: 0, 1, 2, 3, 4, 6, 8 or 12 halves, and bit
// 3 is the sign.

#define storage_mxfp4 uchar

// Half of the power of two, since values are doubled. The smallest two are not normal numbers.
float scale_mxfp4(uint exponent)
{
    return as_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

int4 doubled_mxfp4(int4 four)
{
    const int4 three = four & 7;
    const int4 magnitude = max(three, max(2 * three - 4, 4 * three - 16));
    return (four & 8) != 0 ? -magnitude : magnitude;
}

float load_mxfp4(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 17;
    const uint shift = (uint)i % 32 / 16 * 4;
    const int value = doubled_mxfp4((int4)(block[1 + i % 16] >> shift & 15)).s0;
    return scale_mxfp4(block[0]) * (float)value;
}

float4 load4_mxfp4(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 32 * 17;
    const uint shift = (uint)i % 32 / 16 * 4;
    const int4 pairs = convert_int4(vload4(0, block + 1 + i % 16));
    return scale_mxfp4(block[0]) * convert_float4(doubled_mxfp4(pairs >> (int4)(shift) & 15));
}

#define elements_mxfp4 32
#define start_mxfp4(u) ((u) * 32)
#define place_mxfp4(i) ((i) * 4)
#define entry_mxfp4(i) (float)doubled_mxfp4((int4)(i)).s0

typedef struct { uint words[4]; float scale; } unit_mxfp4;

unit_mxfp4 open_mxfp4(__global const uchar *row, uint u)
{
    unit_mxfp4 unit;
    __global const uchar *block = row + u * 17;
    unit.scale = scale_mxfp4(block[0]);
    LOOSE_WORDS(4, block + 1, 1, unit.words)
    return unit;
}

float4 four_mxfp4(const unit_mxfp4 unit, uint i, __local const float *table)
{
    return unit.scale * looked_up(unit.words[i % 4] >> i / 4 * 4, table);
}
