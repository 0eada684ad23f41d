// Reductions. Elements of one output are split into segments; where there is more than one, each
// writes a partial result (stage FIRST_STAGE). Those are reduced by a second launch (SECOND_STAGE)
// or, in one pass, by the last group of the output that finishes. The order in which elements are
// combined depends on the sizes alone.
//
// Layouts: `reduce_tree` gives each segment of each output a work-group, whose items walk it side
// by side and combine through local memory; `reduce_serial` gives it one work-item.
//
// Parameters:
//   REDUCTION      0 sum, 1 mean, 2 max, 3 min, 4 argmax
//   IN, OUT        element types
//   ACC            type of running results: float, double, int or long
//   FIRST          the running result of no elements
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   ONE_AXIS       1 if at most one axis is reduced: elements are then found without divisions
//   WORK_GROUP     work-items in a group, a power of two (with the segments' length, which the host
//                  chooses, it decides in which order elements are combined)
//   TREE           1 for reduce_tree, 0 for reduce_serial
//   ONE_PASS       1 if the last group reduces the partial results (of FIRST_STAGE; TREE only)
//
// The axes that stay are the first ones of `lengths` and the strides, the axes that go are the
// last ones (up to .s7), so that both fit into one set of registers.
//
// `vectors` says that elements are dense and aligned to four, so that they can be read in fours.
// Ranks and stages are arguments and not parameters: branches on them cost next to nothing, while
// each program costs a build.
#ifndef REDUCTION
#define REDUCTION 0
#define IN f32
#define OUT f32
#define ACC float
#define FIRST 0
#define INDEX uint
#define ONE_AXIS 1
#define TREE 1
#define ONE_PASS 0
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define ONLY_STAGE 0
#define FIRST_STAGE 1
#define SECOND_STAGE 2

#define ARGMAX (REDUCTION == 4)
#define NONE 0xffffffffffffffffUL
#define IS_NAN(v) ((v) != (v))

// What a later (or any other) element does to the running result.
#if REDUCTION <= 1
#define COMBINE(acc, v) ((acc) + (v))
#elif REDUCTION == 3
#define COMBINE(acc, v) (((v) < (acc) || IS_NAN(v)) ? (v) : (acc))
#else
#define COMBINE(acc, v) (((v) > (acc) || IS_NAN(v)) ? (v) : (acc))
#endif

// Whether (v, i) comes before (acc, j): it is larger, or a NaN, or equal and earlier.
int replaces(ACC v, ulong i, ACC acc, ulong j)
{
    if (i == NONE || j == NONE) {
        return i != NONE;
    }
    const int v_nan = IS_NAN(v), acc_nan = IS_NAN(acc);
    if (v_nan || acc_nan) {
        return v_nan && (!acc_nan || i < j);
    }
    return v > acc || (v == acc && i < j);
}

// Adds an element and its place to the running result.
#if ARGMAX
#define TAKE(v, i) \
    if (replaces(v, i, acc, place)) { \
        acc = v; \
        place = i; \
    }
#else
#define TAKE(v, i) acc = COMBINE(acc, v);
#endif

// In one pass, partial results are read by a group that did not write them: not from what a
// compiler or a cache of that group has kept.
#if ONE_PASS
#define SHARED volatile
#define COUNTERS , __global volatile uint *counters
#else
#define SHARED
#define COUNTERS
#endif

#define OPERANDS \
    uint stage, uint vectors, ulong divisor, ulong outputs, ulong count, ulong segments, ulong segment_length, \
    uint kept_rank, uint reduced_rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides, \
    VECTOR8(INDEX) in_strides, \
    __global STORAGE(OUT) *out, ulong out_at, __global const STORAGE(IN) *in, ulong in_at, \
    __global SHARED ACC *partial, ulong partial_at, __global SHARED ulong *places, ulong places_at \
    COUNTERS

// Where output `o` lies, and where its elements begin.
#define KEPT(k) \
    if (kept_rank > k) { \
        const INDEX length = lengths.s##k; \
        const INDEX index = rest % length; \
        rest /= length; \
        to += index * out_strides.s##k; \
        from += index * in_strides.s##k; \
    }
