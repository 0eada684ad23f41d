// Scales and minima of Q4_K and Q5_K: in half precision the factors of both, and 12 bytes with six bits each for every
// 32 elements. The first four are the lower six bits of bytes 0 to 3 and 4 to 7; of the others the lower four bits are
// the nibbles of bytes 8 to 11, and the upper two those that were left.

// What group number `group` is scaled by, and what is taken from it.
float2 k_range(__global const uchar *block, uint group)
{
    const uint at = group % 4;
    const uint first = block[4 + at], second = block[8 + at], both = block[12 + at];
    const uint scale = group < 4 ? first & 63 : (both & 15) | first >> 6 << 4;
    const uint minimum = group < 4 ? second & 63 : both >> 4 | second >> 6 << 4;
    return vload_half2(0, (__global const half *)block) * (float2)(scale, minimum);
}

// The same for groups 2 q and 2 q + 1: two scales, then two minima.
float4 k_ranges(__global const uchar *block, uint q)
{
    uint head[4];
    FOUR_WORDS(block, head)
    const uint *bits = head + 1;
    const uint shift = q % 2 * 16;
    const uint first = bits[0] >> shift, second = bits[1] >> shift, both = bits[2] >> shift;
    const uint scales = q < 2 ? first & 0x3f3f : (both & 0x0f0f) | (first >> 2 & 0x3030);
    const uint minima = q < 2 ? second & 0x3f3f : (both >> 4 & 0x0f0f) | (second >> 2 & 0x3030);
    const float2 factors = vload_half2(0, (const half *)head);
    return (float4)(factors.s0, factors.s0, factors.s1, factors.s1)
        * (float4)(scales & 255, scales >> 8 & 255, minima & 255, minima >> 8 & 255);
}
