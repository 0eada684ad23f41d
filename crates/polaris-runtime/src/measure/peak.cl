// Measures the device itself. `peak_f32` does chains of multiply-adds that nothing waits for;
// `empty` does nothing; `small` adds a few numbers, with as many arguments as an elementwise
// kernel has.
//
// Parameters:
//   ROUNDS       rounds of 16 multiply-adds on vectors
//   VECTOR       float4, or float16 on processors
//   LAST         the last four components of such a vector
//   MULTIPLY_ADD mad, or fma on processors
//   WORK_GROUP   work-items in a group
#ifndef ROUNDS
#define ROUNDS 256
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif
#ifndef VECTOR
#define VECTOR float4
#define LAST s0123
#define MULTIPLY_ADD mad
#endif

// Eight independent chains hide the latency of a multiply-add on every device.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void peak_f32(float seed, __global float *out, ulong out_at)
{
    const VECTOR m = (VECTOR)(seed * 0.999f), a = (VECTOR)(seed * 0.001f);
    VECTOR v0 = (VECTOR)(get_global_id(0) * 0.001f), v1 = v0 + 1.0f, v2 = v0 + 2.0f, v3 = v0 + 3.0f;
    VECTOR v4 = v0 + 4.0f, v5 = v0 + 5.0f, v6 = v0 + 6.0f, v7 = v0 + 7.0f;
    for (int i = 0; i < ROUNDS; ++i) {
        v0 = MULTIPLY_ADD(v0, m, a); v1 = MULTIPLY_ADD(v1, m, a);
        v2 = MULTIPLY_ADD(v2, m, a); v3 = MULTIPLY_ADD(v3, m, a);
        v4 = MULTIPLY_ADD(v4, m, a); v5 = MULTIPLY_ADD(v5, m, a);
        v6 = MULTIPLY_ADD(v6, m, a); v7 = MULTIPLY_ADD(v7, m, a);
        v0 = MULTIPLY_ADD(v0, m, a); v1 = MULTIPLY_ADD(v1, m, a);
        v2 = MULTIPLY_ADD(v2, m, a); v3 = MULTIPLY_ADD(v3, m, a);
        v4 = MULTIPLY_ADD(v4, m, a); v5 = MULTIPLY_ADD(v5, m, a);
        v6 = MULTIPLY_ADD(v6, m, a); v7 = MULTIPLY_ADD(v7, m, a);
    }
    const VECTOR s = v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7;
    out[out_at + get_global_id(0)] = dot(s.s0123, (float4)(1)) + dot(s.LAST, (float4)(1));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void empty(void)
{
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void small(ulong n, uint unused, __global float *out, ulong out_at, __global const float *a,
           ulong a_at, __global const float *b, ulong b_at, __global const float *c, ulong c_at)
{
    const ulong i = get_global_id(0);
    if (i < n) {
        out[out_at + i] = a[a_at + i] + b[b_at + i];
    }
}
