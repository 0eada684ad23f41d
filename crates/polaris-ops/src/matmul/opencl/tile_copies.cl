// How the tiles of a step come from global to local memory, in the ways that tiled.cl names: through
// registers, by OpenCL's copies of a work-group, or by NVIDIA's cp.async. Parameters are those of
// tiled.cl; the names `a`, `a_at`, `a_stride`, `first_row`, `last_row`, `item`, `end` and so on are
// the kernel's.

#define COPY_REGISTERS 0
#define COPY_GROUP 1
#define COPY_PTX 2

// Vector `v` of a tile: a line (row of A, column of B) and a place along k. Neighbouring
// work-items take neighbours in memory.
#define LINE_OF(v, along_k, lines, width) \
    ((along_k) ? (v) / (TILE_K / (width)) : (v) % ((lines) / (width)) * (width))
#define STEP_OF(v, along_k, lines, width) \
    ((along_k) ? (v) % (TILE_K / (width)) * (width) : (v) / ((lines) / (width)))

// Where a vector lies in its matrix. Lines beyond the last are the last ones again.
#define PLACE(line, step, along_k, width, last, stride) \
    ((along_k) ? min((line), (last)) * (stride) + (step) \
               : (INDEX)(step) * (stride) + min((line), (last) + 1 - (width)))

#if A_WIDTH == 4
#define LOAD_A(target, place) \
    { \
        const VECTOR4(ACC) four = LOAD4(A)(a, place); \
        (target)[0] = four.s0; \
        (target)[1] = four.s1; \
        (target)[2] = four.s2; \
        (target)[3] = four.s3; \
    }
#else
#define LOAD_A(target, place) (target)[0] = LOAD(A)(a, place);
#endif
#if B_WIDTH == 4
#define LOAD_B(target, place) \
    { \
        const VECTOR4(ACC) four = LOAD4(B)(b, place); \
        (target)[0] = four.s0; \
        (target)[1] = four.s1; \
        (target)[2] = four.s2; \
        (target)[3] = four.s3; \
    }
#else
#define LOAD_B(target, place) (target)[0] = LOAD(B)(b, place);
#endif

// Fetches one vector of a step's tile into registers, and puts it into local memory, where lines
// are dense.
#define FETCH_VECTOR(load, width, along_k, lines, first, last, stride, at, staged, v, k0) \
    { \
        const uint step = (k0) + STEP_OF(v, along_k, lines, width); \
        const INDEX line = (first) + LINE_OF(v, along_k, lines, width); \
        if (step < end) { \
            load(staged, (at) + PLACE(line, step, along_k, width, last, stride)) \
        } else { \
            UNROLLED for (uint j = 0; j < width; ++j) { \
                (staged)[j] = 0; \
            } \
        } \
    }
// The same for a vector that is whole, or has elements beyond the last line or step.
#define FETCH_LOOSE(type, p, along_k, lines, first, last, stride, at, staged, v, k0) \
    { \
        const uint step = (k0) + STEP_OF(v, along_k, lines, 4); \
        const INDEX line = (first) + LINE_OF(v, along_k, lines, 4); \
        if ((along_k) ? step + 3 < end : (line + 3 <= (last) && step < end)) { \
            const VECTOR4(ACC) four = LOOSE4(type)(p, (at) + PLACE(line, step, along_k, 1, last, stride)); \
            (staged)[0] = four.s0; \
            (staged)[1] = four.s1; \
            (staged)[2] = four.s2; \
            (staged)[3] = four.s3; \
        } else { \
            for (uint j = 0; j < 4; ++j) { \
                const uint s_ = (along_k) ? step + j : step; \
                const INDEX l_ = (along_k) ? line : line + j; \
                (staged)[j] = s_ < end ? LOAD(type)(p, (at) + PLACE(l_, s_, along_k, 1, last, stride)) : 0; \
            } \
        } \
    }
#define KEEP_VECTOR(width, along_k, lines, line_length, staged, tile, v) \
    { \
        __local ACC *p = (tile) + STEP_OF(v, along_k, lines, width) * line_length + \
                         LINE_OF(v, along_k, lines, width); \
        if (!(along_k) && width == 4) { \
            *(__local VECTOR4(ACC) *)p = (VECTOR4(ACC))( \
                (staged)[0], (staged)[1 % width], (staged)[2 % width], (staged)[3 % width]); \
        } else { \
            UNROLLED for (uint j = 0; j < width; ++j) { \
                p[j * line_length] = (staged)[j]; \
            } \
        } \
    }
#if A_LOOSE
#define FETCH_A_VECTOR(staged, v, k0) \
    FETCH_LOOSE(A, a, A_ALONG_K, TILE_M, first_row, last_row, a_stride, a_at, staged, v, k0)
#else
#define FETCH_A_VECTOR(staged, v, k0) \
    FETCH_VECTOR(LOAD_A, A_WIDTH, A_ALONG_K, TILE_M, first_row, last_row, a_stride, a_at, staged, v, k0)
