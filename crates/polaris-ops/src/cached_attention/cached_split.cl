// Attention of few tokens to a long cache: positions are split into parts, so that there is work for all of a device.
//
// Layouts: `cached_attention_split` has a work-group for each token, HEADS_AT_ONCE heads that share keys, and part of
// WORK_GROUP positions. KEY_LANES work-items side by side read a key, each some of its elements for all heads, and leave
// their sums in local memory, SCORED positions at a time. Then work-items take elements of the values side by side, in as
// many slices of the part as there is room for; each value is read once for all heads. A part of a head leaves VALUES sums, the largest score and the sum of weights in the workspace,
// one part after the other. `cached_attention_combine` has a work-item for each element of the result, which adds the
// parts in their order.
//
// Parameters:
//   HEADS_AT_ONCE  heads of a group, a divisor of those that share keys
//   WORK_GROUP     work-items in a group, a power of two
//
// Arguments as in cached_operands.cl, `parts` of each query, the workspace, and `query`, memory of the group for
// the queries.
#ifndef HEADS_AT_ONCE
#define HEADS_AT_ONCE 1
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#if WORK_GROUP < 16
#define KEY_LANES WORK_GROUP
#else
#define KEY_LANES 16
#endif
#define SCORED (128 / HEADS_AT_ONCE)

#define EACH_HEAD _Pragma("unroll") for (uint h = 0; h < HEADS_AT_ONCE; ++h)
#define NOT_UNROLLED __attribute__((opencl_unroll_hint(1)))
#define PART_AT(part) (work_at + ((ulong)(token * HEADS + head) * parts + (part)) * (VALUES + 2))

