// Products of rows of blocks with dense vectors, for kernels that have some of each.
//
// Layouts: LANES work-items side by side share ROWS rows, of which each takes every LANES-th unit (words.cl). Four
// elements of a vector are needed by every row and lie far apart for neighbouring work-items, so the group brings the
// vectors to local memory first, in the order in which they are read: four i of unit u at (i, u), with room for one
// more unit so that writes do not meet in one bank.
//
// Parameters:
//   B                    format of the rows
//   BLOCK_ELEMENTS, BLOCK_BYTES  of a block
//   ROWS                 rows of a work-item
//   COLUMNS              vectors
//   WORK_GROUP           work-items in a group, a multiple of LANES
//   LANES                work-items that share rows, a power of two
//   X_FOUR(c, i)         elements i to i + 3 of vector c

#define ELEMENTS(t) PASTE(elements_, t)
#define START(t) PASTE(start_, t)
#define PLACE(t) PASTE(place_, t)
#define UNIT(t) PASTE(unit_, t)
#define OPEN(t) PASTE(open_, t)
#define FOUR(t) PASTE(four_, t)
#define ENTRY(t) PASTE(entry_, t)

#define SLICES (WORK_GROUP / LANES)
#define LINES (SLICES * ROWS)
#define FOURS (ELEMENTS(B) / 4)
#define STAGED (COLUMNS * FOURS * (LANES + 1))
#define SUMS (WORK_GROUP * ROWS * COLUMNS / 4)

// Local memory of the group.
#define DECLARE_SPACE __local float4 space[STAGED > SUMS ? STAGED : SUMS]; __local float table[16];

// Adds the products of units `begin` to `end` to `sums`; row r of the work-item begins at `lines[r]`.
#define MULTIPLY_UNITS(begin, end) \
    for (uint i = get_local_id(0); i < 16; i += WORK_GROUP) { \
        table[i] = ENTRY(B)(i); \
    } \
    for (uint first = begin; first < (end); first += LANES) { \
        barrier(CLK_LOCAL_MEM_FENCE); \
        FOR_ALL (uint begun = 0; begun < LANES * FOURS; begun += WORK_GROUP) { \
            const uint at = begun + get_local_id(0); \
            const uint other = at / FOURS, i = at % FOURS; \
            if (first + other < (end) && (LANES * FOURS % WORK_GROUP == 0 || other < LANES)) { \
                const uint element = START(B)(first + other) + PLACE(B)(i); \
                FOR_ALL (uint c = 0; c < COLUMNS; ++c) { \
                    space[(c * FOURS + i) * (LANES + 1) + other] = X_FOUR(c, element); \
                } \
            } \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
        if (first + lane < (end)) { \
            UNIT(B) units[ROWS]; \
            FOR_ALL (uint r = 0; r < ROWS; ++r) { \
                units[r] = OPEN(B)(lines[r], first + lane); \
            } \
            FOR_ALL (uint i = 0; i < FOURS; ++i) { \
                float4 weights[ROWS]; \
                FOR_ALL (uint r = 0; r < ROWS; ++r) { \
                    weights[r] = FOUR(B)(units[r], i, table); \
                } \
                FOR_ALL (uint c = 0; c < COLUMNS; ++c) { \
                    const float4 x = space[(c * FOURS + i) * (LANES + 1) + lane]; \
                    FOR_ALL (uint r = 0; r < ROWS; ++r) { \
                        sums[r][c] += x.s0 * weights[r].s0; \
                        sums[r][c] += x.s1 * weights[r].s1; \
                        sums[r][c] += x.s2 * weights[r].s2; \
                        sums[r][c] += x.s3 * weights[r].s3; \
                    } \
                } \
            } \
        } \
    }

// Adds the sums of the work-items that share rows, and calls STORE_SUM(sum, line, column) for each line and column of
// the group.
#define COMBINE_SUMS \
    barrier(CLK_LOCAL_MEM_FENCE); \
    __local float *parts = (__local float *)space; \
    FOR_ALL (uint r = 0; r < ROWS; ++r) { \
        FOR_ALL (uint c = 0; c < COLUMNS; ++c) { \
            parts[lane * (LINES * COLUMNS) + (slice * ROWS + r) * COLUMNS + c] = sums[r][c]; \
        } \
    } \
    barrier(CLK_LOCAL_MEM_FENCE); \
    for (uint at = get_local_id(0); at < LINES * COLUMNS; at += WORK_GROUP) { \
        float sum = parts[at]; \
        for (uint other = 1; other < LANES; ++other) { \
            sum += parts[other * (LINES * COLUMNS) + at]; \
        } \
        STORE_SUM(sum, at / COLUMNS, at % COLUMNS) \
    }
