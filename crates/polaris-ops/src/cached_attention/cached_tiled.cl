// Attention of many tokens to a cache, in tiles of 64 by 64 scores.
//
// Layouts: a work-group of 16 by 16 items has 64 rows, the queries of neighbouring tokens that share a head of keys, and
// passes over tiles of positions. An item has four rows and four positions of the scores, and of the results four rows
// and four columns in every 64. Scores are products of chunks of queries and keys in local memory, CHUNK elements of
// each at a time; weights then take their turn through local memory as the left factor of the results. The tokens of a
// group that are of one sequence are done before those of the next.
//
// Parameters beside those of cached_operands.cl:
//   VALUE_TILES    elements of a value, in units of 64, rounded up
//
// Arguments as in cached_operands.cl; strides.s7 says whether values are read in fours.
#ifndef VALUE_TILES
#define VALUE_TILES 1
#endif

#define VALUES_IN_FOURS strides.s7
#define TILE 64
#define CHUNK 16
#define GROUP 256
// Lines in local memory are a vector longer, so that columns are not all in the same bank.
#define PITCH (TILE + 4)
// Values that are in local memory at a time.
#define STRIDE (VALUE_TILES > 2 ? 8 : 16)
#define STRIP (STRIDE * TILE * VALUE_TILES)
#define CHUNKS (STRIP > 2 * CHUNK * PITCH ? STRIP : 2 * CHUNK * PITCH)
#define UNROLLED _Pragma("unroll")

// Puts four elements of a row into local memory, below one another.
#define PUT_COLUMN(target, four, value) \
    (target)[(4 * (four) + 0) * PITCH] = value.s0; \
    (target)[(4 * (four) + 1) * PITCH] = value.s1; \
    (target)[(4 * (four) + 2) * PITCH] = value.s2; \
    (target)[(4 * (four) + 3) * PITCH] = value.s3;

// Combines a vector of four rows over the items that share them; all get the result.
#define COMBINE_ROWS(vector, combine) \
    *(__local float4 *)(chunks + x * PITCH + 4 * y) = vector; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    _Pragma("unroll 1") \
    for (uint i = 0; i < TILE / 4; ++i) { \
        const float4 other = *(__local float4 *)(chunks + i * PITCH + 4 * y); \
        vector = i == 0 ? other : combine(vector, other); \
    } \
    barrier(CLK_LOCAL_MEM_FENCE);
#define PLUS(a, b) ((a) + (b))
#define EACH_ROW UNROLLED for (uint r = 0; r < 4; ++r)
#define NOT_UNROLLED __attribute__((opencl_unroll_hint(1)))

// An item's scores or weights in local memory, a line for each position.
#define OWN(c) (*(__local float4 *)(weights + (4 * x + c) * PITCH + 4 * y))
#define PUT_WEIGHTS(s) \
    OWN(0) = (float4)(s[0].s0, s[1].s0, s[2].s0, s[3].s0); \
    OWN(1) = (float4)(s[0].s1, s[1].s1, s[2].s1, s[3].s1); \
    OWN(2) = (float4)(s[0].s2, s[1].s2, s[2].s2, s[3].s2); \
    OWN(3) = (float4)(s[0].s3, s[1].s3, s[2].s3, s[3].s3);
