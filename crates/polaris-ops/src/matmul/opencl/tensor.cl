// Products of matrices by tensor cores: a work-group computes TILE_M by TILE_N elements, its warps
// WARP_M by WARP_N each, out of instructions that multiply 16 by 8 elements over 32 bytes of k.
// For NVIDIA's compiler, which takes inline PTX; elsewhere it does not build.
//
// Parameters:
//   A, B, OUT            element types; A and B both f32 (rounded to tf32), f16 or bf16
//   TILE_M, TILE_N, TILE_K, WARP_M, WARP_N
//   BUFFERS              tiles in local memory, at least two
//                        (TILE_K is an even number of instructions' k, so that registers alternate)
//   A_ALONG_K, B_ALONG_K 1 if neighbours in memory are neighbours in k, 0 if along m or n
//   A_WIDTH, B_WIDTH     elements copied at once: 16 bytes of them, or 1
//   EPILOGUE, ACTIVATION as in product.cl
//
// A line is a row of A or a column of B. Where a matrix lies along k, its tile has a row for each
// line, otherwise a row for each k. Rows consist of chunks of 16 bytes; chunks trade places within
// their row so that eight of them, as one instruction reads them, lie in different banks.
#ifndef TILE_M
#define A f32
#define B f32
#define OUT f32
#define TILE_M 128
#define TILE_N 128
#define TILE_K 16
#define WARP_M 64
#define WARP_N 32
#define BUFFERS 3
#define A_ALONG_K 1
#define B_ALONG_K 0
#define A_WIDTH 4
#define B_WIDTH 4
#define EPILOGUE 0
#define INDEX uint
#endif

#define bytes_f32 4
#define bytes_f16 2
#define bytes_bf16 2
#define BYTES PASTE(bytes_, A)
#define CHUNK (16 / BYTES)
#define UNROLLED _Pragma("unroll")

#define WARPS_N (TILE_N / WARP_N)
#define THREADS (32 * (TILE_M / WARP_M) * WARPS_N)
#define BLOCKS_M (WARP_M / 16)
#define BLOCKS_N (WARP_N / 8)
#define STEPS (TILE_K / (2 * CHUNK))
#define TILE_BYTES_A (TILE_M * TILE_K * BYTES)
#define TILE_BYTES_B (TILE_N * TILE_K * BYTES)

// The place of a chunk in bytes, from the row of the tile and the chunk in the row.
#define PER_ROW_K (TILE_K / CHUNK)
#define TRADE_ALONG_K(row) (PER_ROW_K >= 8 ? (row) % 8 : (row) / (8 / PER_ROW_K) % PER_ROW_K)
// Single elements of tf32 are read from four rows of k at once, chunks of 16 bits from eight.
#define TRADE_ACROSS(row) (BYTES == 4 ? (row) % 4 * 2 : (row) % 8)
#define CHUNK_PLACE(along_k, lines, row, chunk) \
    (((along_k) ? (row) * PER_ROW_K + ((chunk) ^ TRADE_ALONG_K(row)) \
                : (row) * ((lines) / CHUNK) + ((chunk) ^ TRADE_ACROSS(row))) * 16)

#define PLACE(line, step, along_k, width, last, stride) \
    ((along_k) ? min((line), (last)) * (stride) + (step) \
               : (INDEX)(step) * (stride) + min((line), (last) + 1 - (width)))

// Copies a tile without registers. Zeros stand for what is beyond the end of k.
#define COPY_TILE(p, width, along_k, lines, first, last, stride, at, tile, k0) \
    UNROLLED for (uint i = 0; i < (lines) * TILE_K / ((width) * THREADS); ++i) { \
        const uint v = (item + i * THREADS) * (width); \
        const uint row_length = (along_k) ? TILE_K : (lines); \
        const uint row = v / row_length, in_row = v % row_length; \
        const uint step = (k0) + ((along_k) ? in_row : row); \
        const INDEX line = (first) + ((along_k) ? row : in_row); \
        const uint inside = step < end ? step : 0; \
        const uint target = (tile) + CHUNK_PLACE(along_k, lines, row, in_row / CHUNK) + in_row % CHUNK * BYTES; \
        const INDEX place = PLACE(line, inside, along_k, width, last, stride); \
        if ((width) > 1) { \
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" \
                         :: "r"(target), "l"((p) + (at) + place), "r"(step < end ? 16 : 0) : "memory"); \
        } else if (BYTES == 4) { \
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" \
                         :: "r"(target), "l"((p) + (at) + place), "r"(step < end ? 4 : 0) : "memory"); \
        } else { \
            const ushort bits = step < end ? ((__global const ushort *)(p))[(at) + place] : 0; \
            asm volatile("st.shared.u16 [%0], %1;" :: "r"(target), "h"(bits) : "memory"); \
        } \
    }
