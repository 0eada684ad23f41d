// Attention and its gradients: the operands, and kernels with a work-item for each query or key,
// which take any sizes and layouts and leave little for a compiler to get wrong. Scores are computed
// where they are needed, and sums that are longer than registers are kept in the output, so that
// no memory grows with the number of scores.
//
// Parameters:
//   T              element type: f32, f16, bf16 or f64
//   C              compute type and type of the output: float or double
//   OUT            the output's element type: f32 or f64
//   TASK           0 for attention, 1 for the gradient of q, 2 for the gradients of k and v
//   SERIAL         1 for the kernels of this file
//   WORK_GROUP     work-items in a group
//
// Arguments:
//   sizes          heads, heads that share one of k and v, queries, keys, elements of a query or key,
//                  elements of a value, whether there is a mask; and as the last one the number of
//                  work-items or work-groups there is work for
//   border         query i sees key j if j <= i + border
//   .._strides     of q, k, v, the mask, the output, the gradient of it and the logarithms, one kind
//                  of stride in each vector, so that those of batches and heads are soon done with;
//                  `steps` are those of elements. 32 bits reach every element: wider strides would
//                  take more scalar registers than there are
//   out            where the result begins, or the first of two; the second is second_at further on
//   o, g, l        the output, the gradient of it and the log-sum-exp (gradients only)
//   means          the sum of each query's output times the gradient of it: the gradient of q writes
//                  it for those of k and v (tiled kernels only)
#ifndef T
#define T f32
#define C float
#define OUT f32
#define TASK 0
#define SERIAL 1
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define HEADS sizes.s0
#define SHARING sizes.s1
#define QUERIES sizes.s2
#define KEYS sizes.s3
#define DEPTH sizes.s4
#define VALUES sizes.s5
#define HAS_MASK sizes.s6
#define WORK sizes.s7

#define OPERANDS \
    C scale, int border, uint8 sizes, uint8 batch_strides, uint8 head_strides, \
    uint8 row_strides, uint8 steps, ulong second_at, \
    __global STORAGE(OUT) *out, ulong out_at, __global const STORAGE(T) *q, ulong q_at, \
    __global const STORAGE(T) *k, ulong k_at, __global const STORAGE(T) *v, ulong v_at, \
    __global const STORAGE(T) *mask, ulong mask_at, __global const STORAGE(T) *o, ulong o_at, \
    __global const STORAGE(T) *g, ulong g_at, __global const STORAGE(OUT) *l, ulong l_at, \
    __global STORAGE(OUT) *means, ulong means_at

// Where the rows of a head begin.
#define HEAD(at, array, batch, head) \
    ((at) + (batch) * batch_strides.array + (head) * head_strides.array)
#define Q_HEAD(batch, head) HEAD(q_at, s0, batch, head)
#define K_HEAD(batch, head) HEAD(k_at, s1, batch, head)
#define V_HEAD(batch, head) HEAD(v_at, s2, batch, head)
#define MASK_HEAD(batch, head) HEAD(mask_at, s3, batch, head)
#define O_HEAD(batch, head) HEAD(o_at, s4, batch, head)
#define G_HEAD(batch, head) HEAD(g_at, s5, batch, head)
#define L_HEAD(batch, head) HEAD(l_at, s6, batch, head)

#define SEES(query, key) ((int)(key) <= (int)(query) + border)

#if SERIAL

// The sum of products of two rows.
C dot_rows(__global const STORAGE(T) *a, ulong a_at, uint a_step,
    __global const STORAGE(T) *b, ulong b_at, uint b_step, uint length)
{
    C sum = 0;
    for (uint i = 0; i < length; ++i) {
        sum += (C)LOAD(T)(a, a_at + i * a_step) * (C)LOAD(T)(b, b_at + i * b_step);
    }
    return sum;
}

// The score of a query and a key, whose rows and mask are known.
#define SCORE(query_row, key_row, mask_row, key) \
    (scale * dot_rows(q, query_row, steps.s0, k, key_row, steps.s1, DEPTH) \
        + (HAS_MASK ? (C)LOAD(T)(mask, (mask_row) + (key) * steps.s3) : (C)0))

#if TASK == 0

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void attention_serial(OPERANDS)
{
    const uint row = get_global_id(0);
    if (row >= WORK) {
        return;
    }
    const uint query = row % QUERIES, head = row / QUERIES % HEADS;
    const uint batch = row / QUERIES / HEADS, key_head = head / SHARING;
    const ulong query_row = Q_HEAD(batch, head) + query * row_strides.s0;
    const ulong mask_row = MASK_HEAD(batch, head) + query * row_strides.s3;
    const ulong k_head = K_HEAD(batch, key_head), v_head = V_HEAD(batch, key_head);
    C largest = -INFINITY, shift = 0, sum = 0;
    for (uint key = 0; key < KEYS && SEES(query, key); ++key) {
        const C score = SCORE(query_row, k_head + key * row_strides.s1, mask_row, key);
        // A NaN is never the larger one: it shows in the sum.
        if (score > largest) {
            sum *= exp(largest - score);
            largest = score;
            shift = score;
        }
        sum += exp(score - shift);
    }
    const ulong out_row = out_at + (ulong)row * VALUES;
    for (uint i = 0; i < VALUES; ++i) {
        STORE(OUT)(out, out_row + i, 0);
    }
    const C factor = sum == 0 ? (C)0 : (C)1 / sum;
    for (uint key = 0; key < KEYS && SEES(query, key); ++key) {
        const C score = SCORE(query_row, k_head + key * row_strides.s1, mask_row, key);
        const C weight = exp(score - shift) * factor;
        const ulong value_row = v_head + key * row_strides.s2;
        for (uint i = 0; i < VALUES; ++i) {
            const C value = LOAD(T)(v, value_row + i * steps.s2);
            STORE(OUT)(out, out_row + i, out[out_row + i] + weight * value);
        }
    }
    STORE(OUT)(out, out_at + second_at + row, shift + log(sum));
}

