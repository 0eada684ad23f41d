// Products of rows with the lines of experts' weights in blocks: format/multiply.cl for one pair of a token and an
// expert. A group takes LINES lines.
//
// Parameters: those of format/multiply.cl; BLOCK_ELEMENTS and BLOCK_BYTES of a block of B; T, which is B. Arguments as in
// expert_operands.cl.

#define X_FOUR(c, i) LOAD4(f32)(x, row_at + (i))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void expert_matmul_blocks(OPERANDS)
{
    DECLARE_SPACE
    const uint lane = get_local_id(0) % LANES, slice = get_local_id(0) / LANES;
    const uint pair = get_group_id(0) / PARTS, first_line = get_group_id(0) % PARTS * LINES;
    FIND_PAIR(pair)
    __global const uchar *lines[ROWS];
    float sums[ROWS][COLUMNS];
    FOR_ALL (uint r = 0; r < ROWS; ++r) {
        const ulong line_at = LINE_AT(min(first_line + slice * ROWS + r, N - 1));
        lines[r] = weight + line_at / BLOCK_ELEMENTS * BLOCK_BYTES;
        sums[r][0] = 0.0f;
    }
    MULTIPLY_UNITS(B, 0, LENGTH / ELEMENTS(B))
    COMBINE_SUMS
    EACH_SUM {
        const uint line = first_line + at;
        if (line < N) {
            STORE_RESULT(line, parts[at])
        }
    }
}