#define COPY_BOTH(buffer, k0) \
    COPY_TILE(a, A_WIDTH, A_ALONG_K, TILE_M, first_row, last_row, a_stride, a_at, tile_a + (buffer) * TILE_BYTES_A, k0) \
    COPY_TILE(b, B_WIDTH, B_ALONG_K, TILE_N, first_column, last_column, b_stride, b_at, tile_b + (buffer) * TILE_BYTES_B, k0)
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory");
#define AWAIT asm volatile("cp.async.wait_group %0;" :: "n"(BUFFERS - 2) : "memory");

#define READ_MATRICES(kind, r0, r1, r2, r3, address) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0,%1,%2,%3}, [%4];" \
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(address) : "memory");

// tf32 keeps eleven bits: rounded, since cutting off would shift all results towards zero.
#define ROUND(r) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(as_float(r)));
#define ROUND_TF32(r) if (BYTES == 4) { ROUND(r) }

// 16 lines by 32 bytes of k: r0 and r1 are lines 0-7 and 8-15 of the first half of k, r2 and r3 of
// the second.
#define READ_16(along_k, lines, tile, first_line, step, r0, r1, r2, r3) \
    if (along_k) { \
        const uint row = (first_line) + lane % 16; \
        READ_MATRICES("", r0, r1, r2, r3, (tile) + CHUNK_PLACE(1, lines, row, 2 * (step) + lane / 16)) \
    } else if (BYTES == 2) { \
        const uint row = 16 * (step) + lane % 8 + lane / 16 * 8; \
        READ_MATRICES(".trans", r0, r1, r2, r3, \
                      (tile) + CHUNK_PLACE(0, lines, row, ((first_line) + lane / 8 % 2 * 8) / CHUNK)) \
    } else { \
        READ_WORD(lines, tile, (first_line) + lane / 4, 8 * (step) + lane % 4, r0) \
        READ_WORD(lines, tile, (first_line) + 8 + lane / 4, 8 * (step) + lane % 4, r1) \
        READ_WORD(lines, tile, (first_line) + lane / 4, 8 * (step) + 4 + lane % 4, r2) \
        READ_WORD(lines, tile, (first_line) + 8 + lane / 4, 8 * (step) + 4 + lane % 4, r3) \
    }
#define READ_WORD(lines, tile, line, k_, r) \
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) \
                 : "r"((tile) + CHUNK_PLACE(0, lines, k_, (line) / 4) + (line) % 4 * 4) : "memory");

#define SHAPE_f32 "m16n8k8"
#define SHAPE_f16 "m16n8k16"
#define SHAPE_bf16 "m16n8k16"
#define KIND_f32 "tf32.tf32"
#define KIND_f16 "f16.f16"
#define KIND_bf16 "bf16.bf16"
#define MULTIPLY(d, x, y0, y1) \
    asm("mma.sync.aligned." PASTE(SHAPE_, A) ".row.col.f32." PASTE(KIND_, A) ".f32 " \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));

#define READ_STEP(slot, buffer, step) \
    UNROLLED for (uint i = 0; i < BLOCKS_M; ++i) { \
        READ_16(A_ALONG_K, TILE_M, tile_a + (buffer) * TILE_BYTES_A, warp_row + 16 * i, step, \
                x[slot][i][0], x[slot][i][1], x[slot][i][2], x[slot][i][3]) \
    } \
    UNROLLED for (uint j = 0; j < BLOCKS_N; j += 2) { \
        READ_16(B_ALONG_K, TILE_N, tile_b + (buffer) * TILE_BYTES_B, warp_column + 8 * j, step, \
                y[slot][j][0], y[slot][j + 1][0], y[slot][j][1], y[slot][j + 1][1]) \
    }
