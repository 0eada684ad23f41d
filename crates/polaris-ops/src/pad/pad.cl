// Padding along any axes, and axes turned around: every element of the output is one of the input, or
// the constant.
//
// Layouts: any, of up to eight axes; one work-item for each element of the output.
//
// Parameters:
//   T              element type: u8, u16, i32 or i64; elements are only moved
//   C              compute type: int or long
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group
//
// Widths of padding have 32 bits in any case: wide indices take enough registers as it is.
//
// `mode` is 0 for a constant, 1 for reflection, 2 for repetition of the border, 3 for a circle; bit k
// of `flipped` says that axis k is turned around. They are arguments and not parameters: branches on
// them cost next to nothing, while each program costs a build.
#ifndef T
#define T i32
#define C int
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define NOWHERE ((INDEX)-1)

// The index of the input, of n along an axis, that an index of the output comes from.
INDEX source_of(INDEX index, INDEX before, INDEX n, uint is_flipped, uint mode)
{
    if (index < before) {
        const INDEX distance = before - index;
        return mode == 0 ? NOWHERE : mode == 1 ? distance : mode == 2 ? 0 : n - distance;
    }
    const INDEX inside = index - before;
    if (inside < n) {
        return is_flipped ? n - 1 - inside : inside;
    }
    const INDEX distance = inside - n;
    return mode == 0 ? NOWHERE : mode == 1 ? n - 2 - distance : mode == 2 ? n - 1 : distance;
}

#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    const INDEX from = \
        source_of(index, before.s##k, axis_length - before.s##k - after.s##k, \
                  (flipped >> k) & 1, mode); \
    outside = outside || from == NOWHERE; \
    ii += from * in_strides.s##k;

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void pad(ulong n, uint rank, uint mode, uint flipped, long constant_bits, uint8 before, uint8 after,
         VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides, VECTOR8(INDEX) in_strides,
         __global STORAGE(T) *out, ulong out_at, __global const STORAGE(T) *in, ulong in_at)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX io = 0, ii = 0;
    bool outside = false;
    WALK_AXES(8)
    C value = (C)constant_bits;
    if (!outside) {
        value = LOAD(T)(in, in_at + ii);
    }
    STORE(T)(out, out_at + io, value);
}