// Makes `shared[h][0]` of all work-items' `shared[h][lane]`, down to `last` of them.
#define COLLECT(last, JOIN) \
    barrier(CLK_LOCAL_MEM_FENCE); \
    NOT_UNROLLED for (uint distance = WORK_GROUP / 2; distance >= (last); distance /= 2) { \
        if (lane < distance) { \
            EACH_HEAD { \
                shared[h][lane] = JOIN(shared[h][lane], shared[h][lane + distance]); \
            } \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }
#define PLUS(a, b) ((a) + (b))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void cached_attention_split(OPERANDS, uint parts, __global float *work, ulong work_at, __local float *query)
{
    __local float weights[HEADS_AT_ONCE][WORK_GROUP], shared[HEADS_AT_ONCE][WORK_GROUP];
    // With room for one more, so that sums of one lane are not all in the same bank.
    __local float partials[HEADS_AT_ONCE][SCORED][KEY_LANES + 1];
    __local ulong key_rows[WORK_GROUP], value_rows[WORK_GROUP];
    const uint lane = get_local_id(0);
    const uint part = get_group_id(0) % parts;
    FIND_QUERY(get_group_id(0) / parts * HEADS_AT_ONCE)
    const uint first = begin + part * WORK_GROUP;
    const uint count = first < end ? min(end - first, (uint)WORK_GROUP) : 0;
    NOT_UNROLLED for (uint h = 0; h < HEADS_AT_ONCE; ++h) {
        for (uint i = lane; i < DEPTH; i += WORK_GROUP) {
            query[h * DEPTH + i] = scale * q[query_at + h * strides.s1 + i * strides.s2];
        }
    }
    if (lane < count) {
        const uint key = first + lane;
        FIND_ROWS(key)
        key_rows[lane] = k_row;
        value_rows[lane] = v_row;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint begun = 0; begun < count; begun += SCORED) {
        const uint end_of_pass = min(count - begun, (uint)SCORED);
        for (uint at = lane / KEY_LANES; at < end_of_pass; at += WORK_GROUP / KEY_LANES) {
            const ulong k_row = key_rows[begun + at];
            float sums[HEADS_AT_ONCE];
            EACH_HEAD {
                sums[h] = 0.0f;
            }
            if (IN_FOURS) {
                for (uint i = lane % KEY_LANES * 4; i < DEPTH; i += 4 * KEY_LANES) {
                    const float4 four = LOAD4(K)(k, k_row + i);
                    EACH_HEAD {
                        __local const float *of = query + h * DEPTH + i;
                        sums[h] += of[0] * four.s0 + of[1] * four.s1 + of[2] * four.s2 + of[3] * four.s3;
                    }
                }
            } else {
                for (uint i = lane % KEY_LANES; i < DEPTH; i += KEY_LANES) {
                    const float one = (float)LOAD(K)(k, k_row + i * cache_strides.s3);
                    EACH_HEAD {
                        sums[h] += query[h * DEPTH + i] * one;
                    }
                }
            }
            EACH_HEAD {
                partials[h][at][lane % KEY_LANES] = sums[h];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint sum = lane; sum < end_of_pass * HEADS_AT_ONCE; sum += WORK_GROUP) {
            const uint h = sum / end_of_pass, at = sum % end_of_pass;
            float score = 0.0f;
            for (uint i = 0; i < KEY_LANES; ++i) {
                score += partials[h][at][i];
            }
            const uint key = first + begun + at;
            FINISH_SCORE(score, key, HAS_SLOPES ? slopes[slopes_at + head + h] : 0.0f)
            weights[h][begun + at] = score;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float scores[HEADS_AT_ONCE];
    EACH_HEAD {
        scores[h] = lane < count ? weights[h][lane] : -INFINITY;
    }
    EACH_HEAD {
        shared[h][lane] = scores[h];
    }
    COLLECT(1, LARGER)
    float largest[HEADS_AT_ONCE];
    EACH_HEAD {
        largest[h] = shared[h][0];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_HEAD {
        const float shift = largest[h] == -INFINITY ? 0.0f : largest[h];
        weights[h][lane] = lane < count ? exp(scores[h] - shift) : 0.0f;
        shared[h][lane] = weights[h][lane];
    }
    COLLECT(1, PLUS)
    if (lane == 0) {
        EACH_HEAD {
            const ulong at = PART_AT(part) + (ulong)h * parts * (VALUES + 2) + VALUES;
            work[at] = largest[h];
            work[at + 1] = shared[h][0];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint value_lane = lane % VALUE_LANES, slice = lane / VALUE_LANES;
    const uint slices = WORK_GROUP / VALUE_LANES;
    float sums[HEADS_AT_ONCE];
    EACH_HEAD {
        sums[h] = 0.0f;
    }
    if (value_lane < VALUES) {
        for (uint at = slice; at < count; at += slices) {
            const float value = (float)LOAD(V)(v, value_rows[at] + value_lane * cache_strides.s7);
            EACH_HEAD {
                sums[h] += weights[h][at] * value;
            }
        }
    }
    EACH_HEAD {
        shared[h][lane] = sums[h];
    }
    COLLECT(VALUE_LANES, PLUS)
    if (lane < VALUES) {
        EACH_HEAD {
            work[PART_AT(part) + (ulong)h * parts * (VALUES + 2) + lane] = shared[h][lane];
        }
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void cached_attention_combine(OPERANDS, uint parts, __global const float *work, ulong work_at)
{
    const ulong item = get_global_id(0);
    if (item >= (ulong)QUERIES * VALUES) {
        return;
    }
    const uint row = (uint)(item / VALUES), i = (uint)(item % VALUES);
    const uint token = row / HEADS, head = row % HEADS;
    float largest = HAS_SINKS ? LARGER(-INFINITY, sinks[sinks_at + head]) : -INFINITY;
    for (uint part = 0; part < parts; ++part) {
        const float other = work[PART_AT(part) + VALUES];
        largest = LARGER(largest, other);
    }
    const float shift = largest == -INFINITY ? 0.0f : largest;
    float sum = HAS_SINKS ? exp(sinks[sinks_at + head] - shift) : 0.0f, value = 0.0f;
    for (uint part = 0; part < parts; ++part) {
        const ulong at = PART_AT(part);
        const float of_part = work[at + VALUES];
        // Nothing is seen of a part whose scores are all infinitely low.
        const float factor = of_part == -INFINITY ? 0.0f : exp(of_part - shift);
        sum += factor * work[at + VALUES + 1];
        value += factor * work[at + i];
    }
    out[RESULT_AT + i * strides.s5] = sum == 0.0f ? 0.0f : value / sum;
}
