// Causal convolution along the tokens of sequences, a filter for each channel.
//
// Layouts: any; one work-item for each element of the result.
//
// Parameters:
//   WORK_GROUP     work-items in a group
//
// Arguments:
//   n              elements of the result
//   sizes          channels, taps, slots of the tail, whether there is a bias, whether SiLU follows; strides of the
//                  bias, and of the result's tokens and channels
//   strides        of x: token, channel; of the tail: slot, row, channel; of places: token, number; of weights: channel
//   tap_step       stride of weights: tap
//
// Slots that do not exist are replaced by the nearest that do, positions before 0 by 0.
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define CHANNELS sizes.s0
#define TAPS sizes.s1
#define SLOTS sizes.s2
#define HAS_BIAS sizes.s3
#define HAS_SILU sizes.s4
#define BIAS_STEP sizes.s5

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void causal_conv(ulong n, uint8 sizes, uint8 strides, uint tap_step,
                 __global float *out, ulong out_at, __global const float *x, ulong x_at,
                 __global const float *tail, ulong tail_at, __global const int *places, ulong places_at,
                 __global const float *weights, ulong weights_at, __global const float *bias, ulong bias_at)
{
    const ulong item = get_global_id(0);
    if (item >= n) {
        return;
    }
    const uint channel = (uint)(item % CHANNELS);
    const uint token = (uint)(item / CHANNELS);
    const ulong place = places_at + (ulong)token * strides.s5;
    const int slot = places[place];
    const int position = max(places[place + strides.s6], 0);
    const ulong row_at = tail_at + (ulong)clamp(slot, 0, (int)SLOTS - 1) * strides.s2 + (ulong)channel * strides.s4;
    const ulong filter_at = weights_at + (ulong)channel * strides.s7;
    float sum = HAS_BIAS ? bias[bias_at + (ulong)channel * BIAS_STEP] : 0.0f;
    // Before the first position there is nothing.
    const uint count = min(TAPS, (uint)position + 1);
    for (uint back = 0; back < count; ++back) {
        const int at = position - (int)back;
        bool is_here = token >= back;
        if (is_here) {
            const ulong other = places_at + (ulong)(token - back) * strides.s5;
            is_here = back == 0 || (places[other] == slot && places[other + strides.s6] == at);
        }
        const float value = is_here ? x[x_at + (ulong)(token - back) * strides.s0 + (ulong)channel * strides.s1]
                                    : tail[row_at + (ulong)((uint)at % (TAPS - 1)) * strides.s3];
        sum += weights[filter_at + (ulong)(TAPS - 1 - back) * tap_step] * value;
    }
    if (HAS_SILU) {
        sum = sum / (1.0f + exp(-sum));
    }
    out[out_at + (ulong)token * sizes.s6 + (ulong)channel * sizes.s7] = sum;
}
