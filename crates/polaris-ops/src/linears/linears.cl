// Linear layers of a few vectors with weights in blocks: format/multiply.cl for up to three weights in one launch.
//
// Layouts: groups of work-items take LINES lines of one weight and COLUMNS vectors each; those of the first weight come
// first. With GATED, a group has half as many lines of each of two weights: a work-item's even rows are of the first.
// Vectors are normalised on the way to local memory as far as that goes: with NORM each element is multiplied with the
// weight of the norm there, and the sum with the reciprocal of the root of the mean square at the end, which every group
// computes for itself.
//
// Parameters: B and C, the formats of weights, B the one with the larger units; WITH_C, whether there is a second; NORM;
// GATED; HAS_BIAS; ACTIVATION(a), the function of the gate; the others as in format/multiply.cl.
//
// Arguments:
//   sizes       vectors, elements of a vector, groups of vectors, stride of vectors, of results
//   lines       lines of each weight
//   groups      the first group of each weight
//   second      whether a weight is of format C
//   strides     bytes from one line to the next
//
// Weights begin at bytes. Biases and the weight of the norm are dense.

#define VECTORS sizes.s0
#define LENGTH sizes.s1
#define CHUNKS sizes.s2

#define X_FOUR(c, i) LOAD4(f32)(x, vector_at[c] + (i))
#if NORM
#undef PREPARE
#define PREPARE(c, i, four) \
    squares[c] += dot(four, four); \
    four *= vload4(0, norm + norm_at + (i));
#endif

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void linears_blocks(
    uint8 sizes, uint4 lines_of, uint4 groups, uint4 second, ulong4 strides, float epsilon,
    __global float *out, ulong out_at, __global const float *x, ulong x_at,
    __global const float *norm, ulong norm_at,
    __global const uchar *weight_0, ulong weight_0_at, __global const uchar *weight_1, ulong weight_1_at,
    __global const uchar *weight_2, ulong weight_2_at, __global const float *bias_0, ulong bias_0_at,
    __global const float *bias_1, ulong bias_1_at, __global const float *bias_2, ulong bias_2_at)
{
    DECLARE_SPACE
    const uint lane = get_local_id(0) % LANES, slice = get_local_id(0) / LANES;
    const uint first_vector = get_group_id(0) % CHUNKS * COLUMNS, tile = get_group_id(0) / CHUNKS;
    ulong vector_at[COLUMNS];
    FOR_ALL (uint c = 0; c < COLUMNS; ++c) {
        vector_at[c] = x_at + (ulong)min(first_vector + c, VECTORS - 1) * sizes.s3;
    }
#if GATED
    const uint which = 0, first_line = tile * (LINES / 2), count = lines_of.s0, before = 0;
#else
    const uint which = tile >= groups.s2 ? 2 : tile >= groups.s1 ? 1 : 0;
    const uint first_line = (tile - (which == 2 ? groups.s2 : which == 1 ? groups.s1 : 0)) * LINES;
    const uint count = which == 2 ? lines_of.s2 : which == 1 ? lines_of.s1 : lines_of.s0;
    const uint before = which == 2 ? lines_of.s0 + lines_of.s1 : which == 1 ? lines_of.s0 : 0;
    __global const uchar *weight = which == 2 ? weight_2 + weight_2_at : which == 1 ? weight_1 + weight_1_at
        : weight_0 + weight_0_at;
    const ulong stride = which == 2 ? strides.s2 : which == 1 ? strides.s1 : strides.s0;
#endif
    __global const uchar *lines[ROWS];
    float sums[ROWS][COLUMNS];
    FOR_ALL (uint r = 0; r < ROWS; ++r) {
#if GATED
        const ulong line = min(first_line + (slice * ROWS + r) / 2, count - 1);
        lines[r] = r % 2 == 0 ? weight_0 + weight_0_at + line * strides.s0 : weight_1 + weight_1_at + line * strides.s1;
#else
        lines[r] = weight + min(first_line + slice * ROWS + r, count - 1) * stride;
#endif
        FOR_ALL (uint c = 0; c < COLUMNS; ++c) {
            sums[r][c] = 0.0f;
        }
    }
#if NORM
    float squares[COLUMNS];
    FOR_ALL (uint c = 0; c < COLUMNS; ++c) {
        squares[c] = 0.0f;
    }
#endif
#if WITH_C
    if (which == 2 ? second.s2 : which == 1 ? second.s1 : second.s0) {
        MULTIPLY_UNITS(C, 0, LENGTH / ELEMENTS(C))
    } else
#endif
    {
        MULTIPLY_UNITS(B, 0, LENGTH / ELEMENTS(B))
    }
#if NORM
    barrier(CLK_LOCAL_MEM_FENCE);
    __local float *squared = (__local float *)space;
    FOR_ALL (uint c = 0; c < COLUMNS; ++c) {
        squared[get_local_id(0) * COLUMNS + c] = squares[c];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ADD_HALVES(squared, WORK_GROUP, COLUMNS)
    // A work-item stores sums of one vector: groups are multiples of their number.
    const float factor = rsqrt(squared[get_local_id(0) % COLUMNS] / (float)LENGTH + epsilon);
#define NORMALISED(sum) ((sum) * factor)
#else
#define NORMALISED(sum) (sum)
#endif
    COMBINE_SUMS
#if GATED
    for (uint at = get_local_id(0); at < LINES / 2 * COLUMNS; at += WORK_GROUP) {
        const uint c = at % COLUMNS, pair = at / COLUMNS, line = first_line + pair, vector = first_vector + c;
        if (line < count && vector < VECTORS) {
            const float first = NORMALISED(parts[2 * pair * COLUMNS + c]) + (HAS_BIAS ? bias_0[bias_0_at + line] : 0.0f);
            const float other =
                NORMALISED(parts[(2 * pair + 1) * COLUMNS + c]) + (HAS_BIAS ? bias_1[bias_1_at + line] : 0.0f);
            out[out_at + (ulong)vector * sizes.s4 + line] = ACTIVATION(first) * other;
        }
    }
#else
    __global const float *bias = which == 2 ? bias_2 + bias_2_at : which == 1 ? bias_1 + bias_1_at : bias_0 + bias_0_at;
    EACH_SUM {
        const uint c = at % COLUMNS, line = first_line + at / COLUMNS, vector = first_vector + c;
        if (line < count && vector < VECTORS) {
            const float sum = NORMALISED(parts[at]) + (HAS_BIAS ? bias[line] : 0.0f);
            out[out_at + (ulong)vector * sizes.s4 + before + line] = sum;
        }
    }
#endif
}
