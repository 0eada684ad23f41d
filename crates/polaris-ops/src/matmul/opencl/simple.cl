// Products of matrices the plain way, and what is left to do after one that was split along k.
//
// `matmul_simple`: one work-item an element, operands of any strides. Slow, and little that a
// compiler could get wrong. `matmul_combine`: adds the parts of a split product, in their order.
//
// Parameters: A, B, OUT, ACC, EPILOGUE and ACTIVATION as in product.cl; WORK_GROUP; COMBINE.
#ifndef WORK_GROUP
#define A f32
#define B f32
#define OUT f32
#define ACC float
#define INDEX uint
#define WORK_GROUP 256
#define COMBINE 0
#endif

#if COMBINE

// Part `s` of element (row, column) lies at `s * part_stride + row * n + column` from the start of
// its batch's parts, which are `batch_stride` apart.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void matmul_combine(uint m, uint n, uint first_batch, uint parts, ulong part_stride, ulong batch_stride,
                    uint inner_batches, ulong8 outer_strides, ulong8 inner_strides,
                    ulong out_rows, ulong out_columns, float alpha,
                    __global const ACC *sums, ulong sums_at,
                    __global STORAGE(OUT) *out, ulong out_at EPILOGUE_OPERANDS)
{
    const ulong point = get_global_id(0);
    if (point >= (ulong)m * n) {
        return;
    }
    const uint batch = first_batch + get_group_id(1);
    const ulong8 batch_at = outer_strides * (ulong8)(batch / inner_batches) +
                            inner_strides * (ulong8)(batch % inner_batches);
    const ulong row = point / n, column = point % n;
    const ulong at = sums_at + get_group_id(1) * batch_stride + point;
    ACC sum = sums[at];
    for (uint part = 1; part < parts; ++part) {
        sum += sums[at + part * part_stride];
    }
    const RESULT value = FINISH(sum, row, column);
    STORE(OUT)(out, out_at + batch_at.s0 + row * out_rows + column * out_columns, value);
}

#else

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void matmul_simple(ulong a_columns, ulong b_columns, PRODUCT_OPERANDS EPILOGUE_OPERANDS)
{
    const ulong point = (ulong)first_tile * WORK_GROUP + get_global_id(0);
    if (point >= (ulong)m * n) {
        return;
    }
    FIND_BATCH
    const ulong row = point / n, column = point % n;
    ACC sum = 0;
    for (uint i = 0; i < k; ++i) {
        sum += (ACC)LOAD(A)(a, a_at + row * a_stride + i * a_columns) *
               (ACC)LOAD(B)(b, b_at + i * (ulong)b_stride + column * b_columns);
    }
    const RESULT value = FINISH(sum, row, column);
    STORE(OUT)(out, out_at + row * out_rows + column * out_columns, value);
}

#endif
