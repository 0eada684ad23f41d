// Products of matrices by tiles: each work-group computes TILE_M by TILE_N elements of the result,
// walks along k in steps of TILE_K, and keeps the two tiles of a step in local memory.
//
// Parameters:
//   A, B, OUT            element types
//   ACC                  type of products and sums: float, or int for integers
//   TILE_M, TILE_N       rows and columns of the result that a work-group computes
//   TILE_K               length of a step along k
//   THREADS_M, THREADS_N work-items along m and n
//   LANES_M, LANES_N     work-items of a wavefront along m and n: neighbours read the same rows and
//                        columns, which local memory serves at once
//   VECTOR               elements along n that are read at once from local memory and multiplied
//                        as one vector
//   ROWS_AT_ONCE         elements along m that are read at once from local memory
//   PAD_A, PAD_B         unused elements behind each row of a tile in local memory, against bank
//                        conflicts
//   BUFFERS              tiles in local memory: with two or more the next one is fetched meanwhile
//   FRAGMENTS            2 if the operands of the next step in k are read ahead into registers
//   UNROLL               steps in k that are written out
//   COPY                 how a tile comes to local memory; see tile_copies.cl
//   MULTIPLY_ADD         mad, fma, or mad24 for integers; FASTER_MULTIPLY_ADD is whichever of the
//                        first two the compiler says is fast
//   A_ALONG_K, B_ALONG_K 1 if neighbours in memory are neighbours in k, 0 if along m or n
//   A_WIDTH, B_WIDTH     elements read at once from global memory, 1 or 4. 4 needs offsets,
//                        strides and the length of the row that are multiples of four.
//   A_LOOSE, B_LOOSE     1 if vectors of four may begin anywhere and end beyond the row: for
//                        processors, which have unaligned vectors
//   EPILOGUE             1 if there is more to do than multiplying with alpha and storing
//   ACTIVATION(x)        the activation, with EPILOGUE
//   INDEX                uint, or ulong where an offset in a matrix may exceed 32 bits
//
// Sizes need not be multiples of the tile: rows and columns beyond the edge are those of the last
// one again and are not stored; steps beyond the end of k are zeros.
#ifndef TILE_M
#define A f32
#define B f32
#define OUT f32
#define ACC float
#define TILE_M 64
#define TILE_N 64
#define TILE_K 16
#define THREADS_M 16
#define THREADS_N 16
#define LANES_M 8
#define LANES_N 8
#define VECTOR 4
#define ROWS_AT_ONCE 4
#define PAD_A 4
#define PAD_B 4
#define BUFFERS 2
#define FRAGMENTS 1
#define UNROLL 4
#define COPY 0
#define MULTIPLY_ADD mad
#define A_ALONG_K 1
#define B_ALONG_K 0
#define A_WIDTH 4
#define B_WIDTH 4
#define A_LOOSE 0
#define B_LOOSE 0
#define EPILOGUE 0
#define INDEX uint
#endif

#define THREADS (THREADS_M * THREADS_N)
#define ROWS (TILE_M / THREADS_M)
#define COLUMNS (TILE_N / THREADS_N)
#define LINE_A (TILE_M + PAD_A)
#define LINE_B (TILE_N + PAD_B)
#define LOADS_A (TILE_M * TILE_K / (A_WIDTH * THREADS))
#define LOADS_B (TILE_N * TILE_K / (B_WIDTH * THREADS))
#define UNROLLED _Pragma("unroll")
// Sums in registers need indices that are known; processors keep them in memory, and an epilogue
// written out for each of hundreds of elements keeps their compilers busy for minutes.
#if VECTOR > 4
#define STORES_UNROLLED
#else
#define STORES_UNROLLED UNROLLED
#endif
// Vectors of results that are finished together: more where registers are plenty.
#define FINISHED_AT_ONCE (FRAGMENTS == 2 ? COLUMNS / VECTOR : 1)
#define COLUMN_OF(j) (first_column + ((j) * THREADS_N + item_n) * VECTOR)
#define PARTLY_UNROLLED __attribute__((opencl_unroll_hint(UNROLL)))
// Where along k step number `s` is.
#define PLACE_OF(s) (begin + ((s) + shift < steps ? (s) + shift : (s) + shift - steps) * TILE_K)
#define LAST_STEP (TILE_K - 1)
// Staged registers go to local memory one step before the end, so that the last step hides it.
#define STORE_STEP (TILE_K > 1 ? TILE_K - 2 : 0)

