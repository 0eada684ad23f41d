// The values that four bits of IQ4_NL and IQ4_XS stand for.

__constant char iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Those of the lower halves of four bytes.
float4 iq4_values(uint bytes)
{
    return (float4)(iq4_table[bytes & 15], iq4_table[bytes >> 8 & 15], iq4_table[bytes >> 16 & 15],
                    iq4_table[bytes >> 24 & 15]);
}
