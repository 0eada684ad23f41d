// What kernels read blocks with. Blocks begin at any byte, memory is read in words: a word at any byte is made of the
// two that it lies in. Of these none is beyond the word of the last byte, so that nothing is read behind the blocks.
//
// Units: kernels that multiply rows take a unit of a row at a time, some elements that one work-item unpacks, so that
// it reads scales once for all of them. Of format t there are
//   elements_t            elements of a unit, a multiple of four
//   start_t(u)            the place in the row of the first element of unit u
//   place_t(i)            where the fours of a unit are from there: four number i
//   unit_t                what is kept of a unit
//   open_t(row, u)        reads unit u of the row that begins at `row`
//   four_t(unit, i, table)  four number i of a unit; `table` has 16 values in local memory
//   entry_t(i)            these values, if the format has a table

#define FOR_ALL _Pragma("unroll") for

// Words at bytes that are multiples of four.
#define WORDS(count, p, words) \
    FOR_ALL (uint w_ = 0; w_ < (count); ++w_) { (words)[w_] = ((__global const uint *)(p))[w_]; }

// Four words at bytes that are multiples of 16, as blocks of Q4_K and Q5_K are: one instruction.
#define FOUR_WORDS(p, words) vstore4(*(__global const uint4 *)(p), 0, words);

// A word at a byte that is a multiple of four, and one at an even byte that begins nothing longer.
#define WORD(p) (*(__global const uint *)(p))
#define EVEN_WORD(p) ((uint)((__global const ushort *)(p))[0] | (uint)((__global const ushort *)(p))[1] << 16)

// Words at any even byte, with `odd` 1 at any byte.
#define LOOSE_WORDS(count, p, odd, words) \
    { \
        const uint byte_ = (uint)(size_t)(p) & (2 | (odd)); \
        __global const uint *first_ = (__global const uint *)((p) - byte_); \
        __global const uint *last_ = (__global const uint *)((size_t)((p) + 4 * (count) - 1) & ~(size_t)3); \
        uint raw_[(count) + 1]; \
        FOR_ALL (uint w_ = 0; w_ < (count); ++w_) { raw_[w_] = first_[w_]; } \
        raw_[count] = *last_; \
        FOR_ALL (uint w_ = 0; w_ < (count); ++w_) { (words)[w_] = WORD_AT(raw_[w_], raw_[w_ + 1], byte_, odd); } \
    }

// The word that begins `byte` bytes into the first of two: one instruction where the compiler has a function for it.
// Elsewhere a choice of two is less than a shift of 64 bits, if the byte is known to be even.
#ifdef __has_builtin
#if __has_builtin(__builtin_amdgcn_alignbyte)
#define WORD_AT(low, high, byte, odd) __builtin_amdgcn_alignbyte(high, low, byte)
#endif
#endif
#ifndef WORD_AT
#define WORD_AT(low, high, byte, odd) \
    ((odd) ? (uint)(((ulong)(high) << 32 | (low)) >> 8 * (byte)) : (byte) ? (low) >> 16 | (high) << 16 : (low))
#endif

// The four bytes of a word.
float4 floats_of(uint bytes)
{
    return convert_float4(as_uchar4(bytes));
}

// What the lower halves of four bytes stand for in a table in local memory.
float4 looked_up(uint bytes, __local const float *table)
{
    return (float4)(table[bytes & 15], table[bytes >> 8 & 15], table[bytes >> 16 & 15], table[bytes >> 24 & 15]);
}
