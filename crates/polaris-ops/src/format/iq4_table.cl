// The values that four bits of IQ4_NL and IQ4_XS stand for.

__constant char iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

float4 iq4_values(uint4 four)
{
    return (float4)(iq4_table[four.s0], iq4_table[four.s1], iq4_table[four.s2], iq4_table[four.s3]);
}
