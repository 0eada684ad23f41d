// Expressions of one to eight arrays: a chain of elementwise functions in one kernel.
//
// Layouts: `fused_vector` walks dense arrays (or single repeated values) four elements at a time;
// `fused_strided` walks any layout of up to AXES axes, one element at a time.
//
// Parameters:
//   FOR_EACH_INPUT    FOR_EACH_1 to FOR_EACH_8, by the number of input arrays
//   T0 to T7          element types of the inputs (f32, f16, bf16, f64, bool)
//   OUT               element type of the output
//   C                 compute type: float or double
//   SCALARS           numbers c0, c1, ... as further parameters of the kernel, each with a comma in
//                     front
//   BODY              statements that compute values v0, v1, ... from elements x0, x1, ... and c0, ...
//   RESULT            the value that is stored
//   AXES              4, or 8 where four are not enough: lengths and strides fill scalar registers, and
//                     with eight of each, few arrays leave none to spill
//   INDEX             uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP        work-items in a group
//   VECTOR            1 for fused_vector, 0 for fused_strided
//
// An input that is not used is passed all the same, and the compiler drops it.
#ifndef C
#define FOR_EACH_INPUT FOR_EACH_2
#define T0 f32
#define T1 f32
#define OUT f32
#define C float
#define SCALARS , C c0
#define BODY const C v3 = x1 * c0; const C v4 = x0 + v3;
#define RESULT v4
#define AXES 4
#define INDEX uint
#define VECTOR 1
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

// FOR_EACH_INPUT(m, extra) becomes m(0, extra) m(1, extra) ..., once for each input.
#define FOR_EACH_1(m, extra) m(0, extra)
#define FOR_EACH_2(m, extra) FOR_EACH_1(m, extra) m(1, extra)
#define FOR_EACH_3(m, extra) FOR_EACH_2(m, extra) m(2, extra)
#define FOR_EACH_4(m, extra) FOR_EACH_3(m, extra) m(3, extra)
#define FOR_EACH_5(m, extra) FOR_EACH_4(m, extra) m(4, extra)
#define FOR_EACH_6(m, extra) FOR_EACH_5(m, extra) m(5, extra)
#define FOR_EACH_7(m, extra) FOR_EACH_6(m, extra) m(6, extra)
#define FOR_EACH_8(m, extra) FOR_EACH_7(m, extra) m(7, extra)

#define POINTER(k, extra) , __global const STORAGE(T##k) *p##k, ulong at##k
#define OPERANDS __global STORAGE(OUT) *out, ulong out_at FOR_EACH_INPUT(POINTER, 0) SCALARS

#if VECTOR

// A whole vector of an input, or its single value four times, or what is left of it at the end.
#define LOAD_FOUR(k, left) \
    VECTOR4(C) y##k; \
    if (ones >> k & 1) { \
        y##k = (VECTOR4(C))((C)LOAD(T##k)(p##k, at##k)); \
    } else if (left >= 4) { \
        y##k = CONVERT4(C)(LOAD4(T##k)(p##k, at##k + i)); \
    } else { \
        y##k = (VECTOR4(C))((C)LOAD(T##k)(p##k, at##k + i)); \
        if (left > 1) y##k.s1 = (C)LOAD(T##k)(p##k, at##k + i + 1); \
        if (left > 2) y##k.s2 = (C)LOAD(T##k)(p##k, at##k + i + 2); \
    }

#define PICK(k, lane) const C x##k = y##k.s##lane;
#define COMPUTE(lane) { FOR_EACH_INPUT(PICK, lane) BODY r.s##lane = RESULT; }

// Bit k of `ones` says that input k is a single value. The offsets of the others are multiples of
// four elements: the host sees to it.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void fused_vector(ulong n, uint ones, OPERANDS)
{
    const ulong i = (ulong)get_global_id(0) * 4;
    if (i >= n) {
        return;
    }
    const ulong left = n - i;
    FOR_EACH_INPUT(LOAD_FOUR, left)
    VECTOR4(C) r;
    COMPUTE(0) COMPUTE(1) COMPUTE(2) COMPUTE(3)
    if (left >= 4) {
        STORE4(OUT)(out, out_at + i, r);
    } else {
        STORE(OUT)(out, out_at + i, r.s0);
        if (left > 1) STORE(OUT)(out, out_at + i + 1, r.s1);
        if (left > 2) STORE(OUT)(out, out_at + i + 2, r.s2);
    }
}

#else

#define PER_AXIS PASTE(INDEX, AXES)
#define STRIDES(k, extra) PER_AXIS strides##k,
#define BEGIN(k, extra) INDEX i##k = 0;
#define STEP(k, axis) i##k += index * strides##k.s##axis;
#define LOAD_ONE(k, extra) const C x##k = (C)LOAD(T##k)(p##k, at##k + i##k);

// Lengths and strides of the `rank` axes, outermost first; the others are ignored.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void fused_strided(ulong n, uint rank, PER_AXIS lengths, PER_AXIS out_strides,
                   FOR_EACH_INPUT(STRIDES, 0) OPERANDS)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX io = 0;
    FOR_EACH_INPUT(BEGIN, 0)
#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    FOR_EACH_INPUT(STEP, k)
    WALK_AXES(AXES)
    FOR_EACH_INPUT(LOAD_ONE, 0)
    BODY
    STORE(OUT)(out, out_at + io, RESULT);
}

#endif
