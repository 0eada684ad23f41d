// Quantised convolutions: one work-item for each element of the result.
//
// Layouts: any, of images with rows and columns; those of one axis have one row.
//
// Parameters:
//   X, OUT         types of images and results: u8 or i8
//   WORK_GROUP     work-items in a group
//
// `sizes` are output channels, those of a group, input channels of a group, rows and columns of results, rows and
// columns of the kernel, and whether there is a bias; `steps` are strides, paddings, dilations and lengths of images,
// of rows and columns each. Strides are of images, channels, rows and columns; of outputs, inputs, rows and columns
// for the weight, and after them those of factors and bias.
#ifndef X
#define X u8
#define OUT u8
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

// A product and a sum that were one would be rounded once.
#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void convolution_quantized(ulong n, uint8 sizes, uint8 steps, ulong8 strides, ulong8 weight_strides, int x_zero,
                           int out_zero, float low, float high, __global STORAGE(OUT) *out, ulong out_at,
                           __global const STORAGE(X) *x, ulong x_at, __global const char *weight, ulong weight_at,
                           __global const float *factors, ulong factors_at, __global const int *bias, ulong bias_at)
{
    ulong rest = get_global_id(0);
    if (rest >= n) {
        return;
    }
    const uint column = (uint)(rest % sizes.s4);
    rest /= sizes.s4;
    const uint row = (uint)(rest % sizes.s3);
    rest /= sizes.s3;
    const uint channel = (uint)(rest % sizes.s0);
    const ulong image = rest / sizes.s0;
    const uint first_input = channel / sizes.s1 * sizes.s2;
    int sum = sizes.s7 ? bias[bias_at + channel * weight_strides.s5] : 0;
    for (uint down = 0; down < sizes.s5; ++down) {
        const int from_row = (int)(row * steps.s0 + down * steps.s4) - (int)steps.s2;
        if (from_row < 0 || from_row >= (int)steps.s6) {
            continue;
        }
        for (uint across = 0; across < sizes.s6; ++across) {
            const int from_column = (int)(column * steps.s1 + across * steps.s5) - (int)steps.s3;
            if (from_column < 0 || from_column >= (int)steps.s7) {
                continue;
            }
            ulong from = x_at + image * strides.s0 + first_input * strides.s1 + from_row * strides.s2 +
                         from_column * strides.s3;
            ulong tap = weight_at + channel * weight_strides.s0 + down * weight_strides.s2 + across * weight_strides.s3;
            for (uint input = 0; input < sizes.s2; ++input) {
                sum += (LOAD(X)(x, from) - x_zero) * (int)weight[tap];
                from += strides.s1;
                tap += weight_strides.s1;
            }
        }
    }
    float value = (float)sum * factors[factors_at + channel * weight_strides.s4];
    value = value > low ? value : low;
    value = value < high ? value : high;
    const ulong to = out_at + image * strides.s4 + channel * strides.s5 + row * strides.s6 + column * strides.s7;
    STORE(OUT)(out, to, (int)rint(value) + out_zero);
}
