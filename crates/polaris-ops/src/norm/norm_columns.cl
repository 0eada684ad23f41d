// The gradient of the weight of a normalisation: the sum over all rows of the output's gradient times
// the normalised row.
//
// Layouts: a work-item for each column of each segment of rows; x and g may lie anywhere. Where there
// is more than one segment, each writes a partial sum (FIRST_STAGE), and a second launch with a
// work-item for each column adds them up in their order (SECOND_STAGE).
//
// Parameters: those of norm.cl, which stands in front of it with TASK 3. `statistics` holds what its
// TASK 2 has written: centre, rest and factor of each row.

// Where a row begins. The outermost axis needs no division, and most arrays have no other.
#define OUTER(k) \
    if (rank > k) { \
        const INDEX length = lengths.s##k; \
        at += index % length * strides.s##k; \
        index /= length; \
    }
INDEX row_start(INDEX index, uint rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) strides)
{
    INDEX at = 0;
    OUTER(6) OUTER(5) OUTER(4) OUTER(3) OUTER(2) OUTER(1)
    return rank > 0 ? at + index * strides.s0 : at;
}
#define START(strides) row_start((INDEX)row, rank, lengths, strides)

#define FIRST_STAGE 1
#define SECOND_STAGE 2

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void norm_columns(
    uint stage, ulong rows, ulong row_length, ulong segments, ulong segment_rows, uint rank,
    VECTOR8(INDEX) lengths, VECTOR8(INDEX) x_strides, VECTOR8(INDEX) g_strides,
    INDEX out_step, INDEX x_step, INDEX g_step,
    __global STORAGE(OUT) *out, ulong out_at, __global const STORAGE(IN) *x, ulong x_at,
    __global const STORAGE(IN) *g, ulong g_at,
    __global const ACC *statistics, ulong statistics_at, __global ACC *partial, ulong partial_at)
{
    const ulong id = get_global_id(0);
    // Neighbouring items take neighbouring columns of one segment.
    const ulong column = id % row_length, segment = id / row_length;
    if (segment >= segments) {
        return;
    }
    const ulong end = min(rows, (segment + 1) * segment_rows);
    ACC sum = 0;
    if (stage == SECOND_STAGE) {
        // The rows are those of the partial sums.
        for (ulong row = 0; row < rows; ++row) {
            sum += partial[partial_at + row * row_length + column];
        }
    } else {
        const ulong x_first = x_at + (INDEX)column * x_step, g_first = g_at + (INDEX)column * g_step;
        for (ulong row = segment * segment_rows; row < end; ++row) {
            const ACC centre = statistics[statistics_at + 3 * row];
            const ACC rest = statistics[statistics_at + 3 * row + 1];
            const ACC factor = statistics[statistics_at + 3 * row + 2];
            const ACC v = LOAD(IN)(x, x_first + START(x_strides));
            sum += LOAD(IN)(g, g_first + START(g_strides)) * NORMALISED(v);
        }
    }
    if (stage == FIRST_STAGE) {
        partial[partial_at + segment * row_length + column] = sum;
    } else {
        STORE(OUT)(out, out_at + (INDEX)column * out_step, sum);
    }
}
