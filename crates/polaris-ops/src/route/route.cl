// The router of a mixture of experts.
//
// Layouts: `route_ids` has a work-group for each token, which keeps the scores of all experts in local memory. The
// place of an expert is the number of experts before it: no order is made. `route_weights` has a work-item for each
// token.
//
// Parameters:
//   WORK_GROUP     work-items in a group
//
// Arguments:
//   sizes          experts, experts of a token, what scores are made of (0 softmax, 1 sigmoid, 2 logits), whether
//                  there is a bias, groups (or 0), groups of a token, experts that a group's score is made of, tokens
//   strides        of tokens and experts of the logits, of tokens and places of the output
//   scores         memory for a score of each expert
//   of_groups      memory for a score of each group
#ifndef WORK_GROUP
#define WORK_GROUP 64
#endif

#define EXPERTS sizes.s0
#define USED sizes.s1
#define GATING sizes.s2
#define HAS_BIAS sizes.s3
#define GROUPS sizes.s4
#define GROUPS_USED sizes.s5
#define BEST sizes.s6
#define TOKENS sizes.s7

#define SOFTMAX 0
#define SIGMOID 1
#define SOFTMAX_OF_CHOSEN 2

// Whether (a, i) comes before (b, j): the larger value first, of equal ones the lower index.
#define IS_BEFORE(a, i, b, j) ((a) > (b) || ((a) == (b) && (i) < (j)))
// A NaN is never the larger one.
#define LARGER(a, b) ((b) > (a) ? (b) : (a))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void route_ids(uint8 sizes, uint4 strides, __global int *out, ulong out_at, __global const float *logits,
               ulong logits_at, __global const float *bias, ulong bias_at, ulong bias_step,
               __local float *scores, __local float *of_groups)
{
    __local float shared[WORK_GROUP];
    const uint lane = get_local_id(0);
    const ulong token = get_group_id(0);
    const ulong row = logits_at + token * strides.s0;
    float largest = -INFINITY;
    for (uint i = lane; i < EXPERTS; i += WORK_GROUP) {
        const float logit = logits[row + (ulong)i * strides.s1];
        largest = LARGER(largest, logit);
        scores[i] = GATING == SIGMOID ? 1.0f / (1.0f + exp(-logit)) : logit;
    }
    if (GATING == SOFTMAX) {
        shared[lane] = largest;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint distance = WORK_GROUP / 2; distance > 0; distance /= 2) {
            if (lane < distance) {
                shared[lane] = LARGER(shared[lane], shared[lane + distance]);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        largest = shared[0];
        barrier(CLK_LOCAL_MEM_FENCE);
        float sum = 0.0f;
        for (uint i = lane; i < EXPERTS; i += WORK_GROUP) {
            scores[i] = exp(scores[i] - largest);
            sum += scores[i];
        }
        shared[lane] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint distance = WORK_GROUP / 2; distance > 0; distance /= 2) {
            if (lane < distance) {
                shared[lane] += shared[lane + distance];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint i = lane; i < EXPERTS; i += WORK_GROUP) {
            scores[i] /= shared[0];
        }
    }
    for (uint i = lane; i < EXPERTS; i += WORK_GROUP) {
        const float score = scores[i] + (HAS_BIAS ? bias[bias_at + i * bias_step] : 0.0f);
        scores[i] = isnan(score) ? -INFINITY : score;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint each = GROUPS > 0 ? EXPERTS / GROUPS : EXPERTS;
    for (uint group = lane; group < GROUPS; group += WORK_GROUP) {
        const uint first = group * each;
        float sum = 0.0f;
        float last = INFINITY;
        uint last_at = 0;
        for (uint n = 0; n < BEST; ++n) {
            // The best of those that come after the last one.
            float found = -INFINITY;
            uint found_at = EXPERTS;
            for (uint i = first; i < first + each; ++i) {
                const bool is_left = n == 0 || IS_BEFORE(last, last_at, scores[i], i);
                if (is_left && (found_at == EXPERTS || scores[i] > found)) {
                    found = scores[i];
                    found_at = i;
                }
            }
            sum += found;
            last = found;
            last_at = found_at;
        }
        // Infinities of both signs.
        of_groups[group] = isnan(sum) ? -INFINITY : sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // Groups that are not chosen are marked by NaN, which no score is.
    for (uint group = lane; group < GROUPS; group += WORK_GROUP) {
        uint place = 0;
        for (uint other = 0; other < GROUPS; ++other) {
            place += IS_BEFORE(of_groups[other], other, of_groups[group], group) ? 1 : 0;
        }
        if (place >= GROUPS_USED) {
            for (uint i = group * each; i < (group + 1) * each; ++i) {
                scores[i] = NAN;
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lane; i < EXPERTS; i += WORK_GROUP) {
        const float score = scores[i];
        uint place = isnan(score) ? USED : 0;
        for (uint other = 0; other < EXPERTS && place < USED; ++other) {
            place += IS_BEFORE(scores[other], other, score, i) ? 1 : 0;
        }
        if (place < USED) {
            out[out_at + token * strides.s2 + (ulong)place * strides.s3] = (int)i;
        }
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void route_weights(uint8 sizes, uint4 strides, __global float *out, ulong out_at, __global const float *logits,
                   ulong logits_at, __global const int *ids, ulong ids_at, uint normalise, float scale, float least)
{
    const ulong token = get_global_id(0);
    if (token >= TOKENS) {
        return;
    }
    const ulong row = logits_at + token * strides.s0;
    const ulong ids_row = ids_at + token * USED;
    const ulong out_row = out_at + token * strides.s2;
    const bool of_chosen = GATING == SOFTMAX_OF_CHOSEN;
    const uint count = GATING == SIGMOID ? 0 : of_chosen ? USED : EXPERTS;
#define LOGIT(i) logits[row + (ulong)(i) * strides.s1]
#define EXPERT(place) clamp(ids[ids_row + (place)], 0, (int)EXPERTS - 1)
    float largest = -INFINITY;
    for (uint i = 0; i < count; ++i) {
        const float logit = LOGIT(of_chosen ? EXPERT(i) : i);
        largest = LARGER(largest, logit);
    }
    float all = 0.0f;
    for (uint i = 0; i < count; ++i) {
        all += exp(LOGIT(of_chosen ? EXPERT(i) : i) - largest);
    }
#define WEIGHT(place) (GATING == SIGMOID ? 1.0f / (1.0f + exp(-LOGIT(EXPERT(place)))) \
    : exp(LOGIT(EXPERT(place)) - largest) / all)
    float divisor = 1.0f;
    if (normalise) {
        divisor = 0.0f;
        for (uint place = 0; place < USED; ++place) {
            divisor += WEIGHT(place);
        }
        divisor = divisor < least ? least : divisor;
    }
    for (uint place = 0; place < USED; ++place) {
        out[out_row + (ulong)place * strides.s3] = WEIGHT(place) / divisor * scale;
    }
}