#define FIND_OUTPUT(o) \
    INDEX to = 0, from = 0; \
    { \
        INDEX rest = (INDEX)(o); \
        KEPT(7) KEPT(6) KEPT(5) KEPT(4) KEPT(3) KEPT(2) KEPT(1) KEPT(0) \
    }

// Where element `r` of an output lies.
#define REDUCED(k) \
    if (reduced_rank > 7 - k) { \
        const INDEX length = lengths.s##k; \
        const INDEX index = rest % length; \
        rest /= length; \
        at += index * in_strides.s##k; \
    }
INDEX find_element(INDEX r, uint reduced_rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) in_strides)
{
#if ONE_AXIS
    return r * in_strides.s7;
#else
    INDEX rest = r, at = 0;
    REDUCED(7) REDUCED(6) REDUCED(5) REDUCED(4) REDUCED(3) REDUCED(2) REDUCED(1) REDUCED(0)
    return at;
#endif
}

#define READ(r) \
    ((ACC)LOAD(IN)(in, in_at + from + find_element((INDEX)(r), reduced_rank, lengths, in_strides)))

// Takes every `step`-th of an output's partial results from `first` on.
#define TAKE_PARTIALS(number, first, step) \
    for (ulong p = first; p < (number); p += (step)) { \
        const ACC v = partial[partial_at + output * (number) + p]; \
        const ulong i = ARGMAX ? places[places_at + output * (number) + p] : p; \
        TAKE(v, i) \
    }

#if ARGMAX
#define RESULT(acc, place) ((long)(place))
#elif REDUCTION == 1
#define RESULT(acc, place) ((acc) / (ACC)(divisor))
#else
#define RESULT(acc, place) (acc)
#endif
#define WRITE_RESULT(acc, place) STORE(OUT)(out, out_at + to, RESULT(acc, place));
#define WRITE(acc, place) \
    if (stage == FIRST_STAGE) { \
        partial[partial_at + output * segments + segment] = acc; \
        if (ARGMAX) { \
            places[places_at + output * segments + segment] = place; \
        } \
    } else { \
        WRITE_RESULT(acc, place) \
    }

#if TREE

