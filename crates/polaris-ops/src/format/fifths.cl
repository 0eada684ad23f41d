// Fifth bits of Q5_0 and Q5_1, which lie in a word of their own.

// Those of elements 4 i to 4 i + 3, each in its byte: the product has bit b of the four at 8 b, and others elsewhere.
uint fifths_of(uint bits, uint i)
{
    return mul24(bits >> 4 * i & 15, 0x204081u) << 4 & 0x10101010;
}
