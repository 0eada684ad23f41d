// Products of a few vectors with a matrix: every element of the matrix is read once and used for
// all vectors, so the memory's speed is the limit.
//
// The vectors are the rows of A, and the matrix is B; where B is the narrow one, the host calls
// with A and B in each other's place, and `swapped` says so. Vectors are `a_stride` apart, their
// elements `vector_step`.
//
// Layouts: with ALONG_K the matrix is dense along k, and LANES work-items side by side walk along
// one of its lines; otherwise each work-item has WIDTH neighbouring lines of its own. In both, the
// work-items of a group that share lines add their sums through local memory.
//
// Parameters:
//   ROWS                 vectors, rounded up to 1, 2, 4 or 8
//   ALONG_K              1 if neighbours in memory are neighbours in k
//   WIDTH                elements of the matrix read at once, 1 or 4
//   WORK_GROUP           work-items in a group, a multiple of LANES
//   LANES                work-items that share a line, or WIDTH lines; a power of two
//   A, B, OUT, ACC, EPILOGUE, ACTIVATION, INDEX as in product.cl
#ifndef ROWS
#define A f32
#define B f32
#define OUT f32
#define ACC float
#define INDEX uint
#define ROWS 1
#define ALONG_K 1
#define WIDTH 4
#define WORK_GROUP 256
#define LANES 64
#define EPILOGUE 0
#endif

#define SLICES (WORK_GROUP / LANES)
#define UNROLLED _Pragma("unroll")
#define VECTOR_AT(r, i) ((ACC)LOAD(A)(a, a_at + vector_at[r] + (i) * vector_step))

#define STORE_RESULT(sum, r, line) \
    { \
        const ulong row = swapped ? (ulong)(line) : (ulong)(r); \
        const ulong column = swapped ? (ulong)(r) : (ulong)(line); \
        const RESULT value = FINISH(sum, row, column); \
        STORE(OUT)(out, out_at + (r) * out_rows + (line) * out_columns, value); \
    }

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void matmul_skinny(uint swapped, INDEX vector_step, PRODUCT_OPERANDS EPILOGUE_OPERANDS)
{
    const uint lane = get_local_id(0) % LANES, slice = get_local_id(0) / LANES;
    FIND_BATCH
    const uint begin = split * split_length;
    const uint end = min(k, begin + split_length);
    INDEX vector_at[ROWS];
    UNROLLED for (uint r = 0; r < ROWS; ++r) {
        vector_at[r] = min(r, m - 1) * a_stride;
    }
#if ALONG_K
    __local ACC shared[ROWS][WORK_GROUP];
    const uint line = (first_tile + get_group_id(0)) * SLICES + slice;
    const ulong line_at = b_at + min(line, n - 1) * (ulong)b_stride;
    ACC sums[ROWS];
    UNROLLED for (uint r = 0; r < ROWS; ++r) {
        sums[r] = 0;
    }
    uint i = begin + lane * WIDTH;
#if WIDTH == 4
    __attribute__((opencl_unroll_hint(4)))
    for (; i + 3 < end; i += LANES * WIDTH) {
        const VECTOR4(ACC) w = LOAD4(B)(b, line_at + i);
        UNROLLED for (uint r = 0; r < ROWS; ++r) {
            const VECTOR4(ACC) v = LOAD4(A)(a, a_at + vector_at[r] + i);
            sums[r] += v.s0 * w.s0 + v.s1 * w.s1 + v.s2 * w.s2 + v.s3 * w.s3;
        }
    }
#else
    __attribute__((opencl_unroll_hint(4)))
    for (; i < end; i += LANES) {
        const ACC w = LOAD(B)(b, line_at + i);
        UNROLLED for (uint r = 0; r < ROWS; ++r) {
            sums[r] += VECTOR_AT(r, i) * w;
        }
    }
#endif
    UNROLLED for (uint r = 0; r < ROWS; ++r) {
        shared[r][get_local_id(0)] = sums[r];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint distance = LANES / 2; distance > 0; distance /= 2) {
        if (lane < distance) {
            UNROLLED for (uint r = 0; r < ROWS; ++r) {
                shared[r][get_local_id(0)] += shared[r][get_local_id(0) + distance];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0 && line < n) {
        for (uint r = 0; r < m; ++r) {
            STORE_RESULT(shared[r][get_local_id(0)], r, line)
        }
    }
#else
    __local ACC shared[SLICES][LANES * WIDTH];
    const uint first = ((first_tile + get_group_id(0)) * LANES + lane) * WIDTH;
    const ulong first_at = b_at + min(first, n - WIDTH);
    ACC sums[ROWS][WIDTH];
    UNROLLED for (uint r = 0; r < ROWS; ++r) {
        UNROLLED for (uint j = 0; j < WIDTH; ++j) {
            sums[r][j] = 0;
        }
    }
    __attribute__((opencl_unroll_hint(4)))
    for (uint i = begin + slice; i < end; i += SLICES) {
#if WIDTH == 4
        const VECTOR4(ACC) w = LOAD4(B)(b, first_at + i * (ulong)b_stride);
        UNROLLED for (uint r = 0; r < ROWS; ++r) {
            const ACC v = VECTOR_AT(r, i);
            sums[r][0] += v * w.s0;
            sums[r][1] += v * w.s1;
            sums[r][2] += v * w.s2;
            sums[r][3] += v * w.s3;
        }
#else
        const ACC w = LOAD(B)(b, first_at + i * (ulong)b_stride);
        UNROLLED for (uint r = 0; r < ROWS; ++r) {
            sums[r][0] += VECTOR_AT(r, i) * w;
        }
#endif
    }
    UNROLLED for (uint r = 0; r < ROWS; ++r) {
        UNROLLED for (uint j = 0; j < WIDTH; ++j) {
            shared[slice][lane * WIDTH + j] = sums[r][j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint at = get_local_id(0); at < LANES * WIDTH; at += WORK_GROUP) {
            const uint line = (first_tile + get_group_id(0)) * LANES * WIDTH + at;
            if (line < n && r < m) {
                ACC sum = shared[0][at];
                for (uint other = 1; other < SLICES; ++other) {
                    sum += shared[other][at];
                }
                STORE_RESULT(sum, r, line)
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
}
