// The gradients of attention in tiles: that of q with a work-group for 64 queries, which passes over
// keys, and those of k and v with one for 64 keys, which passes over the queries of all heads that
// share them. The macros and parameters are those of attention_tiled.cl, which is in front of this
// file.

#if !SERIAL && TASK > 0

// Scores become weights, and the slopes of weights those of scores. Where a query sees nothing, the
// logarithm is plus infinity, and weights are zero. Slopes are told by the weights whether a key is
// seen: for keeping that there are not scalar registers enough.
#define SLOPES(s, slope, logarithm, mean, seen) \
    s = select((float4)(0.0f), exp(s - (logarithm)), seen); \
    slope = select(s * (slope - (mean)) * scale, (float4)(0.0f), s == (float4)(0.0f));
#define READ_LOGARITHM(to, query) \
    to = LOAD(OUT)(l_head, (query) * row_strides.s6); \
    to = to == -INFINITY ? INFINITY : to;

#if TASK == 1

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void attention_tiled(OPERANDS)
{
    PLACE
    QUERY_PLACE
    INPUT o_head = o + O_HEAD(batch, head), g_head = g + G_HEAD(batch, head);
    STATISTIC l_head = l + L_HEAD(batch, head);
    float4 logarithm, mean = (float4)(0.0f);
#define READ_ROW(r) \
    { \
        const uint query = min(first_query + 4 * y + r, QUERIES - 1); \
        READ_LOGARITHM(logarithm.s##r, query) \
        for (uint i = x; i < VALUES; i += 16) { \
            const float result = LOAD(T)(o_head, query * row_strides.s4 + i * steps.s4); \
            const float change = LOAD(T)(g_head, query * row_strides.s5 + i * steps.s5); \
            mean.s##r += result * change; \
        } \
    }
    READ_ROW(0) READ_ROW(1) READ_ROW(2) READ_ROW(3)
    COMBINE_ROWS(mean, PLUS)
    float4 results[4][DEPTH_TILES];
    CLEAR(results, DEPTH_TILES)
    for (uint first_key = 0; first_key < end; first_key += TILE) {
        float4 s[4] = {(float4)(0.0f), (float4)(0.0f), (float4)(0.0f), (float4)(0.0f)};
        float4 slope[4] = {(float4)(0.0f), (float4)(0.0f), (float4)(0.0f), (float4)(0.0f)};
        SCORES(s)
        PRODUCTS(slope, g_head, row_strides.s5, steps.s5, first_query, QUERIES,
            v_head, row_strides.s2, steps.s2, first_key, KEYS, VALUES)
        SCALE_AND_MASK(s)
        SLOPES(s[0], slope[0], logarithm.s0, mean.s0, SEEN(0))
        SLOPES(s[1], slope[1], logarithm.s1, mean.s1, SEEN(1))
        SLOPES(s[2], slope[2], logarithm.s2, mean.s2, SEEN(2))
        SLOPES(s[3], slope[3], logarithm.s3, mean.s3, SEEN(3))
        PUT_WEIGHTS(slope)
        WEIGH(results, DEPTH_TILES, k_head, row_strides.s1, steps.s1, first_key, KEYS,
            DEPTH)
    }
#define WRITE(r) \
    if (first_query + 4 * y + r < QUERIES) { \
        const ulong row = first_row + first_query + 4 * y + r; \
        WRITE_ROW(results[r], DEPTH_TILES, out_at + row * DEPTH, DEPTH, 1.0f) \
        if (x == 0) { \
            STORE(OUT)(means, means_at + row, mean.s##r); \
        } \
    }
    WRITE(0) WRITE(1) WRITE(2) WRITE(3)
}

#else

// The keys are rows and the queries columns.
#define ADD_MASK_TO_ROW(s, key) \
    ADD_MASK(s.s0, first_query + 4 * x + 0, key) \
    ADD_MASK(s.s1, first_query + 4 * x + 1, key) \
    ADD_MASK(s.s2, first_query + 4 * x + 2, key) \
    ADD_MASK(s.s3, first_query + 4 * x + 3, key)

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void attention_tiled(OPERANDS)
{
    PLACE
    const uint blocks = (KEYS + TILE - 1) / TILE, key_heads = HEADS / SHARING;
    const uint block = get_group_id(0);
    const uint first_key = block % blocks * TILE, key_head = block / blocks % key_heads;
    const uint batch = block / blocks / key_heads;
    INPUT k_head = k + K_HEAD(batch, key_head), v_head = v + V_HEAD(batch, key_head);
    float4 of_k[4][DEPTH_TILES], of_v[4][VALUE_TILES];
    CLEAR(of_k, DEPTH_TILES)
    CLEAR(of_v, VALUE_TILES)
    // The first query that sees the first key, and with it the tile in which it is.
    const uint start = (uint)max((int)first_key - border, 0) / TILE * TILE;
    // The first of the heads that share this one of k and v.
    const uint head = key_head * SHARING;
    INPUT q_head = q + Q_HEAD(batch, head), g_head = g + G_HEAD(batch, head);
    INPUT mask_head = mask + MASK_HEAD(batch, head);
    STATISTIC l_head = l + L_HEAD(batch, head);
    STATISTIC means_head = means + means_at + (ulong)(batch * HEADS + head) * QUERIES;
    for (uint shared = 0; shared < SHARING; ++shared) {
        for (uint first_query = start; first_query < QUERIES; first_query += TILE) {
            float4 s[4] = {(float4)(0.0f), (float4)(0.0f), (float4)(0.0f), (float4)(0.0f)};
            float4 slope[4] = {(float4)(0.0f), (float4)(0.0f), (float4)(0.0f), (float4)(0.0f)};
            PRODUCTS(s, k_head, row_strides.s1, steps.s1, first_key, KEYS,
                q_head, row_strides.s0, steps.s0, first_query, QUERIES, DEPTH)
            PRODUCTS(slope, v_head, row_strides.s2, steps.s2, first_key, KEYS,
                g_head, row_strides.s5, steps.s5, first_query, QUERIES, VALUES)
            float4 logarithm, mean;
#define READ_COLUMN(c) \
            { \
                const uint query = min(first_query + 4 * x + c, QUERIES - 1); \
                READ_LOGARITHM(logarithm.s##c, query) \
                mean.s##c = LOAD(OUT)(means_head, query); \
            }
            READ_COLUMN(0) READ_COLUMN(1) READ_COLUMN(2) READ_COLUMN(3)
            const int4 limit = (int4)(LIMIT(first_query + 4 * x + 0), LIMIT(first_query + 4 * x + 1),
                LIMIT(first_query + 4 * x + 2), LIMIT(first_query + 4 * x + 3));
#define FINISH_ROW(r) \
            s[r] *= scale; \
            if (HAS_MASK) { \
                ADD_MASK_TO_ROW(s[r], first_key + 4 * y + r) \
            } \
            SLOPES(s[r], slope[r], logarithm, mean, (int4)(first_key + 4 * y + r) <= limit)
            FINISH_ROW(0) FINISH_ROW(1) FINISH_ROW(2) FINISH_ROW(3)
            PUT_WEIGHTS(s)
            WEIGH(of_v, VALUE_TILES, g_head, row_strides.s5, steps.s5, first_query,
                QUERIES, VALUES)
            PUT_WEIGHTS(slope)
            WEIGH(of_k, DEPTH_TILES, q_head, row_strides.s0, steps.s0, first_query,
                QUERIES, DEPTH)
        }
        q_head += head_strides.s0;
        g_head += head_strides.s5;
        mask_head += head_strides.s3;
        l_head += head_strides.s6;
        means_head += QUERIES;
    }
#define WRITE(r) \
    if (first_key + 4 * y + r < KEYS) { \
        const ulong row = (ulong)(batch * key_heads + key_head) * KEYS + first_key + 4 * y + r; \
        WRITE_ROW(of_k[r], DEPTH_TILES, out_at + row * DEPTH, DEPTH, 1.0f) \
        WRITE_ROW(of_v[r], VALUE_TILES, out_at + second_at + row * VALUES, VALUES, 1.0f) \
    }
    WRITE(0) WRITE(1) WRITE(2) WRITE(3)
}

#endif
#endif
