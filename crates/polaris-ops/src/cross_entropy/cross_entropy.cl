// Cross-entropy of rows of logits with the indices of their classes, and its gradient.
//
// Layouts: `cross_entropy` gives each row a work-group, whose items walk it side by side and combine
// through local memory, or a work-item (GROUP 0). Rows may lie anywhere. The sum of exponentials is
// found in one walk: each item corrects its sum when it meets a larger logit.
//
// Parameters:
//   T              type of the logits: f32, f16, bf16 or f64
//   C              type of losses, weights and all computing: float or double
//   OUT            type of the output: that of losses, or T for the gradient
//   TARGET         type of the targets: i32 or i64
//   GRADIENT       1 for the gradient of the logits, 0 for the losses
//   GROUP          1 for a work-group for each row, 0 for a work-item
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group, a power of two
//
// `smoothing` is the share that all classes get alike, `ignores` whether rows of the target `ignored`
// have no loss. Targets were checked to be classes or ignored.
#ifndef T
#define T f32
#define C float
#define OUT f32
#define TARGET i64
#define GRADIENT 0
#define GROUP 1
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

// What is known of some logits: the largest, the sum of the exponentials of their distances from it,
// the sum of the weighted logits, and that of the weights.
#define STATE VECTOR4(C)
#define EMPTY ((STATE)(-INFINITY, 0, 0, 0))

STATE combined(STATE a, STATE b)
{
    const C largest = b.s0 > a.s0 ? b.s0 : a.s0;
    STATE result;
    result.s0 = largest;
    // Where neither has met anything but negative infinities, there is no distance. A NaN that was met
    // is in the sum already.
    result.s1 = largest == -INFINITY ? a.s1 + b.s1
                                     : a.s1 * exp(a.s0 - largest) + b.s1 * exp(b.s0 - largest);
    result.s2 = a.s2 + b.s2;
    result.s3 = a.s3 + b.s3;
    return result;
}

// Elements that are added up before they are combined with the others: of many numbers added one by
// one, the last ones would lose their lower digits.
#define STRETCH 64

#define LOGIT(c) ((C)LOAD(T)(logits, row_at + (c) * class_step))
#define WEIGHT(c) (has_weights ? weights[weights_at + (c) * weight_step] : (C)1)

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void cross_entropy(
    ulong rows, ulong all_classes, C smoothing, uint ignores, long ignored, uint has_weights,
    INDEX row_step, INDEX class_step, INDEX out_step, INDEX out_class_step,
    INDEX target_step, INDEX g_step, INDEX weight_step,
    __global STORAGE(OUT) *out, ulong out_at, __global const STORAGE(T) *logits, ulong logits_at,
    __global const STORAGE(TARGET) *targets, ulong targets_at, __global const C *g, ulong g_at,
    __global const C *weights, ulong weights_at)
{
#if GROUP
    __local STATE states[WORK_GROUP];
    const uint item = get_local_id(0), items = WORK_GROUP;
    const ulong row = get_group_id(0);
#else
    const uint item = 0, items = 1;
    const ulong row = get_global_id(0);
    if (row >= rows) {
        return;
    }
#endif
    const INDEX classes = (INDEX)all_classes;
    const ulong row_at = logits_at + (INDEX)row * row_step;
    const ulong out_row = out_at + (INDEX)row * out_step;
    const long target = targets[targets_at + (INDEX)row * target_step];
    if (ignores && target == ignored) {
#if GRADIENT
        for (INDEX c = item; c < classes; c += items) {
            STORE(OUT)(out, out_row + c * out_class_step, (C)0);
        }
#else
        if (item == 0) {
            STORE(OUT)(out, out_row, (C)0);
        }
#endif
        return;
    }
    STATE state = EMPTY;
    for (INDEX first = item; first < classes; first += items * STRETCH) {
        STATE part = EMPTY;
        const INDEX end = classes - first < items * STRETCH ? classes : first + items * STRETCH;
        for (INDEX c = first; c < end; c += items) {
            const C z = LOGIT(c);
            if (z > part.s0) {
                // The exponential of no distance: 1, or NaN for an infinity.
                part.s1 = part.s1 * exp(part.s0 - z) + ((z - z) + (C)1);
                part.s0 = z;
            } else if (z != -INFINITY) {
                part.s1 += exp(z - part.s0);
            }
            if (smoothing > 0) {
                const C weight = WEIGHT(c);
                part.s2 += weight * z;
                part.s3 += weight;
            }
        }
        state = combined(state, part);
    }
#if GROUP
    states[item] = state;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = WORK_GROUP / 2; half_ > 0; half_ /= 2) {
        if (item < half_) {
            states[item] = combined(states[item], states[item + half_]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    state = states[0];
#endif
    const C each = smoothing / (C)classes;
    const C own = ((C)1 - smoothing) * WEIGHT((INDEX)target);
#if GRADIENT
    const C slope = g[g_at + (INDEX)row * g_step];
    const C factor = (own + each * state.s3) / state.s1;
    for (INDEX c = item; c < classes; c += items) {
        C share = each > 0 ? each * WEIGHT(c) : (C)0;
        if (c == (INDEX)target) {
            share += own;
        }
        STORE(OUT)(out, out_row + c * out_class_step, slope * (exp(LOGIT(c) - state.s0) * factor - share));
    }
#else
    if (item == 0) {
        const C log_sum = state.s0 + log(state.s1);
        C loss = own * (log_sum - LOGIT((INDEX)target));
        if (smoothing > 0) {
            loss += each * (state.s3 * log_sum - state.s2);
        }
        STORE(OUT)(out, out_row, loss);
    }
#endif
}
