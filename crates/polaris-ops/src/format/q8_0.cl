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
    return scale * convert_float4(as_char4(EVEN_WORD(block + 2 + i % 32)));
}

#define elements_q8_0 32
#define start_q8_0(u) ((u) * 32)
#define place_q8_0(i) ((i) * 4)
#define entry_q8_0(i) 0.0f

typedef struct { uint words[8]; float scale; } unit_q8_0;

unit_q8_0 open_q8_0(__global const uchar *row, uint u)
{
    unit_q8_0 unit;
    __global const uchar *block = row + u * 34;
    unit.scale = vload_half(0, (__global const half *)block);
    LOOSE_WORDS(8, block + 2, 0, unit.words)
    return unit;
}

float4 four_q8_0(const unit_q8_0 unit, uint i, __local const float *table)
{
    return unit.scale * convert_float4(as_char4(unit.words[i]));
}
