// Look-ups by dense keys: `take` and `gather`.
//
// Layouts: any, of up to eight axes; one work-item for each element, or for each four where rows that
// share a key are dense and aligned.
//
// Parameters:
//   T              element type: u8, u16, i32 or i64, of elements that are only moved; f16, bf16 or a format of blocks
//   TO             the same, or f32 for those that become f32
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group
//
// `vectors` says that the innermost axis can be moved in fours. It and the rank are arguments and not
// parameters: branches on them cost next to nothing, while each program costs a build.
#ifndef T
#define T i32
#define TO i32
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ii += index * in_strides.s##k; \
    ik += index * key_strides.s##k;

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void lookup(ulong n, uint vectors, uint rank, ulong stride, VECTOR8(INDEX) lengths,
            VECTOR8(INDEX) out_strides, VECTOR8(INDEX) in_strides, VECTOR8(INDEX) key_strides,
            __global STORAGE(TO) *out, ulong out_at, __global const STORAGE(T) *in, ulong in_at,
            __global const uint *keys, ulong keys_at)
{
    const ulong point = (ulong)get_global_id(0) * (vectors ? 4 : 1);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX io = 0, ii = 0, ik = 0;
    WALK_AXES(8)
    const ulong from = in_at + ii + keys[keys_at + ik] * stride;
    if (vectors) {
        STORE4(TO)(out, out_at + io, LOAD4(T)(in, from));
    } else {
        STORE(TO)(out, out_at + io, LOAD(T)(in, from));
    }
}
