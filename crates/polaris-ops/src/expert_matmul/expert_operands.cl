// Arguments of the kernels of matmul with experts.
//
// Parameters: T, the stored type of the weight.
//
//   sizes          experts of a token, experts, lines of a weight, elements of a line, groups of lines (or 1),
//                  whether there is a bias, whether lines are read in fours
//   pairs          pairs of tokens and experts
//   x_strides      of tokens, their experts and elements
//   weight_strides of experts, lines and elements
//   out_strides    of tokens, their experts and lines
//   bias_strides   of experts and lines
//
// The ids are dense. One that does not exist is replaced by the nearest that does.
#ifndef T
#define T f32
#endif

#define USED sizes.s0
#define EXPERTS sizes.s1
#define N sizes.s2
#define LENGTH sizes.s3
#define PARTS sizes.s4
#define HAS_BIAS sizes.s5
#define IN_FOURS sizes.s6

#define OPERANDS \
    uint8 sizes, uint pairs, uint4 x_strides, uint4 weight_strides, uint4 out_strides, uint4 bias_strides, \
    __global float *out, ulong out_at, __global const float *x, ulong x_at, \
    __global const STORAGE(T) *weight, ulong weight_at, __global const int *ids, ulong ids_at, \
    __global const float *bias, ulong bias_at

#define FIND_PAIR(pair) \
    const uint token = (pair) / USED, place = (pair) % USED; \
    const uint expert = (uint)clamp(ids[ids_at + (pair)], 0, (int)EXPERTS - 1); \
    const ulong row_at = x_at + (ulong)token * x_strides.s0 + (ulong)place * x_strides.s1;

#define LINE_AT(line) \
    (weight_at + (ulong)expert * weight_strides.s0 + (ulong)(line) * weight_strides.s1)

#define STORE_RESULT(line, sum) \
    out[out_at + (ulong)token * out_strides.s0 + (ulong)place * out_strides.s1 + (ulong)(line) * out_strides.s2] = \
        (sum) + (HAS_BIAS ? bias[bias_at + (ulong)expert * bias_strides.s0 + (ulong)(line) * bias_strides.s1] : 0.0f);
