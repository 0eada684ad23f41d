// Elementwise functions of one to three arrays.
//
// Layouts: `elementwise_vector` walks dense arrays (or single repeated values) four elements at a
// time; `elementwise_strided` walks any layout of up to eight axes, one element at a time.
//
// Parameters:
//   APPLY(a, b, c)    the function, an expression of the compute type C
//   C                 compute type: float, double, int or long
//   A, B_, C_, OUT    element types of inputs and output (f32, f16, bf16, f64, i8, ...)
//   INDEX             uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP        work-items in a group
//   VECTOR            1 for elementwise_vector, 0 for elementwise_strided
//
// Unused inputs are passed all the same, and the compiler drops them. Ranks and flags are
// arguments and not parameters: they are the same for all work-items, so branches on them cost
// next to nothing, while each program costs a build.
#ifndef C
#define APPLY(a, b, c) ((a) + (b))
#define C float
#define A f32
#define B_ f32
#define C_ f32
#define OUT f32
#define INDEX uint
#define VECTOR 1
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define OPERANDS \
    __global OUT_STORAGE *out, ulong out_at, \
    __global const A_STORAGE *a, ulong a_at, \
    __global const B_STORAGE *b, ulong b_at, \
    __global const C_STORAGE *c, ulong c_at

#define OUT_STORAGE STORAGE(OUT)
#define A_STORAGE STORAGE(A)
#define B_STORAGE STORAGE(B_)
#define C_STORAGE STORAGE(C_)

#if VECTOR

// A whole vector of an input, or its single value four times.
#define LOAD_FOUR(type, p, at, one) \
    ((one) ? (VECTOR4(C))((C)LOAD(type)(p, at)) : CONVERT4(C)(LOAD4(type)(p, (at) + i)))

// Bits 0 to 2 of `ones` say which inputs are single values. The offsets of the others are
// multiples of four elements: the host sees to it.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void elementwise_vector(ulong n, uint ones, OPERANDS)
{
    const ulong i = (ulong)get_global_id(0) * 4;
    if (i + 4 <= n) {
        const VECTOR4(C) x = LOAD_FOUR(A, a, a_at, ones & 1);
        const VECTOR4(C) y = LOAD_FOUR(B_, b, b_at, ones & 2);
        const VECTOR4(C) z = LOAD_FOUR(C_, c, c_at, ones & 4);
        VECTOR4(C) r;
        r.s0 = APPLY(x.s0, y.s0, z.s0);
        r.s1 = APPLY(x.s1, y.s1, z.s1);
        r.s2 = APPLY(x.s2, y.s2, z.s2);
        r.s3 = APPLY(x.s3, y.s3, z.s3);
        STORE4(OUT)(out, out_at + i, r);
    } else {
        for (ulong j = i; j < n; ++j) {
            const C x = (C)LOAD(A)(a, a_at + (ones & 1 ? 0 : j));
            const C y = (C)LOAD(B_)(b, b_at + (ones & 2 ? 0 : j));
            const C z = (C)LOAD(C_)(c, c_at + (ones & 4 ? 0 : j));
            STORE(OUT)(out, out_at + j, APPLY(x, y, z));
        }
    }
}

#else

// Lengths and strides of the `rank` axes, outermost first; the others are ignored.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void elementwise_strided(ulong n, uint rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides,
                         VECTOR8(INDEX) a_strides, VECTOR8(INDEX) b_strides,
                         VECTOR8(INDEX) c_strides, OPERANDS)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX io = 0, ia = 0, ib = 0, ic = 0;
#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ia += index * a_strides.s##k; \
    ib += index * b_strides.s##k; \
    ic += index * c_strides.s##k;
    WALK_AXES(8)
    const C x = (C)LOAD(A)(a, a_at + ia);
    const C y = (C)LOAD(B_)(b, b_at + ib);
    const C z = (C)LOAD(C_)(c, c_at + ic);
    STORE(OUT)(out, out_at + io, APPLY(x, y, z));
}

#endif
