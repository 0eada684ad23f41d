// Batch normalisation of [N, C, ...] and its gradients.
//
// Layouts: `batch_norm_channels` finds two numbers of each channel: a work-group for each segment of
// each channel, whose items walk it side by side and combine through local memory, or a work-item
// (GROUP 0). Each segment writes what it found; `batch_norm_join`, with a work-item for each channel,
// joins segments in their order. `batch_norm_elements` has a work-item for each element. Arrays may
// lie anywhere.
//
// Parameters:
//   TASK           what is computed: 0 mean and variance; 1 the gradients of weight and bias;
//                  2 the normalised elements; 3 the gradient of x
//   T              type of x, its gradient, weight and bias: f32, f16, bf16 or f64
//   C              type of statistics, sums and all computing: float or double
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   FEW_AXES       1 if there are at most three axes: wide strides of more do not leave enough scalar
//                  registers to the rest
//   GROUP          1 for a work-group for each segment, 0 for a work-item (TASK 0 and 1)
//   WORK_GROUP     work-items in a group, a power of two
//
// Elements are found by the axes of `lengths` and of the strides, the outermost first: all but the
// channels' (TASK 0 and 1), or all.
#ifndef TASK
#define TASK 0
#define T f32
#define C float
#define INDEX uint
#define FEW_AXES 0
#define GROUP 1
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define PAIR PASTE(C, 2)

// What is found of an element at once: divisions are slow. The outermost axis needs none.
#define AXIS(k) \
    if (rank > k) { \
        const INDEX axis = lengths.s##k; \
        const INDEX index = rest % axis; \
        rest /= axis; \
        STEP(k, index) \
    }
#if FEW_AXES
#define INNER_AXES AXIS(2) AXIS(1)
#else
#define INNER_AXES AXIS(7) AXIS(6) AXIS(5) AXIS(4) AXIS(3) AXIS(2) AXIS(1)
#endif
#define FIND(element) \
    INDEX rest = (INDEX)(element), x_i = 0, g_i = 0, out_i = 0, channel_i = 0; \
    INNER_AXES \
    if (rank > 0) { \
        STEP(0, rest) \
    }

#if TASK < 2

#define STEP(k, index) \
    x_i += (index) * x_strides.s##k; \
    g_i += (index) * g_strides.s##k;

// Elements that are added up before they are added to the sum: of many numbers added one by one, the
// last ones would lose their lower digits.
#define STRETCH 64

// Adds up a term of each element of the segment that is this item's: `x_i` and `g_i` tell where it is.
#define SUM(total, term) \
    for (ulong first = begin + item; first < end; first += (ulong)items * STRETCH) { \
        const ulong stop = min(end, first + (ulong)items * STRETCH); \
        PAIR part = (PAIR)(0); \
        for (ulong e = first; e < stop; e += items) { \
            FIND(e) \
            part += term; \
        } \
        total += part; \
    }
#define X ((C)LOAD(T)(x, x_first + x_i))
#define G ((C)LOAD(T)(g, g_first + g_i))

