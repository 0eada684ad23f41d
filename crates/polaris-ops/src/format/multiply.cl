// Products of rows of blocks with dense vectors, for kernels that have some of each.
//
// Layouts: LANES work-items side by side share ROWS rows, of which each takes every LANES-th unit (words.cl). Four
// elements of a vector are needed by every row and lie far apart for neighbouring work-items, so the group brings the
// vectors to local memory first, in the order in which they are read: four i of unit u at (i, u), with room for one
// more unit so that writes do not meet in one bank. REPEATS units of each work-item are brought at once: with more,
// the group waits for its slowest less often.
//
// Parameters:
//   B                    format of the rows, the one with the largest units if there are several
//   ROWS                 rows of a work-item
//   COLUMNS              vectors
//   WORK_GROUP           work-items in a group, a multiple of LANES
//   LANES                work-items that share rows, a power of two
//   REPEATS              units of a work-item between two barriers
//   X_FOUR(c, i)         elements i to i + 3 of vector c
//   PREPARE(c, i, four)  what becomes of them before they are multiplied; nothing if it is not defined

#ifndef PREPARE
#define PREPARE(c, i, four)
#endif

#define ELEMENTS(t) PASTE(elements_, t)
#define START(t) PASTE(start_, t)
#define PLACE(t) PASTE(place_, t)
#define UNIT(t) PASTE(unit_, t)
#define OPEN(t) PASTE(open_, t)
#define FOUR(t) PASTE(four_, t)
#define ENTRY(t) PASTE(entry_, t)

#define SLICES (WORK_GROUP / LANES)
#define LINES (SLICES * ROWS)
#define FOURS(t) (ELEMENTS(t) / 4)
#define UNITS (LANES * REPEATS)
#define STAGED (COLUMNS * FOURS(B) * (UNITS + 1))
#define SUMS (WORK_GROUP * ROWS * COLUMNS / 4)

// Local memory of the group.
#define DECLARE_SPACE __local float4 space[STAGED > SUMS ? STAGED : SUMS]; __local float table[16];

// Adds the products of units `begin` to `end` to `sums`; row r of the work-item is of format t and begins at `lines[r]`.
#define MULTIPLY_UNITS(t, begin, end) \
    for (uint i = get_local_id(0); i < 16; i += WORK_GROUP) { \
        table[i] = ENTRY(t)(i); \
    } \
    for (uint first = begin; first < (end); first += UNITS) { \
        barrier(CLK_LOCAL_MEM_FENCE); \
        FOR_ALL (uint begun = 0; begun < UNITS * FOURS(t); begun += WORK_GROUP) { \
            const uint at = begun + get_local_id(0); \
            const uint other = at / FOURS(t), i = at % FOURS(t); \
            if (first + other < (end) && (UNITS * FOURS(t) % WORK_GROUP == 0 || other < UNITS)) { \
                const uint element = START(t)(first + other) + PLACE(t)(i); \
                FOR_ALL (uint c = 0; c < COLUMNS; ++c) { \
                    float4 four = X_FOUR(c, element); \
                    PREPARE(c, element, four) \
                    space[(c * FOURS(t) + i) * (UNITS + 1) + other] = four; \
                } \
            } \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
        _Pragma("unroll 1") \
        for (uint own = 0; own < UNITS; own += LANES) { \
            if (first + own + lane < (end)) { \
                UNIT(t) units[ROWS]; \
                FOR_ALL (uint r = 0; r < ROWS; ++r) { \
                    units[r] = OPEN(t)(lines[r], first + own + lane); \
                } \
                FOR_ALL (uint i = 0; i < FOURS(t); ++i) { \
                    float4 weights[ROWS]; \
                    FOR_ALL (uint r = 0; r < ROWS; ++r) { \
                        weights[r] = FOUR(t)(units[r], i, table); \
                    } \
                    FOR_ALL (uint c = 0; c < COLUMNS; ++c) { \
                        const float4 x = space[(c * FOURS(t) + i) * (UNITS + 1) + own + lane]; \
                        FOR_ALL (uint r = 0; r < ROWS; ++r) { \
                            sums[r][c] += x.s0 * weights[r].s0; \
                            sums[r][c] += x.s1 * weights[r].s1; \
                            sums[r][c] += x.s2 * weights[r].s2; \
                            sums[r][c] += x.s3 * weights[r].s3; \
                        } \
                    } \
                } \
            } \
        } \
    }

// Adds the sums of the work-items that share rows, always in the same order: that of line l and vector c is then at
// parts[l * COLUMNS + c].
#define COMBINE_SUMS \
    barrier(CLK_LOCAL_MEM_FENCE); \
    __local float *parts = (__local float *)space; \
    FOR_ALL (uint r = 0; r < ROWS; ++r) { \
        FOR_ALL (uint c = 0; c < COLUMNS; ++c) { \
            parts[lane * (LINES * COLUMNS) + (slice * ROWS + r) * COLUMNS + c] = sums[r][c]; \
        } \
    } \
    barrier(CLK_LOCAL_MEM_FENCE); \
    ADD_HALVES(parts, LANES, LINES * COLUMNS)

// Adds `count` rows of `width` numbers in local memory, `count` a power of two; the sums are in the first row.
#define ADD_HALVES(rows, count, width) \
    for (uint left = (count) / 2; left > 0; left /= 2) { \
        for (uint i = get_local_id(0); i < left * (width); i += WORK_GROUP) { \
            (rows)[i] += (rows)[i + left * (width)]; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }

// For each of the group's sums, number `at`.
#define EACH_SUM for (uint at = get_local_id(0); at < LINES * COLUMNS; at += WORK_GROUP)
