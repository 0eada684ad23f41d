// Q6_K: 256 elements in 210 bytes, 128 of the lower four bits (each 128 elements take 64 bytes, the lower halves first),
// 64 of the upper two (each 128 elements take 32 bytes, from the lowest bits up), 16 signed scales of 16 elements each,
// and their factor in half precision. Elements are raised by 32.

#define storage_q6_k uchar

// What the elements from j on are scaled by.
float scale_q6_k(__global const uchar *block, uint j)
{
    return vload_half(104, (__global const half *)block) * (float)as_char(block[192 + j / 16]);
}

float load_q6_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 210;
    const uint j = (uint)i % 256;
    const uint low = block[j / 128 * 64 + j % 64] >> j % 128 / 64 * 4 & 15;
    const uint high = block[128 + j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3;
    return scale_q6_k(block, j) * (float)((int)(low | high << 4) - 32);
}

float4 load4_q6_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 210;
    const uint j = (uint)i % 256;
    const uint low = EVEN_WORD(block + j / 128 * 64 + j % 64) >> j % 128 / 64 * 4 & 0x0f0f0f0f;
    const uint high = EVEN_WORD(block + 128 + j / 128 * 32 + j % 32) >> j % 128 / 32 * 2 & 0x03030303;
    const float scale = scale_q6_k(block, j);
    return scale * floats_of(low | high << 4) - 32.0f * scale;
}

#define elements_q6_k 64
#define start_q6_k(u) ((u) / 2 * 128 + (u) % 2 * 16)
#define place_q6_k(i) ((i) / 4 * 32 + (i) % 4 * 4)
#define entry_q6_k(i) 0.0f

typedef struct { uint lower[8], upper[4]; float scales[4]; } unit_q6_k;

// A unit has twice 16 bytes of lower bits and 16 of upper ones, of the lower or upper 128 elements: 16 elements at each
// of four shifts.
unit_q6_k open_q6_k(__global const uchar *row, uint u)
{
    unit_q6_k unit;
    __global const uchar *block = row + u / 4 * 210;
    const uint upper_half = u / 2 % 2, at = u % 2 * 16;
    const float factor = vload_half(104, (__global const half *)block);
    LOOSE_WORDS(4, block + upper_half * 64 + at, 0, unit.lower)
    LOOSE_WORDS(4, block + upper_half * 64 + 32 + at, 0, unit.lower + 4)
    LOOSE_WORDS(4, block + 128 + upper_half * 32 + at, 0, unit.upper)
    uint bits[2];
    LOOSE_WORDS(2, block + 192 + upper_half * 8, 0, bits)
    FOR_ALL (uint s = 0; s < 4; ++s) {
        const char scale = (char)(bits[s / 2] >> (u % 2 * 8 + s % 2 * 16));
        unit.scales[s] = factor * (float)scale;
    }
    return unit;
}

float4 four_q6_k(const unit_q6_k unit, uint i, __local const float *table)
{
    const uint j = i % 4, s = i / 4;
    const uint low = unit.lower[i % 8] >> s / 2 * 4 & 0x0f0f0f0f;
    const uint high = (s < 2 ? unit.upper[j] << (4 - 2 * s) : unit.upper[j] >> (2 * s - 4)) & 0x30303030;
    return unit.scales[s] * floats_of(low | high) - 32.0f * unit.scales[s];
}
