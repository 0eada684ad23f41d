// What the kernels of products have in common: operands, batches, and what becomes of a sum.
//
// Parameters: A, B, OUT, ACC, INDEX, EPILOGUE and ACTIVATION, as in tiled.cl; HAS, with EPILOGUE,
// says what there is to add and multiply.
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

#if EPILOGUE

#ifndef HAS
#define HAS 0
#endif
#define HAS_C 1
#define HAS_ROW_SCALES 2
#define HAS_COLUMN_SCALES 4
#define HAS_ROW_BIAS 8
#define HAS_COLUMN_BIAS 16
#define HAS_RESIDUAL 32

// .s0 of `vector_strides` belongs to row scales, .s1 to column scales, .s2 to the bias.
#define EPILOGUE_OPERANDS , float beta, float scale, float low, float high, \
    ulong c_rows, ulong c_columns, ulong residual_rows, ulong residual_columns, ulong8 vector_strides, \
    __global const STORAGE(OUT) *c, ulong c_at, \
    __global const float *row_scales, ulong row_scales_at, \
    __global const float *column_scales, ulong column_scales_at, \
    __global const float *bias, ulong bias_at, \
    __global const STORAGE(OUT) *residual, ulong residual_at

#define FINISH(sum, row, column) \
    finish((float)(sum), row, column, alpha, beta, scale, low, high, c_rows, c_columns, \
           residual_rows, residual_columns, vector_strides, c, c_at + batch_at.s3, row_scales, \
           row_scales_at, column_scales, column_scales_at, bias, bias_at, residual, \
           residual_at + batch_at.s4)

float finish(float x, ulong row, ulong column, float alpha EPILOGUE_OPERANDS)
{
    x *= alpha;
    if (HAS & HAS_ROW_SCALES) {
        x *= row_scales[row_scales_at + row * vector_strides.s0];
    }
    if (HAS & HAS_COLUMN_SCALES) {
        x *= column_scales[column_scales_at + column * vector_strides.s1];
    }
    if (HAS & HAS_C) {
        x += beta * LOAD(OUT)(c, c_at + row * c_rows + column * c_columns);
    }
    if (HAS & (HAS_ROW_BIAS | HAS_COLUMN_BIAS)) {
        x += bias[bias_at + ((HAS & HAS_ROW_BIAS) ? row : column) * vector_strides.s2];
    }
    x = scale * (ACTIVATION(x));
    if (HAS & HAS_RESIDUAL) {
        x += LOAD(OUT)(residual, residual_at + row * residual_rows + column * residual_columns);
    }
    return x;
}

#else

#define EPILOGUE_OPERANDS
#define FINISH(sum, row, column) PASTE(finish_, OUT)(sum)
#define finish_f32(sum) (alpha * (float)(sum))
#define finish_f16(sum) (alpha * (float)(sum))
#define finish_bf16(sum) (alpha * (float)(sum))
#define finish_i32(sum) (sum)

#endif
