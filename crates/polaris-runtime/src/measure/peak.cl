// Measures the device itself. `peak_f32` does chains of multiply-adds that nothing waits for;
// `empty` does nothing; `small` adds a few numbers, with as many arguments as an elementwise
// kernel has.
//
// Parameters:
//   ROUNDS       rounds of 16 multiply-adds on 4-vectors
//   WORK_GROUP   work-items in a group
#ifndef ROUNDS
#define ROUNDS 256
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

// Eight independent chains of four lanes hide the latency of an addition on every device.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void peak_f32(float seed, __global float *out, ulong out_at)
{
    const float4 m = (float4)(seed * 0.999f), a = (float4)(seed * 0.001f);
    float4 v0 = (float4)(get_global_id(0) * 0.001f), v1 = v0 + 1.0f, v2 = v0 + 2.0f, v3 = v0 + 3.0f;
    float4 v4 = v0 + 4.0f, v5 = v0 + 5.0f, v6 = v0 + 6.0f, v7 = v0 + 7.0f;
    for (int i = 0; i < ROUNDS; ++i) {
        v0 = mad(v0, m, a); v1 = mad(v1, m, a); v2 = mad(v2, m, a); v3 = mad(v3, m, a);
        v4 = mad(v4, m, a); v5 = mad(v5, m, a); v6 = mad(v6, m, a); v7 = mad(v7, m, a);
        v0 = mad(v0, m, a); v1 = mad(v1, m, a); v2 = mad(v2, m, a); v3 = mad(v3, m, a);
        v4 = mad(v4, m, a); v5 = mad(v5, m, a); v6 = mad(v6, m, a); v7 = mad(v7, m, a);
    }
    const float4 s = v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7;
    out[out_at + get_global_id(0)] = s.s0 + s.s1 + s.s2 + s.s3;
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
