// Attention of tokens to a paged cache of keys and values.
//
// Layouts: `cached_attention` has a work-group for each token and head, which takes tiles of WORK_GROUP
// positions: a work-item scores one position, the group makes weights of the scores with a running
// softmax, and then work-items take elements of the values side by side, in as many slices of the tile as
// there is room for. `cached_attention_serial` has a work-item for each token and head, takes any
// sizes and leaves little for a compiler to get wrong: sums are kept in the output.
//
// Parameters:
//   SERIAL         1 for the serial kernel
//   VALUE_TILES    elements of a value for each work-item
//   WORK_GROUP     work-items in a group, a power of two
//
// Arguments as in cached_operands.cl; `query` is memory of the group for a query.
#ifndef SERIAL
#define SERIAL 0
#define VALUE_TILES 1
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#if SERIAL

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void cached_attention_serial(OPERANDS)
{
    const uint row = get_global_id(0);
    if (row >= QUERIES) {
        return;
    }
    FIND_QUERY(row)
    const ulong result_at = RESULT_AT;
    float largest = -INFINITY, shift = 0.0f, sum = 0.0f;
    if (HAS_SINKS) {
        const float sink = sinks[sinks_at + head];
        largest = LARGER(largest, sink);
        shift = largest == -INFINITY ? 0.0f : largest;
        sum = exp(sink - shift);
    }
    for (uint i = 0; i < VALUES; ++i) {
        out[result_at + i * strides.s5] = 0.0f;
    }
    for (uint key = begin; key < end; ++key) {
        FIND_ROWS(key)
        float score = 0.0f;
        for (uint i = 0; i < DEPTH; ++i) {
            score += scale * q[query_at + i * strides.s2] * (float)LOAD(K)(k, k_row + i * cache_strides.s3);
        }
        FINISH_SCORE(score, key, slope)
        const float next = LARGER(largest, score);
        shift = next == -INFINITY ? 0.0f : next;
        const float factor = exp(largest - shift), weight = exp(score - shift);
        largest = next;
        sum = sum * factor + weight;
        for (uint i = 0; i < VALUES; ++i) {
            const ulong at = result_at + i * strides.s5;
            out[at] = out[at] * factor + weight * (float)LOAD(V)(v, v_row + i * cache_strides.s7);
        }
    }
    for (uint i = 0; i < VALUES; ++i) {
        out[result_at + i * strides.s5] *= sum == 0.0f ? 0.0f : 1.0f / sum;
    }
}

#else

#define UNROLLED _Pragma("unroll")
// Unrolled, the masks of all steps would be kept in scalar registers for the whole loop over tiles.
#define NOT_UNROLLED __attribute__((opencl_unroll_hint(1)))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void cached_attention(OPERANDS, __local float *query)
{
    __local float weights[WORK_GROUP], shared[WORK_GROUP];
    __local ulong value_rows[WORK_GROUP];
    const uint lane = get_local_id(0);
    FIND_QUERY(get_group_id(0))
    for (uint i = lane; i < DEPTH; i += WORK_GROUP) {
        query[i] = scale * q[query_at + i * strides.s2];
    }
    const uint value_lane = lane % VALUE_LANES, slice = lane / VALUE_LANES;
    const uint slices = WORK_GROUP / VALUE_LANES;
    float largest = -INFINITY, sum = 0.0f;
    if (HAS_SINKS) {
        const float sink = sinks[sinks_at + head];
        largest = LARGER(largest, sink);
        sum = exp(sink - (largest == -INFINITY ? 0.0f : largest));
    }
    float sums[VALUE_TILES];
    UNROLLED for (uint t = 0; t < VALUE_TILES; ++t) {
        sums[t] = 0.0f;
    }
    for (uint first = begin; first < end; first += WORK_GROUP) {
        const uint count = min(end - first, (uint)WORK_GROUP);
        // The query is written, and the weights of the last tile are read.
        barrier(CLK_LOCAL_MEM_FENCE);
        float score = -INFINITY;
        if (lane < count) {
            const uint key = first + lane;
            FIND_ROWS(key)
            value_rows[lane] = v_row;
            score = 0.0f;
            if (IN_FOURS) {
                for (uint i = 0; i < DEPTH; i += 4) {
                    const float4 four = LOAD4(K)(k, k_row + i);
                    score += query[i] * four.s0 + query[i + 1] * four.s1 + query[i + 2] * four.s2
                        + query[i + 3] * four.s3;
                }
            } else {
                for (uint i = 0; i < DEPTH; ++i) {
                    score += query[i] * (float)LOAD(K)(k, k_row + i * cache_strides.s3);
                }
            }
            FINISH_SCORE(score, key, slope)
        }
        shared[lane] = score;
        barrier(CLK_LOCAL_MEM_FENCE);
        NOT_UNROLLED for (uint distance = WORK_GROUP / 2; distance > 0; distance /= 2) {
            if (lane < distance) {
                shared[lane] = LARGER(shared[lane], shared[lane + distance]);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        const float next = LARGER(largest, shared[0]);
        const float shift = next == -INFINITY ? 0.0f : next;
        const float factor = exp(largest - shift);
        const float weight = lane < count ? exp(score - shift) : 0.0f;
        largest = next;
        barrier(CLK_LOCAL_MEM_FENCE);
        weights[lane] = weight;
        shared[lane] = weight;
        barrier(CLK_LOCAL_MEM_FENCE);
        NOT_UNROLLED for (uint distance = WORK_GROUP / 2; distance > 0; distance /= 2) {
            if (lane < distance) {
                shared[lane] += shared[lane + distance];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        sum = sum * factor + shared[0];
        UNROLLED for (uint t = 0; t < VALUE_TILES; ++t) {
            const uint i = t * WORK_GROUP + value_lane;
            if (i < VALUES) {
                float part = 0.0f;
                for (uint at = slice; at < count; at += slices) {
                    part += weights[at] * (float)LOAD(V)(v, value_rows[at] + i * cache_strides.s7);
                }
                sums[t] = sums[t] * factor + part;
            }
        }
    }
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    const ulong result_at = RESULT_AT;
    UNROLLED for (uint t = 0; t < VALUE_TILES; ++t) {
        barrier(CLK_LOCAL_MEM_FENCE);
        shared[lane] = sums[t];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint distance = WORK_GROUP / 2; distance >= VALUE_LANES; distance /= 2) {
            if (lane < distance) {
                shared[lane] += shared[lane + distance];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        const uint i = t * WORK_GROUP + lane;
        if (lane < VALUE_LANES && i < VALUES) {
            out[result_at + i * strides.s5] = shared[lane] * inverse;
        }
    }
}

#endif
