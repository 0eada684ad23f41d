// Layer and RMS normalisation along the last axis, and their gradients.
//
// Layouts: `norm_group` gives each row a work-group, whose items walk it side by side and combine
// through local memory; rows are dense. `norm_serial` gives each row one work-item and takes any
// layout. `norm_columns` (norm_columns.cl, which follows this file) adds up the gradient of the
// weight.
//
// Parameters:
//   TASK           what becomes of a row: 0 its normalised elements, 1 the gradient of x, 2 its
//                  statistics (centre, rest and factor); 3 the gradient of the weight
//   LAYER          1 for layer, 0 for RMS normalisation
//   IN             type of the elements
//   OUT            type of the output: IN, or what ACC is stored as (TASK 2 and 3)
//   ACC            type of sums: float or double
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   ONE_AXIS       1 if there is at most one axis before the last: wide strides of more than one do not
//                  leave enough scalar registers to the rest of norm_group
//   WORK_GROUP     work-items in a group, a power of two for norm_group
//   GROUPED        1 for norm_group, 0 for norm_serial (TASK 0 to 2)
//   WIDTH          elements that are read at once: 4, where rows, weight and bias are aligned to four
//                  and rows are a multiple of it, or 1
//   KEPT           how often an item of norm_group can read WIDTH elements and keep them in registers,
//                  so that memory is read once; 0 for longer rows, which are read by every pass
//
// Rows are found by the axes before the last one, the outermost first; `..._step` is the stride along
// the last axis. `has` tells which of weight (1) and bias (2) there are: it is an argument, since a
// branch that all items take together costs next to nothing, while each program costs a build.
#ifndef TASK
#define TASK 0
#define LAYER 1
#define IN f32
#define OUT f32
#define ACC float
#define INDEX uint
#define ONE_AXIS 0
#define GROUPED 1
#define WIDTH 1
#define KEPT 4
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define PAIR PASTE(ACC, 2)
#define HAS_WEIGHT 1u
#define HAS_BIAS 2u

