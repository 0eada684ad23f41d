// Between floats and the bytes that stand for them, and sums of bytes: one work-item for each element.
//
// Layouts: any, of up to eight axes.
//
// Parameters:
//   FROM, TO       types of operands and result: f32, u8 or i8
//   RULE           0: floats to bytes, 1: bytes to floats, 2: the sum of two arrays of bytes
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group
#ifndef RULE
#define FROM f32
#define TO u8
#define RULE 0
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

// A product and a sum that were one would be rounded once.
#pragma OPENCL FP_CONTRACT OFF

// Divides by the scale as a division that is rounded once: what is left of the first guess tells how far off it is.
int quantized(float x, float scale, float inverse, float low, float high, int zero)
{
    const float guess = x * inverse;
    float value = isfinite(guess) ? fma(fma(-guess, scale, x), inverse, guess) : guess;
    value = value > low ? value : low;
    value = value < high ? value : high;
    return (int)rint(value) + zero;
}

#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ia += index * a_strides.s##k; \
    ib += index * b_strides.s##k;

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void quantize(ulong n, uint rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides, VECTOR8(INDEX) a_strides,
              VECTOR8(INDEX) b_strides, float a_scale, int a_zero, float b_scale, int b_zero, float scale, int zero,
              float inverse, float low, float high, __global STORAGE(TO) *out, ulong out_at,
              __global const STORAGE(FROM) *a, ulong a_at, __global const STORAGE(FROM) *b, ulong b_at)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX io = 0, ia = 0, ib = 0;
    WALK_AXES(8)
#if RULE == 0
    STORE(TO)(out, out_at + io, quantized(LOAD(FROM)(a, a_at + ia), scale, inverse, low, high, zero));
#elif RULE == 1
    STORE(TO)(out, out_at + io, (float)(LOAD(FROM)(a, a_at + ia) - a_zero) * a_scale);
#else
    const float x = (float)(LOAD(FROM)(a, a_at + ia) - a_zero) * a_scale;
    const float y = (float)(LOAD(FROM)(b, b_at + ib) - b_zero) * b_scale;
    STORE(TO)(out, out_at + io, quantized(x + y, scale, inverse, low, high, zero));
#endif
}
