// What the kernels of products have in common: operands, batches, and what becomes of a sum.
//
// Parameters: A, B, OUT, ACC, INDEX and EPILOGUE, as in tiled.cl. With EPILOGUE, finish.cl says what
// becomes of a sum.
#ifndef EPILOGUE
#define EPILOGUE 0
#endif

// Four elements from anywhere.
#define LOOSE4(t) PASTE(loose4_, t)
#define loose4_f32(p, i) vload4(0, (p) + (i))
#define loose4_f16(p, i) vload_half4(0, (p) + (i))
#define loose4_bf16(p, i) as_float4(convert_uint4(vload4(0, (p) + (i))) << (uint4)(16))
#define loose4_i8(p, i) convert_int4(vload4(0, (p) + (i)))
#define loose4_u8(p, i) convert_int4(vload4(0, (p) + (i)))

// A product of integers stays whole unless factors are applied to it.
#define RESULT PASTE(result_, OUT)
#define result_f32 float
#define result_f16 float
#define result_bf16 float
#define result_i32 int

// Launches are cut into pieces of tiles and batches, so that none takes a display's GPU for long.
// Batches are walked along two axes, an outer and an inner one. Strides: .s0 output, .s1 A, .s2 B,
// .s3 C, .s4 residual. A product is split along k into `splits` parts of `split_length`, each with
// an output of its own, `split_stride` apart.
#define PRODUCT_OPERANDS \
    uint m, uint n, uint k, uint first_tile, uint first_batch, uint splits, uint split_length, ulong split_stride, \
    uint inner_batches, ulong8 outer_strides, ulong8 inner_strides, \
    INDEX a_stride, INDEX b_stride, ulong out_rows, ulong out_columns, uint out_vectors, \
    float alpha, \
    __global const STORAGE(A) *a, ulong a_at, __global const STORAGE(B) *b, ulong b_at, \
    __global STORAGE(OUT) *out, ulong out_at

#define FIND_BATCH \
    const uint split = get_group_id(1) % splits; \
    const uint batch = first_batch + get_group_id(1) / splits; \
    const ulong8 batch_at = outer_strides * (ulong8)(batch / inner_batches) + \
                            inner_strides * (ulong8)(batch % inner_batches); \
    out_at += batch_at.s0 + split * split_stride; \
    a_at += batch_at.s1; \
    b_at += batch_at.s2;

#if !EPILOGUE

#define EPILOGUE_OPERANDS
#define FINISH(sum, row, column) PASTE(finish_, OUT)(sum)
#define finish_f32(sum) (alpha * (float)(sum))
#define finish_f16(sum) (alpha * (float)(sum))
#define finish_bf16(sum) (alpha * (float)(sum))
#define finish_i32(sum) (sum)

#endif
