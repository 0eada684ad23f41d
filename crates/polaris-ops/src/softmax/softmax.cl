// Softmax and log-softmax along one axis, and their gradients. A row is what one sum is taken over.
// The order in which its elements are added depends on its length alone.
//
// Layouts: `softmax_group` gives each row a work-group, whose items walk it side by side, four
// elements each, and combine through local memory; with HELD the row is kept in registers and read
// once. `softmax_serial` gives each row a work-item, in any layout.
//
// Parameters:
//   T              element type: f32, f16, bf16 or f64
//   C              compute type: float or double
//   LOG            1 for the log-softmax
//   GRADIENT       1 for the gradient: `a` is the forward result, `b` the gradient of it;
//                  0 for the forward function of `a`, and `b` is not looked at
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group, a power of two
//   GROUP          1 for softmax_group, 0 for softmax_serial
//   HELD           vectors of four that an item holds (GROUP only): rows are at most
//                  4 * HELD * WORK_GROUP long; 0 if rows of any length are read once for each pass
//
// The axes of the rows' first elements are the first `rank` ones of `lengths` and the strides; .s7
// is the axis of the rows themselves.
//
// `vectors` says that rows are dense and aligned to four in every array, so that elements can be
// read and written in fours. It and the rank are arguments and not parameters: branches on them
// cost next to nothing, while each program costs a build.
//
// The output may be an input: each element is written by the item that has read it last.
#ifndef T
#define T f32
#define C float
#define LOG 0
#define GRADIENT 0
#define INDEX uint
#define GROUP 1
#define HELD 1
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define C4 VECTOR4(C)

// ADDEND is what an element adds to its row's sum, TOTAL what results need of the sum, RESULT what
// becomes of the element. A row's largest element is `largest`. PADDING is an element that adds
// nothing.
#if GRADIENT
#define PADDING ((C)0)
#define TOTAL(sum) (sum)
#if LOG
#define ADDEND(a, b) (b)
#define RESULT(a, b) ((b) - exp(a) * total)
#else
#define ADDEND(a, b) ((a) * (b))
#define RESULT(a, b) ((a) * ((b) - total))
#endif
#else
#define PADDING ((C)-INFINITY)
#define ADDEND(a, b) exp((a) - largest)
#if LOG
#define TOTAL(sum) log(sum)
#define RESULT(a, b) ((a) - largest - total)
#else
#define TOTAL(sum) ((C)1 / (sum))
#define RESULT(a, b) (exp((a) - largest) * total)
#endif
#endif

// A NaN is never the larger one: it shows in the sum, whatever is subtracted from it.
#define LARGER(x, y) ((y) > (x) ? (y) : (x))
#define PLUS(x, y) ((x) + (y))

#define OPERANDS \
    ulong rows, uint rank, uint vectors, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides, \
    VECTOR8(INDEX) a_strides, VECTOR8(INDEX) b_strides, \
    __global STORAGE(T) *out, ulong out_at, __global const STORAGE(T) *a, ulong a_at, \
    __global const STORAGE(T) *b, ulong b_at

// Where a row begins in each array.
#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ia += index * a_strides.s##k; \
    ib += index * b_strides.s##k;
#define FIND_ROW(row) \
    INDEX io = 0, ia = 0, ib = 0; \
    { \
        INDEX rest = (INDEX)(row); \
        WALK_AXES(7) \
    } \
    const ulong out_row = out_at + io, a_row = a_at + ia, b_row = b_at + ib; \
    const INDEX length = lengths.s7;

#define READ(p, at, strides, r) ((C)LOAD(T)(p, (at) + (r) * strides.s7))
#define READ_A(r) READ(a, a_row, a_strides, r)
#if GRADIENT
#define READ_B(r) READ(b, b_row, b_strides, r)
#else
#define READ_B(r) PADDING
#endif
#define WRITE(r, value) STORE(T)(out, out_row + (r) * out_strides.s7, value)

#if GROUP

// Combines one value of each item; every item gets the result. The order is that of a tree.
#define COMBINE_ITEMS(function, combine) \
    C function(uint item, C value, __local C *values) \
    { \
        values[item] = value; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        for (uint half_ = WORK_GROUP / 2; half_ > 0; half_ /= 2) { \
            if (item < half_) { \
                const C mine = values[item], other = values[item + half_]; \
                values[item] = combine(mine, other); \
            } \
            barrier(CLK_LOCAL_MEM_FENCE); \
        } \
        const C result = values[0]; \
        /* Nobody may write before all have read. */ \
        barrier(CLK_LOCAL_MEM_FENCE); \
        return result; \
    }
COMBINE_ITEMS(largest_of_items, LARGER)
COMBINE_ITEMS(sum_of_items, PLUS)

// Four elements from `r` on; those beyond the row are padding.
#define READ_FOUR(target, p, at, strides, r) \
    if (vectors && (r) < length && length - (r) >= 4) { \
        target = CONVERT4(C)(LOAD4(T)(p, (at) + (r))); \
    } else { \
        target = (C4)(PADDING); \
        if ((r) < length) target.s0 = READ(p, at, strides, r); \
        if ((r) + 1 < length) target.s1 = READ(p, at, strides, (r) + 1); \
        if ((r) + 2 < length) target.s2 = READ(p, at, strides, (r) + 2); \
        if ((r) + 3 < length) target.s3 = READ(p, at, strides, (r) + 3); \
    }
