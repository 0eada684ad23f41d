// Products of rows with the lines of experts' weights.
//
// Layouts: in `expert_matmul`, LANES work-items side by side walk along one line of a weight, and a group takes
// WORK_GROUP / LANES lines for one pair of a token and an expert. `expert_matmul_serial` has a work-item for each
// element of the result.
//
// Parameters:
//   T              stored type of the weight: f32, f16, bf16 or a format of blocks
//   WORK_GROUP     work-items in a group, a multiple of LANES
//   LANES          work-items that share a line, a power of two
//
// Arguments as in expert_operands.cl.
#ifndef WORK_GROUP
#define WORK_GROUP 256
#define LANES 64
#endif

#define SLICES (WORK_GROUP / LANES)

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void expert_matmul(OPERANDS)
{
    __local float shared[WORK_GROUP];
    const uint lane = get_local_id(0) % LANES, slice = get_local_id(0) / LANES;
    const uint pair = get_group_id(0) / PARTS;
    const uint line = get_group_id(0) % PARTS * SLICES + slice;
    FIND_PAIR(pair)
    const ulong line_at = LINE_AT(min(line, N - 1));
    float sum = 0.0f;
    if (IN_FOURS) {
        for (uint i = lane * 4; i < LENGTH; i += LANES * 4) {
            const float4 w = LOAD4(T)(weight, line_at + i);
            const float4 v = LOAD4(f32)(x, row_at + i);
            sum += v.s0 * w.s0 + v.s1 * w.s1 + v.s2 * w.s2 + v.s3 * w.s3;
        }
    } else {
        for (uint i = lane; i < LENGTH; i += LANES) {
            sum += x[row_at + (ulong)i * x_strides.s2] * (float)LOAD(T)(weight, line_at + (ulong)i * weight_strides.s2);
        }
    }
    shared[get_local_id(0)] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint distance = LANES / 2; distance > 0; distance /= 2) {
        if (lane < distance) {
            shared[get_local_id(0)] += shared[get_local_id(0) + distance];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0 && line < N) {
        STORE_RESULT(line, shared[get_local_id(0)])
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void expert_matmul_serial(OPERANDS)
{
    const ulong item = get_global_id(0);
    if (item >= (ulong)pairs * N) {
        return;
    }
    const uint pair = (uint)(item / N), line = (uint)(item % N);
    FIND_PAIR(pair)
    const ulong line_at = LINE_AT(line);
    // Parts of the sum, so that late products do not lose their lower digits.
    float sum = 0.0f;
    for (uint first = 0; first < LENGTH; first += 64) {
        const uint end = min(first + 64, LENGTH);
        float part = 0.0f;
        for (uint i = first; i < end; ++i) {
            part += x[row_at + (ulong)i * x_strides.s2] * (float)LOAD(T)(weight, line_at + (ulong)i * weight_strides.s2);
        }
        sum += part;
    }
    STORE_RESULT(line, sum)
}