#ifdef FP_FAST_FMAF
#define FASTER_MULTIPLY_ADD fma
#else
#define FASTER_MULTIPLY_ADD mad
#endif

// A work-item's operands and sums: vectors along n for processors, whose compilers do not make them
// out of single numbers; single numbers for GPUs, whose compilers keep those in registers and
// order their instructions better.
#define VECTOR_OF(c, width) PASTE(vector_of_, width)(c)
#define vector_of_1(c) c
#define vector_of_2(c) PASTE(c, 2)
#define vector_of_4(c) PASTE(c, 4)
#define vector_of_8(c) PASTE(c, 8)
#define vector_of_16(c) PASTE(c, 16)
#define COLUMN_VECTOR VECTOR_OF(ACC, VECTOR)
#define ROW_VECTOR VECTOR_OF(ACC, ROWS_AT_ONCE)

// One vector of a step, from local memory.
#define ROWS_AT(buffer, step, i) \
    (*(__local const ROW_VECTOR *)(tile_a[buffer] + (step) * LINE_A + (i * THREADS_M + item_m) * ROWS_AT_ONCE))
#define COLUMNS_AT(buffer, step, j) \
    (*(__local const COLUMN_VECTOR *)(tile_b[buffer] + (step) * LINE_B + (j * THREADS_N + item_n) * VECTOR))

#if VECTOR > 4
#define OPERANDS_AND_SUMS \
    ROW_VECTOR rows[FRAGMENTS][ROWS / ROWS_AT_ONCE]; \
    COLUMN_VECTOR columns[FRAGMENTS][COLUMNS / VECTOR]; \
    COLUMN_VECTOR sums[ROWS][COLUMNS / VECTOR]; \
    UNROLLED for (uint i = 0; i < ROWS; ++i) { \
        UNROLLED for (uint j = 0; j < COLUMNS / VECTOR; ++j) { \
            sums[i][j] = (COLUMN_VECTOR)(0); \
        } \
    }
#define COMPONENT(v, l) (((const ACC *)&(v))[l])
#define SUM(i, j, l) COMPONENT(sums[i][j], l)
#define READ_STEP(slot, buffer, step) \
    UNROLLED for (uint i = 0; i < ROWS / ROWS_AT_ONCE; ++i) { \
        rows[slot][i] = ROWS_AT(buffer, step, i); \
    } \
    UNROLLED for (uint j = 0; j < COLUMNS / VECTOR; ++j) { \
        columns[slot][j] = COLUMNS_AT(buffer, step, j); \
    }
#define ROW_OPERAND(slot, i) \
    (COLUMN_VECTOR)(COMPONENT(rows[slot][(i) / ROWS_AT_ONCE], (i) % ROWS_AT_ONCE))
#define MULTIPLY_STEP(slot) \
    UNROLLED for (uint i = 0; i < ROWS; ++i) { \
        UNROLLED for (uint j = 0; j < COLUMNS / VECTOR; ++j) { \
            sums[i][j] = MULTIPLY_ADD(ROW_OPERAND(slot, i), columns[slot][j], sums[i][j]); \
        } \
    }
#else
#define OPERANDS_AND_SUMS \
    ACC rows[FRAGMENTS][ROWS], columns[FRAGMENTS][COLUMNS], sums[ROWS][COLUMNS]; \
    UNROLLED for (uint i = 0; i < ROWS; ++i) { \
        UNROLLED for (uint j = 0; j < COLUMNS; ++j) { \
            sums[i][j] = 0; \
        } \
    }
#define SUM(i, j, l) sums[i][(j) * VECTOR + (l)]
#define SPREAD(width, target, v) PASTE(spread_, width)(target, v)
#define spread_1(target, v) (target)[0] = (v);
#define spread_2(target, v) (target)[0] = (v).s0, (target)[1] = (v).s1;
#define spread_4(target, v) spread_2(target, v) (target)[2] = (v).s2, (target)[3] = (v).s3;
#define READ_STEP(slot, buffer, step) \
    UNROLLED for (uint i = 0; i < ROWS / ROWS_AT_ONCE; ++i) { \
        const ROW_VECTOR some = ROWS_AT(buffer, step, i); \
        SPREAD(ROWS_AT_ONCE, rows[slot] + i * ROWS_AT_ONCE, some) \
    } \
    UNROLLED for (uint j = 0; j < COLUMNS / VECTOR; ++j) { \
        const COLUMN_VECTOR some = COLUMNS_AT(buffer, step, j); \
        SPREAD(VECTOR, columns[slot] + j * VECTOR, some) \
    }