#endif
#if B_LOOSE
#define FETCH_B_VECTOR(staged, v, k0) \
    FETCH_LOOSE(B, b, B_ALONG_K, TILE_N, first_column, last_column, b_stride, b_at, staged, v, k0)
#else
#define FETCH_B_VECTOR(staged, v, k0) \
    FETCH_VECTOR(LOAD_B, B_WIDTH, B_ALONG_K, TILE_N, first_column, last_column, b_stride, b_at, staged, v, k0)
#endif
#define KEEP_A_VECTOR(staged, buffer, v) \
    KEEP_VECTOR(A_WIDTH, A_ALONG_K, TILE_M, LINE_A, staged, tile_a[buffer], v)
#define KEEP_B_VECTOR(staged, buffer, v) \
    KEEP_VECTOR(B_WIDTH, B_ALONG_K, TILE_N, LINE_B, staged, tile_b[buffer], v)

// Both tiles of a step: first into registers, later to local memory, so that the way from global
// memory is travelled while something else is computed.
#define FETCH(k0) \
    UNROLLED for (uint i = 0; i < LOADS_A; ++i) { \
        FETCH_A_VECTOR(staged_a + i * A_WIDTH, item + i * THREADS, k0) \
    } \
    UNROLLED for (uint i = 0; i < LOADS_B; ++i) { \
        FETCH_B_VECTOR(staged_b + i * B_WIDTH, item + i * THREADS, k0) \
    }
#define KEEP(buffer) \
    UNROLLED for (uint i = 0; i < LOADS_A; ++i) { \
        KEEP_A_VECTOR(staged_a + i * A_WIDTH, buffer, item + i * THREADS) \
    } \
    UNROLLED for (uint i = 0; i < LOADS_B; ++i) { \
        KEEP_B_VECTOR(staged_b + i * B_WIDTH, buffer, item + i * THREADS) \
    }
// Or one vector after the other.
#define MOVE(buffer, k0) \
    for (uint i = 0; i < LOADS_A; ++i) { \
        ACC staged[A_WIDTH]; \
        FETCH_A_VECTOR(staged, item + i * THREADS, k0) \
        KEEP_A_VECTOR(staged, buffer, item + i * THREADS) \
    } \
    for (uint i = 0; i < LOADS_B; ++i) { \
        ACC staged[B_WIDTH]; \
        FETCH_B_VECTOR(staged, item + i * THREADS, k0) \
        KEEP_B_VECTOR(staged, buffer, item + i * THREADS) \
    }

#if COPY == COPY_PTX
// One vector from global to local memory without registers; `bytes` of zero writes zeros.
#define COPY_VECTOR(target, source, width, bytes) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" \
                 :: "r"((uint)(size_t)(target)), "l"(source), "n"(4 * (width)), "r"(bytes) : "memory");
// Vectors along k lie across the lines of local memory and are copied element by element.
#define COPY_TILE(p, loads, width, along_k, lines, line_length, first, last, stride, at, tile, k0) \
    UNROLLED for (uint i = 0; i < loads * ((along_k) ? width : 1); ++i) { \
        const uint v = item + i * THREADS; \
        const uint w = (along_k) ? 1 : width; \
        const uint local_step = STEP_OF(v, along_k, lines, w); \
        const uint local_line = LINE_OF(v, along_k, lines, w); \
        const uint step = (k0) + local_step; \
        const INDEX line = (first) + local_line; \
        const uint bytes = step < end ? 4 * w : 0; \
        const uint inside = step < end ? step : 0; \
        __global const float *source = (p) + (at) + PLACE(line, inside, along_k, w, last, stride); \
        __local ACC *target = (tile) + local_step * line_length + local_line; \
        if (w == 4) { \
            COPY_VECTOR(target, source, 4, bytes) \
        } else { \
            COPY_VECTOR(target, source, 1, bytes) \
        } \
    }
#define COPY_BOTH(buffer, k0) \
    COPY_TILE(a, LOADS_A, A_WIDTH, A_ALONG_K, TILE_M, LINE_A, first_row, last_row, a_stride, a_at, tile_a[buffer], k0) \
    COPY_TILE(b, LOADS_B, B_WIDTH, B_ALONG_K, TILE_N, LINE_B, first_column, last_column, b_stride, b_at, tile_b[buffer], k0)
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory");
#define AWAIT asm volatile("cp.async.wait_group %0;" :: "n"(BUFFERS - 2) : "memory");
#endif

#if COPY == COPY_GROUP
// Line by line by the hardware's copy engine or the driver's loop. Whole tiles only.
#define COPY_GROUP_TILE(p, along_k, lines, line_length, first, stride, at, tile, k0) \
    for (uint step = 0; step < TILE_K; ++step) { \
        __local ACC *target = (tile) + step * line_length; \
        if (along_k) { \
            copied = async_work_group_strided_copy( \
                target, (p) + (at) + (INDEX)(first) * (stride) + (k0) + step, lines, stride, copied); \
        } else { \
            copied = async_work_group_copy( \
                target, (p) + (at) + (INDEX)((k0) + step) * (stride) + (first), lines, copied); \
        } \
    }
#endif
