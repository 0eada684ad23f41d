// Maxima and averages of windows along the last two axes, and their gradients. A plane is what those
// two axes span; pooling along one axis has planes of one row.
//
// Layouts: a work-item for each element of the output, neighbours side by side along a row; arrays
// may lie anywhere. Gradients are gathered: each item adds up what the windows over its element bring,
// in the order of the windows.
//
// Parameters:
//   TASK           what is written: 0 the largest element of each window, 1 its index in its plane,
//                  2 the average of each window; 3 the gradient of the maximum, from the indices that
//                  task 1 has written; 4 the same, searching each window again; 5 that of the average
//   T              element type: f32, f16, bf16 or f64
//   OUT            type of the output: T, or i64 or i32 for indices
//   C              compute type: float or double
//   POSITION       type of indices in memory (TASK 3): i32, or i64 with wide indices
//   INDEX          uint, or ulong where an index may exceed 29 bits
//   WORK_GROUP     work-items in a group
//
// Vectors of the arguments:
//   lengths        two axes of planes, rows and columns of the whole, rows and columns of windows
//   window         kernel, stride, padding and dilation, of rows and columns each; a kernel of 0 means
//                  windows of about equal length that share the axis
//   ..._strides    of the two axes of planes, of rows and of columns: `pooled` has an element for each
//                  window, `whole` one for each element that windows cover, `source` is the input of
//                  the maximum of which `whole` is the gradient
#ifndef TASK
#define TASK 0
#define T f32
#define OUT f32
#define C float
#define POSITION i32
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define PLANE_ROWS lengths.s2
#define PLANE_COLUMNS lengths.s3
#define WINDOW_ROWS lengths.s4
#define WINDOW_COLUMNS lengths.s5

// What a window covers along an axis: its first element inside, how many there are, and how many with
// those in the padding.
typedef struct {
    INDEX first, taps, padded;
} Span;

Span span_of(INDEX window, INDEX length, INDEX windows,
             INDEX kernel_, INDEX stride, INDEX padding, INDEX dilation)
{
    Span span;
    if (kernel_ == 0) {
        span.first = window * length / windows;
        span.taps = ((window + 1) * length + windows - 1) / windows - span.first;
        span.padded = span.taps;
        return span;
    }
    const INDEX start = window * stride;
    const INDEX skipped = start >= padding ? 0 : min(kernel_, (padding - start + dilation - 1) / dilation);
    const INDEX first = start + skipped * dilation, end = length + padding;
    // Beyond the end there is nothing; the position in front of the padding is never used.
    const INDEX inside = first < end && first >= padding ? (end - first + dilation - 1) / dilation : 0;
    span.first = first - padding;
    span.taps = min(inside, kernel_ - skipped);
    span.padded = min(kernel_, end + padding - start);
    return span;
}

#define ROW_SPAN(index) \
    span_of(index, PLANE_ROWS, WINDOW_ROWS, window.s0, window.s2, window.s4, window.s6)
#define COLUMN_SPAN(index) \
    span_of(index, PLANE_COLUMNS, WINDOW_COLUMNS, window.s1, window.s3, window.s5, window.s7)

// The windows over an element of an axis: from `first` to before `end`.
typedef struct {
    INDEX first, end;
} Over;

Over over_of(INDEX at, INDEX length, INDEX windows,
             INDEX kernel_, INDEX stride, INDEX padding, INDEX dilation)
{
    Over over;
    if (kernel_ == 0) {
        over.first = at * windows / length;
        over.end = ((at + 1) * windows + length - 1) / length;
        return over;
    }
    const INDEX padded = at + padding, reach = (kernel_ - 1) * dilation;
    over.first = padded > reach ? (padded - reach + stride - 1) / stride : 0;
    over.end = min(windows, padded / stride + 1);
    return over;
}

#define ROW_OVER(index) \
    over_of(index, PLANE_ROWS, WINDOW_ROWS, window.s0, window.s2, window.s4, window.s6)
#define COLUMN_OVER(index) \
    over_of(index, PLANE_COLUMNS, WINDOW_COLUMNS, window.s1, window.s3, window.s5, window.s7)