#define WRITE_FOUR(r, v) \
    if (vectors && (r) < length && length - (r) >= 4) { \
        STORE4(T)(out, out_row + (r), v); \
    } else { \
        if ((r) < length) WRITE(r, v.s0); \
        if ((r) + 1 < length) WRITE((r) + 1, v.s1); \
        if ((r) + 2 < length) WRITE((r) + 2, v.s2); \
        if ((r) + 3 < length) WRITE((r) + 3, v.s3); \
    }
#define READ_FOUR_A(target, r) READ_FOUR(target, a, a_row, a_strides, r)
#if GRADIENT
#define READ_FOUR_B(target, r) READ_FOUR(target, b, b_row, b_strides, r)
#else
#define READ_FOUR_B(target, r)
#endif

#define LARGEST_OF_FOUR(v) \
    largest4.s0 = LARGER(largest4.s0, v.s0); \
    largest4.s1 = LARGER(largest4.s1, v.s1); \
    largest4.s2 = LARGER(largest4.s2, v.s2); \
    largest4.s3 = LARGER(largest4.s3, v.s3);
#define COMBINE_LARGEST \
    largest = LARGER(LARGER(largest4.s0, largest4.s1), LARGER(largest4.s2, largest4.s3)); \
    largest = largest_of_items(item, largest, values);
#define COMBINE_SUM \
    const C sum = sum_of_items(item, (sum4.s0 + sum4.s1) + (sum4.s2 + sum4.s3), values); \
    const C total = TOTAL(sum);

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void softmax_group(OPERANDS)
{
    __local C values[WORK_GROUP];
    const uint item = get_local_id(0);
    FIND_ROW(get_group_id(0))
    C largest = 0;
    C4 sum4 = (C4)((C)0);
#if HELD
    C4 u[HELD];
    C4 v[GRADIENT ? HELD : 1];
#define AT(k) ((INDEX)4 * ((k) * WORK_GROUP + item))
#pragma unroll
    for (uint k = 0; k < HELD; ++k) {
        READ_FOUR_A(u[k], AT(k))
#if GRADIENT
        READ_FOUR_B(v[k], AT(k))
#endif
    }
#if !GRADIENT
    C4 largest4 = (C4)(PADDING);
#pragma unroll
    for (uint k = 0; k < HELD; ++k) {
        LARGEST_OF_FOUR(u[k])
    }
    COMBINE_LARGEST
#endif
#pragma unroll
    for (uint k = 0; k < HELD; ++k) {
        const C4 addend = ADDEND(u[k], v[k]);
        sum4 += addend;
#if !GRADIENT && !LOG
        u[k] = addend;
#endif
    }
    COMBINE_SUM
#pragma unroll
    for (uint k = 0; k < HELD; ++k) {
#if !GRADIENT && !LOG
        const C4 result = u[k] * total;
#else
        const C4 result = RESULT(u[k], v[k]);
#endif
        WRITE_FOUR(AT(k), result)
    }
#else
    const INDEX step = 4 * WORK_GROUP;
    C4 u, v;
#if !GRADIENT
    C4 largest4 = (C4)(PADDING);
    for (INDEX r = 4 * item; r < length; r += step) {
        READ_FOUR_A(u, r)
        LARGEST_OF_FOUR(u)
    }
    COMBINE_LARGEST
#endif
    for (INDEX r = 4 * item; r < length; r += step) {
        READ_FOUR_A(u, r)
        READ_FOUR_B(v, r)
        sum4 += ADDEND(u, v);
    }
    COMBINE_SUM
    for (INDEX r = 4 * item; r < length; r += step) {
        READ_FOUR_A(u, r)
        READ_FOUR_B(v, r)
        const C4 result = RESULT(u, v);
        WRITE_FOUR(r, result)
    }
#endif
}

#else

// Elements that are added up before they are added to the sum: of many numbers added one by one,
// the last ones would lose their lower digits.
#define STRETCH 64

// The loops are not vectorised: PoCL 3.1 (LLVM 14) gave wrong sums of f16 elements where it did so.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void softmax_serial(OPERANDS)
{
    const ulong row = get_global_id(0);
    if (row >= rows) {
        return;
    }
    FIND_ROW(row)
    C largest = PADDING;
#if !GRADIENT
#pragma clang loop vectorize(disable) interleave(disable)
    for (INDEX r = 0; r < length; ++r) {
        const C v = READ_A(r);
        largest = LARGER(largest, v);
    }
#endif
    C sum = 0;
#pragma clang loop vectorize(disable) interleave(disable)
    for (INDEX first = 0; first < length; first += STRETCH) {
        const INDEX end = min(length, first + STRETCH);
        C part = 0;
#pragma clang loop vectorize(disable) interleave(disable)
        for (INDEX r = first; r < end; ++r) {
            part += ADDEND(READ_A(r), READ_B(r));
        }
        sum += part;
    }
    const C total = TOTAL(sum);
#pragma clang loop vectorize(disable) interleave(disable)
    for (INDEX r = 0; r < length; ++r) {
        const C result = RESULT(READ_A(r), READ_B(r));
        WRITE(r, result);
    }
}

#endif