// Combines what the items of a group have found: the result is the first of the arrays.
void combine_items(uint item, ACC acc, ulong place, __local ACC *values, __local ulong *value_places)
{
    values[item] = acc;
    if (ARGMAX) {
        value_places[item] = place;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = WORK_GROUP / 2; half_ > 0; half_ /= 2) {
        if (item < half_) {
#if ARGMAX
            if (replaces(values[item + half_], value_places[item + half_], values[item], value_places[item])) {
                values[item] = values[item + half_];
                value_places[item] = value_places[item + half_];
            }
#else
            const ACC mine = values[item], other = values[item + half_];
            values[item] = COMBINE(mine, other);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#define READ4(r) CONVERT4(ACC)(LOAD4(IN)(in, in_at + from + (r)))
#define TAKE4(v) \
    acc = COMBINE(acc, v.s0); \
    acc1 = COMBINE(acc1, v.s1); \
    acc2 = COMBINE(acc2, v.s2); \
    acc3 = COMBINE(acc3, v.s3);

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void reduce_tree(OPERANDS)
{
    __local ACC values[WORK_GROUP];
    __local ulong value_places[ARGMAX ? WORK_GROUP : 1];
    const uint item = get_local_id(0);
    const ulong output = get_group_id(0) / segments, segment = get_group_id(0) % segments;
    FIND_OUTPUT(output)
    const ulong end = min(count, (segment + 1) * segment_length);
    ACC acc = FIRST;
    ulong place = NONE;
    ulong r = segment * segment_length + item;
    if (!ONE_PASS && stage == SECOND_STAGE) {
        TAKE_PARTIALS(count, item, WORK_GROUP)
        r = end;
    }
#if ONE_AXIS && !ARGMAX
    // Four running results, and several loads under way, hide the latency of memory.
    ACC acc1 = FIRST, acc2 = FIRST, acc3 = FIRST;
    if (vectors) {
        // Dense elements, with segments that begin and end on multiples of four (but for the last).
        const ulong whole = end / 4 * 4;
        r = segment * segment_length + 4 * item;
        for (; r + 12 * WORK_GROUP < whole; r += 16 * WORK_GROUP) {
            const VECTOR4(ACC) v0 = READ4(r), v1 = READ4(r + 4 * WORK_GROUP);
            const VECTOR4(ACC) v2 = READ4(r + 8 * WORK_GROUP), v3 = READ4(r + 12 * WORK_GROUP);
            TAKE4(v0)
            TAKE4(v1)
            TAKE4(v2)
            TAKE4(v3)
        }
        if (r + 4 * WORK_GROUP < whole) {
            const VECTOR4(ACC) v0 = READ4(r), v1 = READ4(r + 4 * WORK_GROUP);
            TAKE4(v0)
            TAKE4(v1)
            r += 8 * WORK_GROUP;
        }
        if (r < whole) {
            const VECTOR4(ACC) v = READ4(r);
            TAKE4(v)
        }
        r = whole + item;
    }
    for (; r + 3 * WORK_GROUP < end; r += 4 * WORK_GROUP) {
        const ACC v0 = READ(r), v1 = READ(r + WORK_GROUP);
        const ACC v2 = READ(r + 2 * WORK_GROUP), v3 = READ(r + 3 * WORK_GROUP);
        acc = COMBINE(acc, v0);
        acc1 = COMBINE(acc1, v1);
        acc2 = COMBINE(acc2, v2);
        acc3 = COMBINE(acc3, v3);
    }
    acc = COMBINE(acc, acc1);
    acc2 = COMBINE(acc2, acc3);
    acc = COMBINE(acc, acc2);
#endif
    for (; r < end; r += WORK_GROUP) {
        const ACC v = READ(r);
        TAKE(v, r)
    }
    combine_items(item, acc, place, values, value_places);
    if (item == 0) {
        WRITE(values[0], value_places[0])
    }
#if ONE_PASS
    __local uint earlier;
    if (item == 0) {
        // A partial result must be where all groups see it before its group is counted. A fence
        // alone does not see to that everywhere: on its way through SPIR-V it becomes a relaxed one
        // of the work-group. So what is counted depends on the value as it is read back from there:
        // always one, but no compiler or device knows that before the value has come.
        const ACC seen = partial[partial_at + output * segments + segment];
        int written = seen == values[0] || IS_NAN(seen);
        if (ARGMAX) {
            written = written && places[places_at + output * segments + segment] == value_places[0];
        }
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        earlier = atomic_add(counters + output, written ? 1u : 0u);
        mem_fence(CLK_GLOBAL_MEM_FENCE);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (earlier + 1 == segments) {
        acc = FIRST;
        place = NONE;
        TAKE_PARTIALS(segments, item, WORK_GROUP)
        combine_items(item, acc, place, values, value_places);
        if (item == 0) {
            WRITE_RESULT(values[0], value_places[0])
            // The next launch finds it as this one did.
            atomic_xchg(counters + output, 0u);
        }
    }
#endif
}

#else

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void reduce_serial(OPERANDS)
{
    const ulong id = get_global_id(0);
    // Neighbouring items take neighbouring outputs of one segment.
    const ulong output = id % outputs, segment = id / outputs;
    if (segment >= segments) {
        return;
    }
    FIND_OUTPUT(output)
    const ulong end = min(count, (segment + 1) * segment_length);
    ACC acc = FIRST;
    ulong place = NONE;
    if (stage == SECOND_STAGE) {
        TAKE_PARTIALS(count, 0, 1)
    } else {
        for (ulong r = segment * segment_length; r < end; ++r) {
            const ACC v = READ(r);
            TAKE(v, r)
        }
    }
    WRITE(acc, place)
}

#endif