#define MULTIPLY_STEP(slot) \
    UNROLLED for (uint i = 0; i < ROWS; ++i) { \
        UNROLLED for (uint j = 0; j < COLUMNS; ++j) { \
            sums[i][j] = MULTIPLY_ADD(rows[slot][i], columns[slot][j], sums[i][j]); \
        } \
    }
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void matmul_tiled(uint stagger, PRODUCT_OPERANDS EPILOGUE_OPERANDS)
{
    __local ACC tile_a[BUFFERS][TILE_K * LINE_A] __attribute__((aligned(64)));
    __local ACC tile_b[BUFFERS][TILE_K * LINE_B] __attribute__((aligned(64)));
    const uint item = get_local_id(0);
    const uint lane = item % (LANES_M * LANES_N), wave = item / (LANES_M * LANES_N);
    const uint item_n = wave % (THREADS_N / LANES_N) * LANES_N + lane % LANES_N;
    const uint item_m = wave / (THREADS_N / LANES_N) * LANES_M + lane / LANES_N;
    const uint tile = first_tile + get_group_id(0), tiles_n = (n + TILE_N - 1) / TILE_N;
    const uint first_row = tile / tiles_n * TILE_M, first_column = tile % tiles_n * TILE_N;
    const uint last_row = m - 1, last_column = n - 1;
    FIND_BATCH
    const uint begin = split * split_length;
    const uint end = min(k, begin + split_length);
    OPERANDS_AND_SUMS
    const uint steps = begin < end ? (end - begin + TILE_K - 1) / TILE_K : 0;
    // Work-groups begin at different places of k and come round: rows that are a power of two apart
    // would otherwise keep one memory channel busy and the others idle.
    const uint shift = steps ? (tile / tiles_n + tile % tiles_n) * stagger % steps : 0;
#if COPY == COPY_PTX
    UNROLLED for (uint s = 0; s < BUFFERS - 1; ++s) {
        if (s < steps) {
            COPY_BOTH(s, PLACE_OF(s))
        }
        COMMIT
    }
    AWAIT
    barrier(CLK_LOCAL_MEM_FENCE);
    uint buffer = 0, free_buffer = BUFFERS - 1;
    READ_STEP(0, 0, 0)
    for (uint s = 0; s < steps; ++s) {
        // All have read the buffer of the step before: they met at its end.
        if (s + BUFFERS - 1 < steps) {
            COPY_BOTH(free_buffer, PLACE_OF(s + BUFFERS - 1))
        }
        COMMIT
        const uint next = buffer + 1 < BUFFERS ? buffer + 1 : 0;
        UNROLLED for (uint step = 0; step < TILE_K; ++step) {
            if (step == LAST_STEP) {
                AWAIT
                barrier(CLK_LOCAL_MEM_FENCE);
                READ_STEP((step + 1) % FRAGMENTS, next, 0)
            } else {
                READ_STEP((step + 1) % FRAGMENTS, buffer, step + 1)
            }
            MULTIPLY_STEP(step % FRAGMENTS)
        }
        free_buffer = buffer;
        buffer = next;
    }
#elif FRAGMENTS == 2
    ACC staged_a[LOADS_A * A_WIDTH], staged_b[LOADS_B * B_WIDTH];
    MOVE(0, PLACE_OF(0))
    barrier(CLK_LOCAL_MEM_FENCE);
    READ_STEP(0, 0, 0)
    for (uint s = 0; s < steps; ++s) {
        const uint buffer = s % 2;
        if (s + 1 < steps) {
            FETCH(PLACE_OF(s + 1))
        }
        UNROLLED for (uint step = 0; step < TILE_K; ++step) {
            if (step == STORE_STEP && s + 1 < steps) {
                KEEP(1 - buffer)
            }
            if (step == LAST_STEP) {
                barrier(CLK_LOCAL_MEM_FENCE);
                READ_STEP((step + 1) % 2, 1 - buffer, 0)
            } else {
                READ_STEP((step + 1) % 2, buffer, step + 1)
            }
            MULTIPLY_STEP(step % 2)
        }
    }
#else
#if BUFFERS == 2
    ACC staged_a[LOADS_A * A_WIDTH], staged_b[LOADS_B * B_WIDTH];
#endif
#if COPY == COPY_GROUP
    const int whole_lines = first_row + TILE_M <= m && first_column + TILE_N <= n;
#endif
#if BUFFERS == 2
    MOVE(0, PLACE_OF(0))
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    for (uint s = 0; s < steps; ++s) {
        const uint buffer = BUFFERS == 2 ? s % 2 : 0;
#if COPY == COPY_GROUP
        // With two buffers the copy of the next tile runs while this one is multiplied.
#define COPY_STEP(b_, at_k) \
        COPY_GROUP_TILE(a, A_ALONG_K, TILE_M, LINE_A, first_row, a_stride, a_at, tile_a[b_], at_k) \
        COPY_GROUP_TILE(b, B_ALONG_K, TILE_N, LINE_B, first_column, b_stride, b_at, tile_b[b_], at_k)
#endif
#if BUFFERS == 1
        MOVE(0, PLACE_OF(s))
        barrier(CLK_LOCAL_MEM_FENCE);
#else
        const int more = s + 1 < steps;
#if COPY == COPY_GROUP
        event_t copied = 0;
        const int by_group = more && whole_lines && PLACE_OF(s + 1) + TILE_K <= end;
        if (by_group) {
            COPY_STEP(1 - buffer, PLACE_OF(s + 1))
        } else
#endif
        if (more) {
            FETCH(PLACE_OF(s + 1))
        }
#endif
        PARTLY_UNROLLED for (uint step = 0; step < TILE_K; ++step) {
            READ_STEP(0, buffer, step)
            MULTIPLY_STEP(0)
        }
#if BUFFERS == 2
#if COPY == COPY_GROUP
        if (by_group) {
            wait_group_events(1, &copied);
        } else
#endif
        if (more) {
            KEEP(1 - buffer)
        }
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
    STORES_UNROLLED for (uint i = 0; i < ROWS; ++i) {
        const uint row = first_row + (i / ROWS_AT_ONCE * THREADS_M + item_m) * ROWS_AT_ONCE + i % ROWS_AT_ONCE;
#if VECTOR > 4
        for (uint j = 0; j < COLUMNS / VECTOR; ++j) {
            const uint column = COLUMN_OF(j);
            if (out_vectors && row < m && column + VECTOR <= n) {
                // A loop without conditions, which a processor's compiler turns into vectors.
                __global STORAGE(OUT) *line = out + out_at + row * out_rows + column;
                for (uint l = 0; l < VECTOR; ++l) {
                    STORE(OUT)(line, l, FINISH(SUM(i, j, l), row, column + l));
                }
            } else {
                for (uint l = 0; row < m && l < VECTOR && column + l < n; ++l) {
                    const RESULT value = FINISH(SUM(i, j, l), row, column + l);
                    STORE(OUT)(out, out_at + row * out_rows + (column + l) * out_columns, value);
                }
            }
        }
#else
        UNROLLED for (uint first = 0; first < COLUMNS / VECTOR; first += FINISHED_AT_ONCE) {
            // Where registers are plenty, what lies beyond the edge is finished too, as if it were the
            // last: without conditions in between, the chains of a long function overlap. Elsewhere
            // a condition keeps the compiler from doing all of them at once.
            if (FRAGMENTS == 1 && (row >= m || COLUMN_OF(first) >= n)) {
                continue;
            }
            RESULT results[FINISHED_AT_ONCE][VECTOR];
            UNROLLED for (uint j = 0; j < FINISHED_AT_ONCE; ++j) {
                UNROLLED for (uint l = 0; l < VECTOR; ++l) {
                    const uint column = min(COLUMN_OF(first + j) + l, last_column);
                    results[j][l] = FINISH(SUM(i, first + j, l), min(row, last_row), column);
                }
            }
            UNROLLED for (uint j = 0; j < FINISHED_AT_ONCE; ++j) {
                const uint column = COLUMN_OF(first + j);
#if VECTOR == 4
                if (out_vectors) {
                    if (row < m && column < n) {
                        const VECTOR4(RESULT) four =
                            (VECTOR4(RESULT))(results[j][0], results[j][1], results[j][2], results[j][3]);
                        STORE4(OUT)(out, out_at + row * out_rows + column, four);
                    }
                    continue;
                }
#endif
                UNROLLED for (uint l = 0; l < VECTOR; ++l) {
                    if (row < m && column + l < n) {
                        STORE(OUT)(out, out_at + row * out_rows + (column + l) * out_columns, results[j][l]);
                    }
                }
            }
        }
#endif
    }
}
