// The gradient of padding along one axis: each element is the sum of all its copies, those in front of
// it first.
//
// Layouts: any, of up to eight axes; one work-item for each element of the output. `along` are the
// strides of the index along the axis: 1 there, 0 elsewhere.
//
// Parameters:
//   T              element type: f32, f16, bf16 or f64
//   C              compute type: float or double
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group
//
// `mode` is 1 for reflection, 2 for repetition of the border, 3 for a circle, 0 for no copies; it is
// an argument, since each program costs a build.
#ifndef T
#define T f32
#define C float
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ii += index * in_strides.s##k; \
    i += index * along.s##k;

#define ADD_COPIES(first, count) \
    for (ulong copy = 0; copy < (count); ++copy) { \
        sum += (C)LOAD(T)(in, in_at + ii + ((first) + copy) * stride); \
    }

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void fold(ulong n, uint rank, uint mode, ulong length, ulong before, ulong after, ulong stride,
          VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides, VECTOR8(INDEX) in_strides,
          VECTOR8(INDEX) along, __global STORAGE(T) *out, ulong out_at,
          __global const STORAGE(T) *in, ulong in_at)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX io = 0, ii = 0, i = 0;
    WALK_AXES(8)
    const ulong end = before + length;
    const ulong back = length - 1 - i;
    ulong front_at = 0, front = 0, behind_at = end, behind = 0;
    if (mode == 1) {
        front = i >= 1 && i <= before;
        front_at = before - i;
        behind = back >= 1 && back <= after;
        behind_at = end - 1 + back;
    } else if (mode == 2) {
        front = i == 0 ? before : 0;
        behind = back == 0 ? after : 0;
    } else if (mode == 3) {
        front = i + before >= length;
        front_at = i + before - length;
        behind = i < after;
        behind_at = end + i;
    }
    C sum = 0;
    ADD_COPIES(front_at, front)
    ADD_COPIES(before + i, 1)
    ADD_COPIES(behind_at, behind)
    STORE(T)(out, out_at + io, sum);
}
