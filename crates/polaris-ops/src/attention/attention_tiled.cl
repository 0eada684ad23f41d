// Attention and its gradients in tiles of 64 by 64 scores. A work-group of 16 by 16 items has 64 rows
// (queries, or keys for the gradients of k and v) and passes over tiles of columns (keys, or
// queries). An item has four rows and four columns of the scores, and of the results four rows and
// four columns in every 64.
//
// Scores are products of chunks of rows and columns in local memory, CHUNK elements of each at a
// time. Weights then take their turn through local memory as the left factor of the results.
//
// Parameters beside those of attention.cl, which is in front of this file:
//   DEPTH_TILES    columns of the gradients of q and k, in units of 64, rounded up
//   VALUE_TILES    the same of the output and the gradient of v
//
// The operands' head explains the arguments.
#ifndef DEPTH_TILES
#define DEPTH_TILES 1
#define VALUE_TILES 1
#endif

#if !SERIAL

#define TILE 64
#define CHUNK 16
// Rows in local memory are a vector longer, so that columns are not all in the same bank.
#define PITCH (TILE + 4)
#if TASK == 0
#define WIDEST VALUE_TILES
#elif TASK == 1 || DEPTH_TILES > VALUE_TILES
#define WIDEST DEPTH_TILES
#else
#define WIDEST VALUE_TILES
#endif
// Rows of the right factor of the results that are in local memory at a time.
#define STRIDE (WIDEST > 2 ? 8 : 16)
#define STRIP (STRIDE * TILE * WIDEST)
#define CHUNKS (STRIP > 2 * CHUNK * PITCH ? STRIP : 2 * CHUNK * PITCH)

// The rows of one head.
typedef __global const STORAGE(T) *INPUT;
typedef __global const STORAGE(OUT) *STATISTIC;

// Beyond the last row or result the last one is read again: nobody looks at what becomes of it, and a
// smaller index costs less than a branch.

// Copies CHUNK elements of 64 rows, from an element on, as columns; elements beyond the last are
// zero.
void load_columns(__local float *target, INPUT from, uint stride, uint step,
    uint first_row, uint rows, uint first, uint length)
{
    const uint item = get_local_id(0);
    const uint element = item % CHUNK;
#pragma unroll
    for (uint i = 0; i < TILE; i += WORK_GROUP / CHUNK) {
        const uint row = item / CHUNK + i;
        const float value = LOAD(T)(from, min(first_row + row, rows - 1) * stride
            + min(first + element, length - 1) * step);
        target[element * PITCH + row] = first + element < length ? value : 0.0f;
    }
}

