// Q3_K: 256 elements in 110 bytes, 32 bytes whose bit g of byte j is the third bit of element 32 g + j, 64 bytes of the
// two bits below (each 128 elements take 32 bytes, from the lowest bits up), 12 bytes of scales, and their factor in
// half precision. Elements are raised by 4. The scale of 16 elements has six bits and is raised by 32: its lower four
// are nibbles of the first 8 bytes, its upper two lie in the last 4.

#define storage_q3_k uchar

// What the elements from j on are scaled by.
float scale_q3_k(__global const uchar *block, uint j)
{
    const uint group = j / 16;
    const uint low = block[96 + group % 8] >> group / 8 * 4 & 15;
    const uint high = block[104 + group % 4] >> group / 4 * 2 & 3;
    return vload_half(54, (__global const half *)block) * (float)((int)(low | high << 4) - 32);
}

float load_q3_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 110;
    const uint j = (uint)i % 256;
    const uint third = block[j % 32] >> j / 32 & 1;
    const uint low = block[32 + j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3;
    return scale_q3_k(block, j) * (float)((int)(low | third << 2) - 4);
}

float4 load4_q3_k(__global const uchar *blocks, ulong i)
{
    __global const uchar *block = blocks + i / 256 * 110;
    const uint j = (uint)i % 256;
    const uint third = EVEN_WORD(block + j % 32) >> j / 32 & 0x01010101;
    const uint low = EVEN_WORD(block + 32 + j / 128 * 32 + j % 32) >> j % 128 / 32 * 2 & 0x03030303;
    const float scale = scale_q3_k(block, j);
    return scale * floats_of(low | third << 2) - 4.0f * scale;
}

#define elements_q3_k 64
#define start_q3_k(u) ((u) / 2 * 128 + (u) % 2 * 16)
#define place_q3_k(i) ((i) / 4 * 32 + (i) % 4 * 4)
#define entry_q3_k(i) 0.0f

typedef struct { uint words[4], thirds[4]; float scales[4]; } unit_q3_k;

// A unit has 16 bytes of the lower or upper 128 elements: 16 elements at each of four shifts.
unit_q3_k open_q3_k(__global const uchar *row, uint u)
{
    unit_q3_k unit;
    __global const uchar *block = row + u / 4 * 110;
    const uint half_shift = u / 2 % 2 * 4, shift = half_shift + u % 2 * 8;
    const float factor = vload_half(54, (__global const half *)block);
    uint bits[3];
    LOOSE_WORDS(3, block + 96, 0, bits)
    LOOSE_WORDS(4, block + 32 + u % 4 * 16, 0, unit.words)
    LOOSE_WORDS(4, block + u % 2 * 16, 0, unit.thirds)
    FOR_ALL (uint j = 0; j < 4; ++j) {
        unit.thirds[j] = unit.thirds[j] >> half_shift << 2;
    }
    FOR_ALL (uint s = 0; s < 4; ++s) {
        const uint low = bits[s / 2] >> (shift + s % 2 * 16) & 15;
        const uint high = bits[2] >> (shift + s % 2 * 16 + s / 2 * 2) & 3;
        unit.scales[s] = factor * ((float)(low | high << 4) - 32.0f);
    }
    return unit;
}

float4 four_q3_k(const unit_q3_k unit, uint i, __local const float *table)
{
    const uint j = i % 4, s = i / 4;
    const uint levels = (unit.words[j] >> 2 * s & 0x03030303) | (unit.thirds[j] >> s & 0x04040404);
    return unit.scales[s] * floats_of(levels) - 4.0f * unit.scales[s];
}
