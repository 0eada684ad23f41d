// Rotary position embedding: one work-item rotates one pair.
//
// Layouts: any, of up to eight axes; the result may lie where x lies.
//
// Parameters:
//   T              element type: f32, f64, f16 or bf16
//   C              type of the computation: float or double
//   WORK_GROUP     work-items in a group
//
// `out_pair` and `x_pair` are the distances from the first element of a pair to the second.
#ifndef T
#define T f32
#define C float
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define INDEX uint
#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ix += index * x_strides.s##k; \
    ic += index * cos_strides.s##k; \
    is += index * sin_strides.s##k;

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void rope(ulong n, uint rank, uint8 lengths, uint8 out_strides, uint8 x_strides,
          uint8 cos_strides, uint8 sin_strides, ulong out_pair, ulong x_pair,
          __global STORAGE(T) *out, ulong out_at, __global const STORAGE(T) *x, ulong x_at,
          __global const STORAGE(T) *cosines, ulong cosines_at, __global const STORAGE(T) *sines, ulong sines_at)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    uint rest = (uint)point;
    uint io = 0, ix = 0, ic = 0, is = 0;
    WALK_AXES(8)
    const C a = LOAD(T)(x, x_at + ix);
    const C b = LOAD(T)(x, x_at + ix + x_pair);
    const C c = LOAD(T)(cosines, cosines_at + ic);
    const C s = LOAD(T)(sines, sines_at + is);
    STORE(T)(out, out_at + io, a * c - b * s);
    STORE(T)(out, out_at + io + out_pair, b * c + a * s);
}