// Adds to `sums`, a vector of columns for each of an item's four rows, the products of 64 rows `a`
// and 64 columns `b`, both rows in memory.
#define PRODUCTS(sums, a, a_stride, a_step, a_first, a_rows, \
        b, b_stride, b_step, b_first, b_rows, length) \
    for (uint first = 0; first < (length); first += CHUNK) { \
        load_columns(chunks, a, a_stride, a_step, a_first, a_rows, first, length); \
        load_columns(chunks + CHUNK * PITCH, b, b_stride, b_step, b_first, b_rows, \
            first, length); \
        barrier(CLK_LOCAL_MEM_FENCE); \
        _Pragma("unroll 2") \
        for (uint i = 0; i < CHUNK; ++i) { \
            const float4 left = *(__local float4 *)(chunks + i * PITCH + 4 * y); \
            const float4 right = *(__local float4 *)(chunks + (CHUNK + i) * PITCH + 4 * x); \
            sums[0] += left.s0 * right; \
            sums[1] += left.s1 * right; \
            sums[2] += left.s2 * right; \
            sums[3] += left.s3 * right; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }

// Puts an item's part of the weights into local memory, a row for each column. A barrier follows
// before anyone reads it; one has followed the last reading.
#define PUT_WEIGHTS(w) \
    *(__local float4 *)(weights + (4 * x + 0) * PITCH + 4 * y) = \
        (float4)(w[0].s0, w[1].s0, w[2].s0, w[3].s0); \
    *(__local float4 *)(weights + (4 * x + 1) * PITCH + 4 * y) = \
        (float4)(w[0].s1, w[1].s1, w[2].s1, w[3].s1); \
    *(__local float4 *)(weights + (4 * x + 2) * PITCH + 4 * y) = \
        (float4)(w[0].s2, w[1].s2, w[2].s2, w[3].s2); \
    *(__local float4 *)(weights + (4 * x + 3) * PITCH + 4 * y) = \
        (float4)(w[0].s3, w[1].s3, w[2].s3, w[3].s3);

// Adds to `sums`, of `tiles` vectors for each row, the rows `b` of the tile's columns times the
// weights.
#define WEIGH(sums, tiles, b, b_stride, b_step, b_first, b_rows, length) \
    for (uint first = 0; first < TILE; first += STRIDE) { \
        barrier(CLK_LOCAL_MEM_FENCE); \
        _Pragma("unroll") \
        for (uint i = 0; i < STRIDE * TILE * (tiles); i += WORK_GROUP) { \
            const uint row = (b_first) + first + (item + i) / (TILE * (tiles)); \
            const uint element = (item + i) % (TILE * (tiles)); \
            chunks[item + i] = LOAD(T)(b, min(row, (b_rows) - 1) * (b_stride) \
                + min(element, (length) - 1) * (b_step)); \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
        _Pragma("unroll 1") \
        for (uint i = 0; i < STRIDE; ++i) { \
            const float4 left = *(__local float4 *)(weights + (first + i) * PITCH + 4 * y); \
            _Pragma("unroll") \
            for (uint t = 0; t < (tiles); ++t) { \
                const float4 right = \
                    *(__local float4 *)(chunks + (i * (tiles) + t) * TILE + 4 * x); \
                sums[0][t] += left.s0 * right; \
                sums[1][t] += left.s1 * right; \
                sums[2][t] += left.s2 * right; \
                sums[3][t] += left.s3 * right; \
            } \
        } \
    } \
    barrier(CLK_LOCAL_MEM_FENCE);

#define CLEAR(sums, tiles) \
    _Pragma("unroll") \
    for (uint t = 0; t < (tiles); ++t) { \
        sums[0][t] = sums[1][t] = sums[2][t] = sums[3][t] = (float4)(0.0f); \
    }

// Writes the results of a row, whose first element has the index `at`, times a factor.
#define WRITE_ROW(sums, tiles, at, length, factor) \
    _Pragma("unroll") \
    for (uint t = 0; t < (tiles); ++t) { \
        const uint element = t * TILE + 4 * x; \
        const float4 result = sums[t] * (factor); \
        if (element + 0 < (length)) STORE(OUT)(out, (at) + element + 0, result.s0); \
        if (element + 1 < (length)) STORE(OUT)(out, (at) + element + 1, result.s1); \
        if (element + 2 < (length)) STORE(OUT)(out, (at) + element + 2, result.s2); \
        if (element + 3 < (length)) STORE(OUT)(out, (at) + element + 3, result.s3); \
    }

// Combines a vector of four rows over the items that share them; all get the result.
#define COMBINE_ROWS(vector, combine) \
    *(__local float4 *)(chunks + x * PITCH + 4 * y) = vector; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    _Pragma("unroll 2") \
    for (uint i = 0; i < TILE / 4; ++i) { \
        const float4 other = *(__local float4 *)(chunks + i * PITCH + 4 * y); \
        vector = i == 0 ? other : combine(vector, other); \
    } \
    barrier(CLK_LOCAL_MEM_FENCE);
#define PLUS(a, b) ((a) + (b))

// Adds the mask of one score; beyond the last query or key that of the last one, which nobody sees.
#define ADD_MASK(s, query, key) \
    s += (float)LOAD(T)(mask_head, min(query, QUERIES - 1) * row_strides.s3 \
        + min(key, KEYS - 1) * steps.s3);

// The last key that a query sees; none if there is no such query.
#define LIMIT(query) ((query) < QUERIES ? min((int)(query) + border, (int)KEYS - 1) : -1)

#define PLACE \
    __local float weights[TILE * PITCH] __attribute__((aligned(16))); \
    __local float chunks[CHUNKS] __attribute__((aligned(16))); \
    const uint item = get_local_id(0), x = item % 16, y = item / 16;

#if TASK < 2

// A group's queries, for attention and the gradient of q.
#define QUERY_PLACE \
    const uint blocks = (QUERIES + TILE - 1) / TILE; \
    const uint block = get_group_id(0); \
    const uint first_query = block % blocks * TILE, head = block / blocks % HEADS; \
    const uint batch = block / blocks / HEADS, key_head = head / SHARING; \
    INPUT q_head = q + Q_HEAD(batch, head), k_head = k + K_HEAD(batch, key_head); \
    INPUT v_head = v + V_HEAD(batch, key_head), mask_head = mask + MASK_HEAD(batch, head); \
    const ulong first_row = (ulong)(batch * HEADS + head) * QUERIES; \
    const int last = (int)min(first_query + TILE, QUERIES) - 1 + border; \
    const uint end = last < 0 ? 0 : min((uint)last + 1, KEYS);

#define SCORES(s) \
    PRODUCTS(s, q_head, row_strides.s0, steps.s0, first_query, QUERIES, \
        k_head, row_strides.s1, steps.s1, first_key, KEYS, DEPTH)

// The queries are rows and the keys columns.
#define ADD_MASK_TO_ROW(s, query) \
    ADD_MASK(s.s0, query, first_key + 4 * x + 0) \
    ADD_MASK(s.s1, query, first_key + 4 * x + 1) \
    ADD_MASK(s.s2, query, first_key + 4 * x + 2) \
    ADD_MASK(s.s3, query, first_key + 4 * x + 3)
#define SCALE_AND_MASK(s) \
    s[0] *= scale; \
    s[1] *= scale; \
    s[2] *= scale; \
    s[3] *= scale; \
    if (HAS_MASK) { \
        ADD_MASK_TO_ROW(s[0], first_query + 4 * y + 0) \
        ADD_MASK_TO_ROW(s[1], first_query + 4 * y + 1) \
        ADD_MASK_TO_ROW(s[2], first_query + 4 * y + 2) \
        ADD_MASK_TO_ROW(s[3], first_query + 4 * y + 3) \
    }
// Which of an item's keys the query of a row sees.
#define SEEN(r) ((int4)(first_key + 4 * x) + (int4)(0, 1, 2, 3) \
    <= (int4)(LIMIT(first_query + 4 * y + r)))

#endif

#if TASK == 0

#define LARGEST_OF(v) fmax(fmax(v.s0, v.s1), fmax(v.s2, v.s3))
#define SUM_OF(v) ((v.s0 + v.s1) + (v.s2 + v.s3))
#define SCALE_ROW(sums, factor) \
    _Pragma("unroll") \
    for (uint t = 0; t < VALUE_TILES; ++t) { \
        sums[t] *= factor; \
    }

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void attention_tiled(OPERANDS)
{
    PLACE
    QUERY_PLACE
    float4 results[4][VALUE_TILES];
    CLEAR(results, VALUE_TILES)
    // Of each row: the largest score so far, and this item's part of the sum of exponentials.
    float4 largest = (float4)(-INFINITY), sum = (float4)(0.0f), shift = (float4)(0.0f);
    for (uint first_key = 0; first_key < end; first_key += TILE) {
        float4 s[4] = {(float4)(0.0f), (float4)(0.0f), (float4)(0.0f), (float4)(0.0f)};
        SCORES(s)
        SCALE_AND_MASK(s)
        s[0] = select((float4)(-INFINITY), s[0], SEEN(0));
        s[1] = select((float4)(-INFINITY), s[1], SEEN(1));
        s[2] = select((float4)(-INFINITY), s[2], SEEN(2));
        s[3] = select((float4)(-INFINITY), s[3], SEEN(3));
        // fmax passes over NaN, which shows in the sum.
        float4 most = (float4)(LARGEST_OF(s[0]), LARGEST_OF(s[1]), LARGEST_OF(s[2]),
            LARGEST_OF(s[3]));
        COMBINE_ROWS(most, fmax)
        const float4 before = largest;
        largest = fmax(largest, most);
        // Where nothing was seen yet, minus infinity less itself would be NaN.
        shift = select(largest, (float4)(0.0f), largest == (float4)(-INFINITY));
        const float4 factor = exp(before - shift);
        s[0] = exp(s[0] - shift.s0);
        s[1] = exp(s[1] - shift.s1);
        s[2] = exp(s[2] - shift.s2);
        s[3] = exp(s[3] - shift.s3);
        sum = sum * factor + (float4)(SUM_OF(s[0]), SUM_OF(s[1]), SUM_OF(s[2]), SUM_OF(s[3]));
        SCALE_ROW(results[0], factor.s0)
        SCALE_ROW(results[1], factor.s1)
        SCALE_ROW(results[2], factor.s2)
        SCALE_ROW(results[3], factor.s3)
        PUT_WEIGHTS(s)
        WEIGH(results, VALUE_TILES, v_head, row_strides.s2, steps.s2, first_key, KEYS,
            VALUES)
    }
    COMBINE_ROWS(sum, PLUS)
    const float4 inverse =
        select((float4)(1.0f) / sum, (float4)(0.0f), sum == (float4)(0.0f));
    const float4 logarithm = shift + log(sum);
#define WRITE(r) \
    if (first_query + 4 * y + r < QUERIES) { \
        const ulong row = first_row + first_query + 4 * y + r; \
        WRITE_ROW(results[r], VALUE_TILES, out_at + row * VALUES, VALUES, inverse.s##r) \
        if (x == 0) { \
            STORE(OUT)(out, out_at + second_at + row, logarithm.s##r); \
        } \
    }
    WRITE(0) WRITE(1) WRITE(2) WRITE(3)
}

#endif
#endif
