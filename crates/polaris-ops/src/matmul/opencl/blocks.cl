// Products of a few vectors with a matrix in blocks that lie along k: format/multiply.cl with batches, split-K and an
// epilogue. A group has LINES lines of the matrix and COLUMNS vectors, which are rows of A; where there are more
// vectors, the groups with the same lines follow one another.
//
// Parameters: A, B, OUT, ACC, EPILOGUE, ACTIVATION, INDEX as in product.cl; BLOCK_ELEMENTS and BLOCK_BYTES of
// a block of B; the others as in format/multiply.cl.

#define X_FOUR(c, i) LOAD4(A)(a, a_at + vector_at[c] + (i))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void matmul_blocks(PRODUCT_OPERANDS EPILOGUE_OPERANDS)
{
    DECLARE_SPACE
    const uint lane = get_local_id(0) % LANES, slice = get_local_id(0) / LANES;
    FIND_BATCH
    const uint chunks = (m + COLUMNS - 1) / COLUMNS;
    const uint tile = first_tile + get_group_id(0);
    const uint first_vector = tile % chunks * COLUMNS, first_line = tile / chunks * LINES;
    INDEX vector_at[COLUMNS];
    FOR_ALL (uint c = 0; c < COLUMNS; ++c) {
        vector_at[c] = min(first_vector + c, m - 1) * a_stride;
    }
    __global const uchar *lines[ROWS];
    float sums[ROWS][COLUMNS];
    FOR_ALL (uint r = 0; r < ROWS; ++r) {
        const ulong line_at = b_at + min(first_line + slice * ROWS + r, n - 1) * (ulong)b_stride;
        lines[r] = b + line_at / BLOCK_ELEMENTS * BLOCK_BYTES;
        FOR_ALL (uint c = 0; c < COLUMNS; ++c) {
            sums[r][c] = 0.0f;
        }
    }
    const uint begin = split * split_length;
    const uint end = min(k, begin + split_length);
    MULTIPLY_UNITS(B, begin / ELEMENTS(B), end / ELEMENTS(B))
    COMBINE_SUMS
    EACH_SUM {
        const ulong row = first_vector + at % COLUMNS, column = first_line + at / COLUMNS;
        if (row < m && column < n) {
            const RESULT value = FINISH(parts[at], row, column);
            STORE(OUT)(out, out_at + row * out_rows + column * out_columns, value);
        }
    }
}
