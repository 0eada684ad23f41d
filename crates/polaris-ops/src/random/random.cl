// Random numbers by place: work-item g makes elements 4g to 4g + 3 of a dense array from block
// (offset / 4 + g) of the sequence. The generator is Philox 4x32-10.
//
// Parameters:
//   OUT            element type
//   DISTRIBUTION   0 bits, 1 uniform, 2 normal
//   WIDE           1 if a value needs two words: i64, and f64 unless normal
//   IS_BOOL        1 if the type is bool
//   R              type of the distribution's parameters: float, or double for f64
//   LOG2(x), NEAR(x), MIDDLE(x), FAR(x)   the polynomials of the normal quantile
//   WORK_GROUP     work-items in a group
#ifndef OUT
#define OUT f32
#define DISTRIBUTION 1
#define WIDE 0
#define IS_BOOL 0
#define R float
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

// A fused multiply-add rounds once where the CPU rounds twice: results would differ.
#pragma OPENCL FP_CONTRACT OFF

uint4 philox(uint4 c, uint2 k)
{
    for (int round = 0; round < 10; ++round) {
        const uint a_high = mul_hi(0xD2511F53u, c.s0), a_low = 0xD2511F53u * c.s0;
        const uint b_high = mul_hi(0xCD9E8D57u, c.s2), b_low = 0xCD9E8D57u * c.s2;
        c = (uint4)(b_high ^ c.s1 ^ k.s0, b_low, a_high ^ c.s3 ^ k.s1, a_low);
        k += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

#if DISTRIBUTION == 2

// The quantile of the probability in the low 31 bits, with the top bit as sign: see philox.rs.
float normal(uint word)
{
    const uint bits = as_uint(convert_float(word << 1 | 1u));
    const uint shifted = bits - 0x3f3504f3u;
    const float exponent = convert_float(as_int(shifted) >> 23);
    const float f = as_float((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    const float y = 33.0f - (exponent + f * LOG2(f));
    float quantile;
    if (y < 3.0f) {
        quantile = (y - 1.0f) * NEAR(y - 2.0f);
    } else if (y < 10.0f) {
        const float t = (y - 6.5f) * (float)(1.0f / 3.5f);
        quantile = MIDDLE(t);
    } else {
        const float t = (y - 21.5f) * (float)(1.0f / 11.5f);
        quantile = FAR(t);
    }
    return word >> 31 ? -quantile : quantile;
}

#endif

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void random_dense(ulong n, ulong seed, ulong offset, R low, R range,
                  __global STORAGE(OUT) *out, ulong out_at)
{
    const ulong first = (ulong)get_global_id(0) * 4;
    if (first >= n) {
        return;
    }
    const ulong block = offset / 4 + get_global_id(0);
    const uint2 key = (uint2)((uint)seed, (uint)(seed >> 32));
    const uint4 words = philox((uint4)((uint)block, (uint)(block >> 32), 0, 0), key);
    const uint w[4] = {words.s0, words.s1, words.s2, words.s3};
#if WIDE
    const uint4 more = philox((uint4)((uint)block, (uint)(block >> 32), 1, 0), key);
    const uint v[4] = {more.s0, more.s1, more.s2, more.s3};
#endif
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first + i < n) {
#if DISTRIBUTION == 0 && WIDE
            const long value = as_long((ulong)v[i] << 32 | w[i]);
#elif DISTRIBUTION == 0
            const int value = as_int(IS_BOOL ? w[i] & 1u : w[i]);
#elif DISTRIBUTION == 1 && WIDE
            const double u = (double)(((ulong)v[i] << 32 | w[i]) >> 11) * 0x1p-53;
            const double value = low + u * range;
#elif DISTRIBUTION == 1
            const float u = convert_float(w[i] >> 8) * 0x1p-24f;
            const float value = low + u * range;
#else
            const float value = (float)low + (float)range * normal(w[i]);
#endif
            STORE(OUT)(out, out_at + first + i, value);
        }
    }
}