// Where a row begins in each array. All are found at once, since divisions are slow; the outermost
// axis needs none, and most arrays have no other.
#if TASK == 1
#define WITH_G(code) code
#else
#define WITH_G(code)
#endif
#define AXIS(k) \
    if (rank > k) { \
        const INDEX axis = lengths.s##k; \
        const INDEX index = rest_ % axis; \
        rest_ /= axis; \
        to += index * out_strides.s##k; \
        from += index * x_strides.s##k; \
        WITH_G(from_g += index * g_strides.s##k;) \
    }
#if ONE_AXIS
#define INNER_AXES
#else
#define INNER_AXES AXIS(6) AXIS(5) AXIS(4) AXIS(3) AXIS(2) AXIS(1)
#endif
#define FIND_ROW(row) \
    INDEX rest_ = (INDEX)(row), to = 0, from = 0, from_g = 0; \
    INNER_AXES \
    if (rank > 0) { \
        to += rest_ * out_strides.s0; \
        from += rest_ * x_strides.s0; \
        WITH_G(from_g += rest_ * g_strides.s0;) \
    } \
    const ulong out_first = out_at + to, x_first = x_at + from, g_first = g_at + from_g;

// Far from zero, the rounding of the mean may be much beside the differences from it: `rest` is what
// the rounded mean lacks, found from the differences themselves.
#define NORMALISED(v) (((v) - centre - rest) * factor)

// Sets rest and factor from the sum of the differences and of their squares.
#if LAYER
#define FIND_REST(sums) \
    const ACC rest = (sums).x / (ACC)(length); \
    ACC variance = (sums).y / (ACC)(length) - rest * rest; \
    variance = variance < 0 ? (ACC)0 : variance;
#else
#define FIND_REST(sums) \
    const ACC rest = 0; \
    const ACC variance = (sums).y / (ACC)(length);
#endif
#define FIND_FACTOR(sums) \
    FIND_REST(sums) \
    const ACC factor = (ACC)1 / sqrt(variance + epsilon);

#if TASK == 2
#define WRITE_STATISTICS \
    out[out_at + 3 * row] = centre; \
    out[out_at + 3 * row + 1] = rest; \
    out[out_at + 3 * row + 2] = factor;
#endif

#define OPERANDS \
    ulong rows, ulong row_length, ACC epsilon, uint has, uint rank, VECTOR8(INDEX) lengths, \
    VECTOR8(INDEX) out_strides, VECTOR8(INDEX) x_strides, VECTOR8(INDEX) g_strides, \
    INDEX out_step, INDEX x_step, INDEX g_step, INDEX weight_step, INDEX bias_step, \
    __global STORAGE(OUT) *out, ulong out_at, __global const STORAGE(IN) *x, ulong x_at, \
    __global const STORAGE(IN) *g, ulong g_at, \
    __global const STORAGE(IN) *weight, ulong weight_at, __global const STORAGE(IN) *bias, ulong bias_at

#if TASK == 3

#elif GROUPED

// Adds up what the items of a group have found.
PAIR group_sum(uint item, PAIR mine, __local PAIR *sums)
{
    sums[item] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = WORK_GROUP / 2; half_ > 0; half_ /= 2) {
        if (item < half_) {
            sums[item] += sums[item + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const PAIR all = sums[0];
    // The next sum must not begin before everyone has read this one.
    barrier(CLK_LOCAL_MEM_FENCE);
    return all;
}

// Elements in groups of WIDTH, counted by u.
#if WIDTH == 4
#define VALUES VECTOR4(ACC)
#define TOTAL(v) (((v).s0 + (v).s1) + ((v).s2 + (v).s3))
#define READ(p, first, u) LOAD4(IN)(p, (first) + 4 * (u))
#define READ_COLUMN(p, first, step, u) LOAD4(IN)(p, (first) + 4 * (u))
#define WRITE(u, v) STORE4(OUT)(out, out_first + 4 * (u), v);
#else
#define VALUES ACC
#define TOTAL(v) (v)
#define READ(p, first, u) LOAD(IN)(p, (first) + (u))
#define READ_COLUMN(p, first, step, u) LOAD(IN)(p, (first) + (u) * (step))
#define WRITE(u, v) STORE(OUT)(out, out_first + (u), v);
#endif

// What each item does with its part of the row. Where it is kept, the loop has a fixed length and is
// unrolled: an array that is indexed by a variable would not be in registers.
#if KEPT
#define AT(k) (item + (k) * WORK_GROUP)
#define EACH(k) _Pragma("unroll") for (uint k = 0; k < KEPT; ++k) if (AT(k) < count)
#define X(k) kept_x[k]
#else
#define AT(k) (k)
#define EACH(k) for (INDEX k = item; k < count; k += WORK_GROUP)
#define X(k) READ(x, x_first, k)
#endif

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void norm_group(OPERANDS)
{
    __local PAIR sums[WORK_GROUP];
    const uint item = get_local_id(0);
    const ulong row = get_group_id(0);
    const INDEX length = (INDEX)row_length, count = length / WIDTH;
    FIND_ROW(row)
#if KEPT
    VALUES kept_x[KEPT];
    EACH(k) {
        kept_x[k] = READ(x, x_first, AT(k));
    }
#endif
    PAIR mine = (PAIR)(0);
#if LAYER
    EACH(k) {
        const VALUES v = X(k);
        mine.x += TOTAL(v);
    }
    mine = group_sum(item, mine, sums);
    const ACC centre = mine.x / (ACC)(length);
    mine = (PAIR)(0);
#else
    const ACC centre = 0;
#endif
    EACH(k) {
        const VALUES d = X(k) - centre;
        const VALUES square = d * d;
        mine.x += TOTAL(d);
        mine.y += TOTAL(square);
    }
    mine = group_sum(item, mine, sums);
    FIND_FACTOR(mine)
#if TASK == 0
    EACH(k) {
        const VALUES v = X(k);
        VALUES result = NORMALISED(v);
        if (has & HAS_WEIGHT) {
            result *= READ_COLUMN(weight, weight_at, weight_step, AT(k));
        }
        if (has & HAS_BIAS) {
            result += READ_COLUMN(bias, bias_at, bias_step, AT(k));
        }
        WRITE(AT(k), result)
    }
#elif TASK == 1
#if KEPT
    VALUES kept_g[KEPT];
#endif
    mine = (PAIR)(0);
    EACH(k) {
        VALUES inner = READ(g, g_first, AT(k));
        if (has & HAS_WEIGHT) {
            inner *= READ_COLUMN(weight, weight_at, weight_step, AT(k));
        }
        const VALUES v = X(k);
        const VALUES normal = NORMALISED(v);
        const VALUES product = inner * normal;
        mine.x += TOTAL(inner);
        mine.y += TOTAL(product);
#if KEPT
        kept_x[k] = normal;
        kept_g[k] = inner;
#endif
    }
    mine = group_sum(item, mine, sums);
    const ACC along_mean = LAYER ? mine.x / (ACC)(length) : (ACC)0;
    const ACC along_x = mine.y / (ACC)(length);
    EACH(k) {
#if KEPT
        const VALUES normal = kept_x[k], inner = kept_g[k];
#else
        VALUES inner = READ(g, g_first, AT(k));
        if (has & HAS_WEIGHT) {
            inner *= READ_COLUMN(weight, weight_at, weight_step, AT(k));
        }
        const VALUES v = X(k);
        const VALUES normal = NORMALISED(v);
#endif
        const VALUES result = (inner - along_mean - normal * along_x) * factor;
        WRITE(AT(k), result)
    }
#else
    if (item == 0) {
        WRITE_STATISTICS
    }
#endif
}

#else

// Elements of one item are added in blocks: the error of one long sum would grow with its length.
#define BLOCK 64
#define SUM(total, first, j, term) \
    for (INDEX first = 0; first < length; first += BLOCK) { \
        const INDEX end = min(length, first + BLOCK); \
        ACC part = 0; \
        for (INDEX j = first; j < end; ++j) { \
            part += term; \
        } \
        total += part; \
    }

#define X(j) LOAD(IN)(x, x_first + (j) * x_step)
#define WEIGHT(j) ((has & HAS_WEIGHT) ? LOAD(IN)(weight, weight_at + (j) * weight_step) : (ACC)1)
#define BIAS(j) ((has & HAS_BIAS) ? LOAD(IN)(bias, bias_at + (j) * bias_step) : (ACC)0)
#define INNER(j) (LOAD(IN)(g, g_first + (j) * g_step) * WEIGHT(j))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void norm_serial(OPERANDS)
{
    const ulong row = get_global_id(0);
    if (row >= rows) {
        return;
    }
    const INDEX length = (INDEX)row_length;
    FIND_ROW(row)
    ACC centre = 0;
#if LAYER
    SUM(centre, first, j, X(j))
    centre /= (ACC)(length);
#endif
    PAIR moments = (PAIR)(0);
#if LAYER
    SUM(moments.x, first, j, (X(j) - centre))
#endif
    SUM(moments.y, first, j, (X(j) - centre) * (X(j) - centre))
    FIND_FACTOR(moments)
#if TASK == 0
    for (INDEX j = 0; j < length; ++j) {
        STORE(OUT)(out, out_first + j * out_step, NORMALISED(X(j)) * WEIGHT(j) + BIAS(j));
    }
#elif TASK == 1
    ACC along_mean = 0, along_x = 0;
#if LAYER
    SUM(along_mean, first, j, INNER(j))
    along_mean /= (ACC)(length);
#endif
    SUM(along_x, first, j, INNER(j) * NORMALISED(X(j)))
    along_x /= (ACC)(length);
    for (INDEX j = 0; j < length; ++j) {
        const ACC result = (INNER(j) - along_mean - NORMALISED(X(j)) * along_x) * factor;
        STORE(OUT)(out, out_first + j * out_step, result);
    }
#else
    WRITE_STATISTICS
#endif
}

#endif