#define MULTIPLY_STEP(slot) \
    UNROLLED for (uint i = 0; i < BLOCKS_M; ++i) { \
        UNROLLED for (uint l = 0; l < 4; ++l) { \
            ROUND_TF32(x[slot][i][l]) \
        } \
    } \
    UNROLLED for (uint j = 0; j < BLOCKS_N; ++j) { \
        ROUND_TF32(y[slot][j][0]) \
        ROUND_TF32(y[slot][j][1]) \
        UNROLLED for (uint i = 0; i < BLOCKS_M; ++i) { \
            MULTIPLY(sums[i][j], x[slot][i], y[slot][j][0], y[slot][j][1]) \
        } \
    }

// Work-groups that run at the same time share rows and columns: they take turns in stripes of
// tile rows, so that what they read stays in the cache.
#define STRIPE 8

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void matmul_tensor(PRODUCT_OPERANDS EPILOGUE_OPERANDS)
{
    __local uint4 memory[BUFFERS * (TILE_BYTES_A + TILE_BYTES_B) / 16];
    const uint tile_a = (uint)(size_t)memory, tile_b = tile_a + BUFFERS * TILE_BYTES_A;
    const uint item = get_local_id(0), lane = item % 32, warp = item / 32;
    const uint warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    const uint tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
    const uint tile = first_tile + get_group_id(0);
    const uint stripe = tile / (STRIPE * tiles_n), in_stripe = tile % (STRIPE * tiles_n);
    const uint height = min((uint)STRIPE, tiles_m - stripe * STRIPE);
    const uint first_row = (stripe * STRIPE + in_stripe % height) * TILE_M;
    const uint first_column = in_stripe / height * TILE_N;
    const uint last_row = m - 1, last_column = n - 1;
    FIND_BATCH
    const uint begin = split * split_length;
    const uint end = min(k, begin + split_length);
    const uint steps = begin < end ? (end - begin + TILE_K - 1) / TILE_K : 0;
    float sums[BLOCKS_M][BLOCKS_N][4];
    UNROLLED for (uint i = 0; i < BLOCKS_M; ++i) {
        UNROLLED for (uint j = 0; j < BLOCKS_N; ++j) {
            UNROLLED for (uint l = 0; l < 4; ++l) {
                sums[i][j][l] = 0;
            }
        }
    }
    uint x[2][BLOCKS_M][4], y[2][BLOCKS_N][2];
    UNROLLED for (uint s = 0; s < BUFFERS - 1; ++s) {
        if (s < steps) {
            COPY_BOTH(s, begin + s * TILE_K)
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
            COPY_BOTH(free_buffer, begin + (s + BUFFERS - 1) * TILE_K)
        }
        COMMIT
        const uint next = buffer + 1 < BUFFERS ? buffer + 1 : 0;
        UNROLLED for (uint step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                AWAIT
                barrier(CLK_LOCAL_MEM_FENCE);
                READ_STEP((step + 1) % 2, next, 0)
            } else {
                READ_STEP((step + 1) % 2, buffer, step + 1)
            }
            MULTIPLY_STEP(step % 2)
        }
        free_buffer = buffer;
        buffer = next;
    }
    UNROLLED for (uint i = 0; i < BLOCKS_M; ++i) {
        UNROLLED for (uint j = 0; j < BLOCKS_N; ++j) {
            UNROLLED for (uint l = 0; l < 4; ++l) {
                const uint row = first_row + warp_row + 16 * i + lane / 4 + l / 2 * 8;
                const uint column = first_column + warp_column + 8 * j + lane % 4 * 2 + l % 2;
                if (row < m && column < n) {
                    const RESULT value = FINISH(sums[i][j][l], row, column);
                    STORE(OUT)(out, out_at + row * out_rows + column * out_columns, value);
                }
            }
        }
    }
}