#define GET_WEIGHTS(s) \
    { \
        const float4 a = OWN(0), b = OWN(1), c = OWN(2), d = OWN(3); \
        s[0] = (float4)(a.s0, b.s0, c.s0, d.s0); \
        s[1] = (float4)(a.s1, b.s1, c.s1, d.s1); \
        s[2] = (float4)(a.s2, b.s2, c.s2, d.s2); \
        s[3] = (float4)(a.s3, b.s3, c.s3, d.s3); \
    }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void cached_attention_tiled(OPERANDS)
{
    __local float weights[TILE * PITCH] __attribute__((aligned(16)));
    __local float chunks[CHUNKS] __attribute__((aligned(16)));
    // Where queries and results of rows are, their sequences, what they see, their sinks and slopes; where keys and values
    // of a tile are. Few numbers of a kernel fit in scalar registers.
    __local ulong query_rows[TILE], result_rows[TILE], key_rows[TILE], value_rows[TILE];
    __local float first_scores[TILE], of_slopes[TILE];
    __local uint sequences[TILE], positions[TILE], begins[TILE], ends[TILE], visible[TILE];
    const uint item = get_local_id(0), x = item % 16, y = item / 16;
    const uint rows = QUERIES / HEADS * SHARING, blocks = (rows + TILE - 1) / TILE;
    const uint first_row = get_group_id(0) % blocks * TILE, key_head = get_group_id(0) / blocks;
    const uint count = min(rows - first_row, (uint)TILE);
    if (item < TILE) {
        // Rows beyond the last are computed like it; nobody looks at what becomes of them.
        const uint row = min(first_row + item, rows - 1);
        const uint token = row / SHARING, head = key_head * SHARING + row % SHARING;
        const uint position = (uint)clamp(tokens[tokens_at + 2 * token + 1], 0, (int)LONGEST - 1);
        const uint end = strides.s6 ? LONGEST : position + 1;
        const uint in_window = WINDOW > 0 && WINDOW < end ? end - WINDOW : 0;
        const uint in_chunk = CHUNK_OF_POSITIONS > 0 ? position / CHUNK_OF_POSITIONS * CHUNK_OF_POSITIONS : 0;
        sequences[item] = (uint)clamp(tokens[tokens_at + 2 * token], 0, (int)SEQUENCES - 1);
        positions[item] = position;
        first_scores[item] = HAS_SINKS ? sinks[sinks_at + head] : -INFINITY;
        begins[item] = max(in_window, in_chunk);
        ends[item] = end;
        of_slopes[item] = HAS_SLOPES ? slopes[slopes_at + head] : 0.0f;
        result_rows[item] = RESULT_AT;
        query_rows[item] = q_at + (ulong)token * strides.s0 + (ulong)head * strides.s1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint from = 0; from < count;) {
        // The rows of one sequence, and the positions that any of them sees.
        const uint sequence = sequences[from];
        uint to = from, lowest = LONGEST, highest = 0;
        for (; to < count && sequences[to] == sequence; ++to) {
            lowest = min(lowest, begins[to]);
            highest = max(highest, ends[to]);
        }
        const ulong sequence_at = table_at + (ulong)sequence * MOST_BLOCKS;
        float4 results[4][VALUE_TILES];
        // Of each row: the largest score so far, and this item's part of the sum of exponentials.
        float largest[4], sum[4];
        EACH_ROW {
            UNROLLED for (uint t = 0; t < VALUE_TILES; ++t) {
                results[r][t] = (float4)(0.0f);
            }
            largest[r] = LARGER(-INFINITY, first_scores[4 * y + r]);
            sum[r] = HAS_SINKS && x == 0 ? exp(first_scores[4 * y + r] - (largest[r] == -INFINITY ? 0.0f : largest[r])) : 0.0f;
        }
        for (uint first = lowest; first < highest; first += TILE) {
            if (item < TILE) {
                const uint key = min(first + item, highest - 1);
                const uint block = (uint)clamp(table[sequence_at + key / BLOCK_SIZE], 0, (int)BLOCKS - 1);
                const uint inside = key % BLOCK_SIZE;
                key_rows[item] = k_at + (ulong)key_head * cache_strides.s2 + (ulong)block * cache_strides.s0
                    + (ulong)inside * cache_strides.s1;
                value_rows[item] = v_at + (ulong)key_head * cache_strides.s6 + (ulong)block * cache_strides.s4
                    + (ulong)inside * cache_strides.s5;
                // What no row sees may be anything.
                uint is_seen = 0;
                for (uint row = from; row < to; ++row) {
                    is_seen |= first + item >= begins[row] && first + item < ends[row];
                }
                visible[item] = is_seen;
            }
            float4 s[4];
            EACH_ROW {
                s[r] = (float4)(0.0f);
            }
            for (uint element = 0; element < DEPTH; element += CHUNK) {
                barrier(CLK_LOCAL_MEM_FENCE);
                const uint row = item / 4, four = item % 4, at = element + 4 * four;
                __local float *query = chunks + row, *key = chunks + CHUNK * PITCH + row;
                if (IN_FOURS) {
                    float4 of_query = (float4)(0.0f), of_key = (float4)(0.0f);
                    if (at < DEPTH) {
                        of_query = scale * vload4(0, q + query_rows[row] + at);
                        of_key = LOAD4(K)(k, key_rows[row] + at);
                    }
                    PUT_COLUMN(query, four, of_query)
                    PUT_COLUMN(key, four, of_key)
                } else {
                    NOT_UNROLLED for (uint j = 0; j < 4; ++j) {
                        const uint i = min(at + j, DEPTH - 1);
                        const bool exists = at + j < DEPTH;
                        const float of_query = scale * q[query_rows[row] + i * strides.s2];
                        const float of_key = (float)LOAD(K)(k, key_rows[row] + i * cache_strides.s3);
                        query[(4 * four + j) * PITCH] = exists ? of_query : 0.0f;
                        key[(4 * four + j) * PITCH] = exists ? of_key : 0.0f;
                    }
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                _Pragma("unroll 2")
                for (uint i = 0; i < CHUNK; ++i) {
                    const float4 left = *(__local float4 *)(chunks + i * PITCH + 4 * y);
                    const float4 right = *(__local float4 *)(chunks + (CHUNK + i) * PITCH + 4 * x);
                    s[0] += left.s0 * right;
                    s[1] += left.s1 * right;
                    s[2] += left.s2 * right;
                    s[3] += left.s3 * right;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (cap > 0.0f || HAS_SLOPES) {
                // One after the other, in the item's own part of the weights: unrolled, the masks of all would be kept in
                // scalar registers.
                PUT_WEIGHTS(s)
                NOT_UNROLLED for (uint own = 0; own < 16; ++own) {
                    const uint row = 4 * y + own % 4, column = 4 * x + own / 4;
                    const uint position = positions[row], key = first + column;
                    float score = weights[column * PITCH + row];
                    FINISH_SCORE(score, key, of_slopes[row])
                    weights[column * PITCH + row] = score;
                }
                GET_WEIGHTS(s)
            }
            float4 most;
            EACH_ROW {
                const uint row = 4 * y + r;
                // From the first position that the row sees on.
                const uint4 places = (uint4)(first + 4 * x - begins[row]) + (uint4)(0, 1, 2, 3);
                s[r] = select((float4)(-INFINITY), s[r], places < ends[row] - begins[row]);
                // fmax passes over NaN, which shows in the sum.
                const float of_row = fmax(fmax(s[r].s0, s[r].s1), fmax(s[r].s2, s[r].s3));
                if (r == 0) most.s0 = of_row;
                if (r == 1) most.s1 = of_row;
                if (r == 2) most.s2 = of_row;
                if (r == 3) most.s3 = of_row;
            }
            COMBINE_ROWS(most, fmax)
            const float most_of[4] = {most.s0, most.s1, most.s2, most.s3};
            EACH_ROW {
                const float before = largest[r];
                largest[r] = fmax(before, most_of[r]);
                // Where nothing was seen yet, minus infinity less itself would be NaN.
                const float shift = largest[r] == -INFINITY ? 0.0f : largest[r];
                const float factor = exp(before - shift);
                s[r] = exp(s[r] - shift);
                sum[r] = sum[r] * factor + ((s[r].s0 + s[r].s1) + (s[r].s2 + s[r].s3));
                UNROLLED for (uint t = 0; t < VALUE_TILES; ++t) {
                    results[r][t] *= factor;
                }
            }
            PUT_WEIGHTS(s)
            for (uint part = 0; part < TILE; part += STRIDE) {
                if (part > 0) {
                    barrier(CLK_LOCAL_MEM_FENCE);
                }
                NOT_UNROLLED for (uint place = item; place < STRIP / 4; place += GROUP) {
                    const uint row = part + place / (TILE / 4 * VALUE_TILES), at = place % (TILE / 4 * VALUE_TILES) * 4;
                    __local float *value = chunks + place * 4;
                    if (VALUES_IN_FOURS && at < VALUES) {
                        const float4 four = LOAD4(V)(v, value_rows[row] + at);
                        *(__local float4 *)value = visible[row] ? four : (float4)(0.0f);
                    } else {
                        NOT_UNROLLED for (uint j = 0; j < 4; ++j) {
                            const uint i = min(at + j, VALUES - 1);
                            const float one = (float)LOAD(V)(v, value_rows[row] + i * cache_strides.s7);
                            value[j] = visible[row] && at + j < VALUES ? one : 0.0f;
                        }
                    }
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                _Pragma("unroll 2")
                for (uint i = 0; i < STRIDE; ++i) {
                    const float4 left = *(__local float4 *)(weights + (part + i) * PITCH + 4 * y);
                    UNROLLED for (uint t = 0; t < VALUE_TILES; ++t) {
                        const float4 right = *(__local float4 *)(chunks + (i * VALUE_TILES + t) * TILE + 4 * x);
                        results[0][t] += left.s0 * right;
                        results[1][t] += left.s1 * right;
                        results[2][t] += left.s2 * right;
                        results[3][t] += left.s3 * right;
                    }
                }
            }
            // The next tile writes where this one's rows of keys and values are known.
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        float4 sums = (float4)(sum[0], sum[1], sum[2], sum[3]);
        COMBINE_ROWS(sums, PLUS)
        const float sum_of[4] = {sums.s0, sums.s1, sums.s2, sums.s3};
        float inverse[4];
        EACH_ROW {
            inverse[r] = sum_of[r] == 0.0f ? 0.0f : 1.0f / sum_of[r];
        }
        // Through local memory, so that neighbours in it are written by neighbours.
        UNROLLED for (uint t = 0; t < VALUE_TILES; ++t) {
            EACH_ROW {
                *(__local float4 *)(weights + (4 * y + r) * PITCH + 4 * x) = results[r][t] * inverse[r];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            NOT_UNROLLED for (uint place = item; place < TILE * TILE; place += GROUP) {
                const uint row = place / TILE, i = t * TILE + place % TILE;
                if (row >= from && row < to && i < VALUES) {
                    out[result_rows[row] + i * strides.s5] = weights[row * PITCH + place % TILE];
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        from = to;
    }
}