// Finds the first of the largest elements of the window that covers `down` and `across`, in the plane
// at `plane` of p: sets `largest` and `found`. A NaN is larger than anything.
#define FIND_LARGEST(p, plane, strides) \
    for (INDEX r = 0; r < down.taps; ++r) { \
        const INDEX y = down.first + r * window.s6; \
        for (INDEX c = 0; c < across.taps; ++c) { \
            const INDEX x = across.first + c * window.s7; \
            const C value = LOAD(T)(p, (plane) + y * strides.s2 + x * strides.s3); \
            if (none || value > largest || (isnan(value) && !isnan(largest))) { \
                largest = value; \
                found = y * PLANE_COLUMNS + x; \
                none = 0; \
            } \
        } \
    }

#define PLANE(strides) (plane_first * strides.s0 + plane_second * strides.s1)

// `missing` is written as the index where a window covers nothing. `positions` holds an index for each
// window, densely.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void pool(
    ulong count, uint count_padding, int missing, VECTOR8(INDEX) lengths, VECTOR8(INDEX) window,
    VECTOR8(INDEX) pooled_strides, VECTOR8(INDEX) whole_strides, VECTOR8(INDEX) source_strides,
    __global STORAGE(OUT) *out, ulong out_at, __global const STORAGE(T) *source, ulong source_at,
    __global const STORAGE(T) *g, ulong g_at, __global const STORAGE(POSITION) *positions, ulong positions_at)
{
    if (get_global_id(0) >= count) {
        return;
    }
    INDEX rest = (INDEX)get_global_id(0);
#if TASK <= 2
    const INDEX rows = WINDOW_ROWS, columns = WINDOW_COLUMNS;
#else
    const INDEX rows = PLANE_ROWS, columns = PLANE_COLUMNS;
#endif
    const INDEX column = rest % columns;
    rest /= columns;
    const INDEX row = rest % rows;
    const INDEX plane = rest / rows;
    const INDEX plane_first = plane / lengths.s1, plane_second = plane % lengths.s1;
#if TASK <= 2
    const Span down = ROW_SPAN(row), across = COLUMN_SPAN(column);
    const ulong from = source_at + PLANE(source_strides);
    const ulong to =
        out_at + PLANE(pooled_strides) + row * pooled_strides.s2 + column * pooled_strides.s3;
#if TASK == 2
    C sum = 0;
    for (INDEX r = 0; r < down.taps; ++r) {
        const ulong line = from + (down.first + r) * source_strides.s2;
        // A sum of its own for each row: the error of one long sum would grow with its length.
        C part = 0;
        for (INDEX c = 0; c < across.taps; ++c) {
            part += LOAD(T)(source, line + (across.first + c) * source_strides.s3);
        }
        sum += part;
    }
    const INDEX divisor = count_padding ? down.padded * across.padded : down.taps * across.taps;
    STORE(OUT)(out, to, sum / (C)divisor);
#else
    C largest = -INFINITY;
    INDEX found = 0;
    uint none = 1;
    FIND_LARGEST(source, from, source_strides)
#if TASK == 0
    STORE(OUT)(out, to, largest);
#else
    STORE(OUT)(out, to, none ? (long)missing : (long)found);
#endif
#endif
#else
    const Over rows_over = ROW_OVER(row), columns_over = COLUMN_OVER(column);
    const ulong from = g_at + PLANE(pooled_strides);
    C sum = 0;
    for (INDEX i = rows_over.first; i < rows_over.end; ++i) {
#if TASK != 3
        const Span down = ROW_SPAN(i);
#endif
        C part = 0;
        for (INDEX j = columns_over.first; j < columns_over.end; ++j) {
            const C share = LOAD(T)(g, from + i * pooled_strides.s2 + j * pooled_strides.s3);
#if TASK == 3
            const ulong position = positions_at + ((ulong)plane * WINDOW_ROWS + i) * WINDOW_COLUMNS + j;
            if (positions[position] == (STORAGE(POSITION))(row * columns + column)) {
                part += share;
            }
#else
            const Span across = COLUMN_SPAN(j);
#if TASK == 4
            C largest = -INFINITY;
            INDEX found = 0;
            uint none = 1;
            FIND_LARGEST(source, source_at + PLANE(source_strides), source_strides)
            if (!none && found == row * columns + column) {
                part += share;
            }
#else
            const INDEX divisor = count_padding ? down.padded * across.padded : down.taps * across.taps;
            part += share / (C)divisor;
#endif
#endif
        }
        sum += part;
    }
    STORE(OUT)(out, out_at + PLANE(whole_strides) + row * whole_strides.s2 + column * whole_strides.s3, sum);
#endif
}