#if GROUP
// Adds up what the items of a group have found.
PAIR sum_of_items(uint item, PAIR mine, __local PAIR *sums)
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
#define COMBINE(mine) sum_of_items(item, mine, sums)
#else
#define COMBINE(mine) (mine)
#endif

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void batch_norm_channels(
    ulong channels, ulong elements, ulong segments, ulong each, uint rank, VECTOR8(INDEX) lengths,
    VECTOR8(INDEX) x_strides, VECTOR8(INDEX) g_strides, INDEX x_step, INDEX g_step, INDEX mean_step,
    __global C *partial, ulong partial_at, __global const STORAGE(T) *x, ulong x_at,
    __global const STORAGE(T) *g, ulong g_at, __global const C *mean, ulong mean_at)
{
#if GROUP
    __local PAIR sums[WORK_GROUP];
    const uint item = get_local_id(0), items = WORK_GROUP;
    const ulong unit = get_group_id(0);
#else
    const uint item = 0, items = 1;
    const ulong unit = get_global_id(0);
    if (unit >= channels * segments) {
        return;
    }
#endif
    const ulong channel = unit % channels, begin = unit / channels * each;
    const ulong end = min(elements, begin + each);
    const ulong x_first = x_at + (INDEX)channel * x_step, g_first = g_at + (INDEX)channel * g_step;
    PAIR total = (PAIR)(0);
#if TASK == 0
    SUM(total, (PAIR)(X, 0))
    total = COMBINE(total);
    const C count = (C)(end - begin), centre = total.x / count;
    total = (PAIR)(0);
    SUM(total, (PAIR)(X - centre, (X - centre) * (X - centre)))
    total = COMBINE(total);
    // What rounding took from the mean; one that is infinite is right as it is.
    const C missing = total.x / count;
    const C squares = total.y - total.x * missing;
    total.x = isfinite(centre) ? centre + missing : centre;
    total.y = squares < 0 ? (C)0 : squares;
#else
    const C centre = mean[mean_at + (INDEX)channel * mean_step];
    SUM(total, (PAIR)(G * (X - centre), G))
    total = COMBINE(total);
#endif
    if (item == 0) {
        partial[partial_at + 2 * unit] = total.x;
        partial[partial_at + 2 * unit + 1] = total.y;
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void batch_norm_join(
    ulong channels, ulong elements, ulong segments, ulong each, C epsilon,
    INDEX out_row, INDEX out_step, INDEX variance_step,
    __global C *out, ulong out_at, __global const C *partial, ulong partial_at,
    __global const C *variance, ulong variance_at)
{
    const ulong channel = get_global_id(0);
    if (channel >= channels) {
        return;
    }
    C first = 0, second = 0, count = 0;
    for (ulong segment = 0; segment < segments; ++segment) {
        const ulong at = partial_at + 2 * (segment * channels + channel);
        const C other_first = partial[at], other_second = partial[at + 1];
#if TASK == 0
        const ulong begin = segment * each;
        const C other = (C)(min(elements, begin + each) - begin), all = count + other;
        const C distance = other_first - first;
        if (segment == 0) {
            first = other_first;
            second = other_second;
        } else if (isfinite(distance)) {
            first += distance * (other / all);
            second += other_second + distance * distance * (count * (other / all));
        } else {
            first += other_first;
            second = NAN;
        }
        count = all;
#else
        first += other_first;
        second += other_second;
#endif
    }
#if TASK == 0
    second /= count;
#else
    first /= sqrt(variance[variance_at + (INDEX)channel * variance_step] + epsilon);
#endif
    out[out_at + (INDEX)channel * out_step] = first;
    out[out_at + out_row + (INDEX)channel * out_step] = second;
}

#else

#define STEP(k, index) \
    x_i += (index) * x_strides.s##k; \
    out_i += (index) * out_strides.s##k; \
    channel_i += (index) * channel_strides.s##k; \
    STEP_G(k, index)
#if TASK == 3
#define STEP_G(k, index) g_i += (index) * g_strides.s##k;
#else
#define STEP_G(k, index)
#endif

// `has` tells which of weight (1), bias (2) and sums (4) there are; `steps` are the strides of mean,
// variance, weight, bias and the two sums.
#define HAS_WEIGHT 1u
#define HAS_BIAS 2u
#define HAS_SUMS 4u

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void batch_norm_elements(
    ulong elements, C epsilon, C size, uint has, uint rank, VECTOR8(INDEX) lengths,
    VECTOR8(INDEX) x_strides, VECTOR8(INDEX) g_strides, VECTOR8(INDEX) out_strides,
    VECTOR8(INDEX) channel_strides, VECTOR8(INDEX) steps,
    __global STORAGE(T) *out, ulong out_at, __global const STORAGE(T) *x, ulong x_at,
    __global const STORAGE(T) *g, ulong g_at, __global const C *mean, ulong mean_at,
    __global const C *variance, ulong variance_at, __global const STORAGE(T) *weight, ulong weight_at,
    __global const STORAGE(T) *bias, ulong bias_at, __global const C *of_weight, ulong of_weight_at,
    __global const C *of_bias, ulong of_bias_at)
{
    const ulong element = get_global_id(0);
    if (element >= elements) {
        return;
    }
    FIND(element)
    const C normal = (C)1 / sqrt(variance[variance_at + channel_i * steps.s1] + epsilon);
    const C centre = mean[mean_at + channel_i * steps.s0];
    C slope = normal;
    if (has & HAS_WEIGHT) {
        slope *= LOAD(T)(weight, weight_at + channel_i * steps.s2);
    }
#if TASK == 2
    C result = ((C)LOAD(T)(x, x_at + x_i) - centre) * slope;
    if (has & HAS_BIAS) {
        result += LOAD(T)(bias, bias_at + channel_i * steps.s3);
    }
#else
    C result = LOAD(T)(g, g_at + g_i);
    if (has & HAS_SUMS) {
        const C along = ((C)LOAD(T)(x, x_at + x_i) - centre) * normal;
        result -= (of_bias[of_bias_at + channel_i * steps.s5] +
                   along * of_weight[of_weight_at + channel_i * steps.s4]) / size;
    }
    result *= slope;
#endif
    STORE(T)(out, out_at + out_i, result);
}

#endif
