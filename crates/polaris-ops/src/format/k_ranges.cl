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
