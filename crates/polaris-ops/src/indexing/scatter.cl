// Scatters by dense keys: elements are added or written where keys say, deterministically.
//
// A lane is a combination of the axes that are not scattered along. Its keys lie at
// `lane * key_lane + position * key_step`.
//
// Layouts: `scatter_lanes` gives each lane a work-item, which takes its positions in order.
// For the others keys are sorted. `scatter_sorted` gives each position of each lane an item, and the first
// (or, where elements are written, the last) of several equal keys does the work of all; neighbouring
// items take neighbouring positions. In `scatter_runs` they take neighbouring lanes, and a group the runs
// of equal keys that begin in its block of positions: no item is there in vain.
//
// Parameters:
//   SOURCE         element type of the source
//   OUT            element type of the output
//   C              compute type: float, double, int or long
//   ADD            1 if elements are added to what is there, 0 if the last one is written
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group
//   BLOCK          positions of a group of scatter_runs
//
// The rank is an argument and not a parameter: branches on it cost next to nothing, while each program
// costs a build.
#ifndef SOURCE
#define SOURCE f32
#define OUT f32
#define C float
#define ADD 1
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif
#ifndef BLOCK
#define BLOCK 32
#endif

// Elements that are added up before they are added to the sum: of many numbers added one by one, the
// last ones would lose their lower digits.
#define STRETCH 64

#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    is += index * source_strides.s##k;
#define FIND_LANE(lane) \
    INDEX io = 0, is = 0; \
    { \
        INDEX rest = (INDEX)(lane); \
        WALK_AXES(8) \
    } \
    const ulong out_lane = out_at + io, source_lane = source_at + is; \
    const ulong first_key = keys_at + (lane) * key_lane;

#define OPERANDS \
    ulong lanes, uint length, uint rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides, \
    VECTOR8(INDEX) source_strides, ulong out_step, ulong source_step, ulong key_lane, \
    ulong key_step, __global STORAGE(OUT) *out, ulong out_at, \
    __global const STORAGE(SOURCE) *source, ulong source_at, __global const uint *keys, ulong keys_at

#define KEY(position) keys[first_key + (position) * key_step]
#define ELEMENT_AT(position) ((C)LOAD(SOURCE)(source, source_lane + (position) * source_step))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void scatter_lanes(OPERANDS)
{
    const ulong lane = get_global_id(0);
    if (lane >= lanes) {
        return;
    }
    FIND_LANE(lane)
    for (uint position = 0; position < length; ++position) {
        const ulong to = out_lane + KEY(position) * out_step;
        C value = ELEMENT_AT(position);
#if ADD
        value += (C)LOAD(OUT)(out, to);
#endif
        STORE(OUT)(out, to, value);
    }
}

#define POSITION(place) ((ulong)positions[first_position + (place) * key_step])
#define SORTED(place) ELEMENT_AT(POSITION(place))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void scatter_sorted(OPERANDS, __global const uint *positions, ulong positions_at)
{
    const ulong item = get_global_id(0);
    if (item >= lanes * length) {
        return;
    }
    const ulong lane = item / length;
    const uint place = (uint)(item % length);
    FIND_LANE(lane)
    const uint key = KEY(place);
    const ulong first_position = positions_at + lane * key_lane;
    const ulong to = out_lane + key * out_step;
#if ADD
    if (place > 0 && KEY(place - 1) == key) {
        return;
    }
    C sum = LOAD(OUT)(out, to);
    uint next = place;
    bool same = true;
    while (same) {
        const uint end = min(length - next, (uint)STRETCH) + next;
        C part = 0;
        while (same && next < end) {
            part += SORTED(next);
            ++next;
            same = next < length && KEY(next) == key;
        }
        sum += part;
    }
    STORE(OUT)(out, to, sum);
#else
    if (place + 1 < length && KEY(place + 1) == key) {
        return;
    }
    STORE(OUT)(out, to, SORTED(place));
#endif
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void scatter_runs(OPERANDS, __global const uint *positions, ulong positions_at, uint lane_groups)
{
    const uint group = (uint)get_group_id(0);
    const ulong lane = (ulong)(group % lane_groups) * WORK_GROUP + get_local_id(0);
    if (lane >= lanes) {
        return;
    }
    FIND_LANE(lane)
    const ulong first_position = positions_at + lane * key_lane;
    uint next = group / lane_groups * BLOCK;
    const uint end = min(length - next, (uint)BLOCK) + next;
    while (next < end) {
        const uint key = KEY(next);
        if (next > 0 && KEY(next - 1) == key) {
            ++next;
            continue;
        }
        uint after = next + 1;
        while (after < length && KEY(after) == key) {
            ++after;
        }
        const ulong to = out_lane + key * out_step;
#if ADD
        C sum = LOAD(OUT)(out, to);
        while (next < after) {
            const uint stretch = min(after - next, (uint)STRETCH) + next;
            // Four sums, so that as many elements are on their way at a time.
            C a = 0, b = 0, c = 0, d = 0;
            for (; stretch - next >= 4; next += 4) {
                a += SORTED(next);
                b += SORTED(next + 1);
                c += SORTED(next + 2);
                d += SORTED(next + 3);
            }
            for (; next < stretch; ++next) {
                a += SORTED(next);
            }
            sum += (a + b) + (c + d);
        }
        STORE(OUT)(out, to, sum);
#else
        STORE(OUT)(out, to, SORTED(after - 1));
        next = after;
#endif
    }
}
