// Rows of tokens written into a paged cache of blocks: 32 elements with a scale in half precision.
//
// Layouts: rows of the cache are whole blocks, rows of the tokens are any; one work-item for each block.
//
// Parameters:
//   BITS           8 for Q8_0, 4 for Q4_0
//   WORK_GROUP     work-items in a group
//
// Arguments:
//   n              blocks
//   sizes          heads, elements of a row, positions of a page, slots of the cache, whether rows are read in fours
//   x_strides      of tokens, heads and elements
//   cache_strides  of pages, positions and heads, in elements: multiples of 32
//
// Tokens whose slot does not exist are not written. A block with an element that is not finite, or whose scale is
// beyond half precision, has a scale of NaN.
#ifndef BITS
#define BITS 8
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define HEADS sizes.s0
#define DEPTH sizes.s1
#define PAGE_SIZE sizes.s2
#define SLOTS sizes.s3
#define IN_FOURS sizes.s4

#define ALL(i, count) _Pragma("unroll") for (uint i = 0; i < (count); ++i)

// Scales below this are zero in half precision, those from the other on infinite.
#define LEAST_SCALE 2.98023224e-8f
#define MOST_SCALE 65520.0f

#if BITS == 8
#define BYTES 34
#define SCALE(extreme) (fabs(extreme) / 127.0f)
// Halves are rounded away from zero.
#define LEVEL(x) ((uint)(int)round(x) & 255)
#define PAIR(i) (LEVELS(2 * (i)) | LEVELS(2 * (i) + 1) << 8)
#else
#define BYTES 18
// The element of the largest magnitude becomes -8, which has no positive counterpart.
#define SCALE(extreme) ((extreme) / -8.0f)
#define LEVEL(x) min((uint)((x) + 8.5f), 15u)
// Byte j has element j in its lower half and element j + 16 in its upper half.
#define BYTE(j) (LEVELS(j) | LEVELS((j) + 16) << 4)
#define PAIR(i) (BYTE(2 * (i)) | BYTE(2 * (i) + 1) << 8)
#endif
#define LEVELS(j) LEVEL(is_number ? values[j] * inverse : 0.0f)

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void cache_write_blocks(ulong n, uint8 sizes, uint4 x_strides, uint4 cache_strides,
                        __global uchar *cache, ulong cache_at, __global const float *x, ulong x_at,
                        __global const int *slots, ulong slots_at, ulong slot_step)
{
    const ulong item = get_global_id(0);
    if (item >= n) {
        return;
    }
    const uint width = DEPTH / 32;
    const uint first = (uint)(item % width) * 32;
    const ulong row = item / width;
    const uint head = (uint)(row % HEADS);
    const ulong token = row / HEADS;
    const int slot = slots[slots_at + token * slot_step];
    if (slot < 0 || (uint)slot >= SLOTS) {
        return;
    }
    const ulong from = x_at + token * x_strides.s0 + (ulong)head * x_strides.s1 + (ulong)first * x_strides.s2;
    float values[32];
    if (IN_FOURS) {
        ALL(i, 8) {
            const float4 four = LOAD4(f32)(x, from + 4 * i);
            values[4 * i] = four.s0;
            values[4 * i + 1] = four.s1;
            values[4 * i + 2] = four.s2;
            values[4 * i + 3] = four.s3;
        }
    } else {
        ALL(i, 32) { values[i] = x[from + (ulong)i * x_strides.s2]; }
    }
    float extreme = 0.0f;
    bool is_number = true;
    ALL(i, 32) {
        extreme = fabs(values[i]) > fabs(extreme) ? values[i] : extreme;
        is_number = is_number && fabs(values[i]) <= FLT_MAX;
    }
    const float scale = SCALE(extreme);
    is_number = is_number && fabs(scale) < MOST_SCALE;
    // The levels of a scale of zero do not matter, but their conversion must be defined.
    const float inverse = fabs(scale) > LEAST_SCALE ? 1.0f / scale : 0.0f;
    const ulong to = cache_at + (ulong)((uint)slot / PAGE_SIZE) * cache_strides.s0
        + (ulong)((uint)slot % PAGE_SIZE) * cache_strides.s1 + (ulong)head * cache_strides.s2 + first;
    // Blocks begin at even bytes.
    __global ushort *block = (__global ushort *)(cache + to / 32 * BYTES);
    if (is_number) {
        vstore_half_rte(scale, 0, (__global half *)block);
    } else {
        block[0] = 0x7e00;
    }
    ALL(i, BYTES / 2 - 1) { block[1 + i] = (ushort)PAIR(i); }
}