#else

// The weight of a key for a query and what the output's gradient makes of the score.
#define WEIGHT_AND_SLOPE(query_row, key_row, value_row, g_row, mask_row, key, logarithm, mean) \
    const C score = SCORE(query_row, key_row, mask_row, key); \
    const C weight = logarithm == -INFINITY ? (C)0 : exp(score - logarithm); \
    const C change = dot_rows(g, g_row, steps.s5, v, value_row, steps.s2, VALUES); \
    const C slope = weight * (change - mean) * scale;

#if TASK == 1

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void attention_serial(OPERANDS)
{
    const uint row = get_global_id(0);
    if (row >= WORK) {
        return;
    }
    const uint query = row % QUERIES, head = row / QUERIES % HEADS;
    const uint batch = row / QUERIES / HEADS, key_head = head / SHARING;
    const ulong query_row = Q_HEAD(batch, head) + query * row_strides.s0;
    const ulong mask_row = MASK_HEAD(batch, head) + query * row_strides.s3;
    const ulong o_row = O_HEAD(batch, head) + query * row_strides.s4;
    const ulong g_row = G_HEAD(batch, head) + query * row_strides.s5;
    const ulong k_head = K_HEAD(batch, key_head), v_head = V_HEAD(batch, key_head);
    const C logarithm = LOAD(OUT)(l, L_HEAD(batch, head) + query * row_strides.s6);
    const C mean = dot_rows(o, o_row, steps.s4, g, g_row, steps.s5, VALUES);
    const ulong out_row = out_at + (ulong)row * DEPTH;
    for (uint i = 0; i < DEPTH; ++i) {
        STORE(OUT)(out, out_row + i, 0);
    }
    for (uint key = 0; key < KEYS && SEES(query, key); ++key) {
        const ulong key_row = k_head + key * row_strides.s1;
        const ulong value_row = v_head + key * row_strides.s2;
        WEIGHT_AND_SLOPE(query_row, key_row, value_row, g_row, mask_row, key, logarithm, mean)
        for (uint i = 0; i < DEPTH; ++i) {
            const C element = LOAD(T)(k, key_row + i * steps.s1);
            STORE(OUT)(out, out_row + i, out[out_row + i] + slope * element);
        }
    }
}

#else

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void attention_serial(OPERANDS)
{
    const uint row = get_global_id(0);
    if (row >= WORK) {
        return;
    }
    const uint key_heads = HEADS / SHARING;
    const uint key = row % KEYS, key_head = row / KEYS % key_heads;
    const uint batch = row / KEYS / key_heads;
    const ulong key_row = K_HEAD(batch, key_head) + key * row_strides.s1;
    const ulong value_row = V_HEAD(batch, key_head) + key * row_strides.s2;
    const ulong of_k = out_at + (ulong)row * DEPTH;
    const ulong of_v = out_at + second_at + (ulong)row * VALUES;
    for (uint i = 0; i < DEPTH; ++i) {
        STORE(OUT)(out, of_k + i, 0);
    }
    for (uint i = 0; i < VALUES; ++i) {
        STORE(OUT)(out, of_v + i, 0);
    }
    for (uint head = key_head * SHARING; head < (key_head + 1) * SHARING; ++head) {
        for (uint query = (uint)max((int)key - border, 0); query < QUERIES; ++query) {
            const ulong query_row = Q_HEAD(batch, head) + query * row_strides.s0;
            const ulong mask_row = MASK_HEAD(batch, head) + query * row_strides.s3;
            const ulong o_row = O_HEAD(batch, head) + query * row_strides.s4;
            const ulong g_row = G_HEAD(batch, head) + query * row_strides.s5;
            const C logarithm = LOAD(OUT)(l, L_HEAD(batch, head) + query * row_strides.s6);
            const C mean = dot_rows(o, o_row, steps.s4, g, g_row, steps.s5, VALUES);
            WEIGHT_AND_SLOPE(query_row, key_row, value_row, g_row, mask_row, key, logarithm, mean)
            for (uint i = 0; i < DEPTH; ++i) {
                const C element = LOAD(T)(q, query_row + i * steps.s0);
                STORE(OUT)(out, of_k + i, out[of_k + i] + slope * element);
            }
            for (uint i = 0; i < VALUES; ++i) {
                const C element = LOAD(T)(g, g_row + i * steps.s5);
                STORE(OUT)(out, of_v + i, out[of_v + i] + weight * element);
            }
        }
    }
}

#endif
#endif
#endif
