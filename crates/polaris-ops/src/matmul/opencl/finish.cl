// What follows a product: scales, a bias, an activation, a residual. After product.cl.
// It is a file of its own so that a change here leaves the times that were measured of plain products
// valid: they are kept with the fingerprint of the files that they come from.
//
// Parameters: OUT and EPILOGUE as in product.cl; HAS, the operands there are; ACTIVATION(x), the activation.
// Vectors are `restrict`: they are read once for all rows, not again after each store. C and the
// residual may be the output itself.

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
#define HAS_SCALE 64

// .s0 of `vector_strides` belongs to row scales, .s1 to column scales, .s2 to the bias.
#define EPILOGUE_OPERANDS , float beta, float scale, float low, float high, \
    ulong c_rows, ulong c_columns, ulong residual_rows, ulong residual_columns, ulong8 vector_strides, \
    __global const STORAGE(OUT) *c, ulong c_at, \
    __global const float *restrict row_scales, ulong row_scales_at, \
    __global const float *restrict column_scales, ulong column_scales_at, \
    __global const float *restrict bias, ulong bias_at, \
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
    x = ACTIVATION(x);
    if (HAS & HAS_SCALE) {
        x *= scale;
    }
    if (HAS & HAS_RESIDUAL) {
        x += LOAD(OUT)(residual, residual_at + row * residual_rows + column * residual_columns);
    }
    return x;
}

#endif
