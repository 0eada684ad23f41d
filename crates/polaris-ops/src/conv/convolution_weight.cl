// Gradients of the weights of convolutions: for each output, input and tap, the sum over the positions
// of all images of gradient times what the position sees of x under the tap.
//
// `weight_tiled`: a product of matrices, gradients times what positions see, in tiles of TILE by TILE,
// for which a work-group puts TILE_K positions into local memory at a time. The sum is cut into parts
// of `part_length` positions, each with a result of its own. `weight_combine`: adds up the parts, in
// their order. `weight_direct`: a work-group an element. `weight_simple`: a work-item an element.
// Slow, and little that a compiler could get wrong.
//
// Operands:
//   sizes   .s0 outputs in a group, .s1 inputs in a group times taps, .s2 positions of all images,
//           .s3 and .s4 positions along rows and columns, .s5 groups, .s6 and .s7 taps along rows and
//           columns
//   extent  .s0 and .s1 lengths of x, .s2 and .s3 steps, along rows and columns
//   reach   what is added to `position * step` along rows and columns, then from tap to tap
//   strides of .s0 images, .s1 channels, .s2 rows, .s3 columns of x; .s4 to .s7 of the gradient
//   weight  strides of .s0 outputs, .s1 inputs, .s2 row taps, .s3 column taps
//
// Parameters: as in convolution.cl.
#ifndef WORK_GROUP
#define T f32
#define C float
#define INDEX uint
#define WORK_GROUP 256
#define TILE 64
#define TILE_K 16
#define ITEM 4
#endif

#define INDEX8 VECTOR8(INDEX)
#define OPERANDS \
    uint8 sizes, uint4 extent, int4 reach, INDEX8 strides, INDEX8 weight, uint parts, uint part_length, \
    __global STORAGE(T) *out, ulong out_at, __global const STORAGE(T) *image, ulong image_at, \
    __global const STORAGE(T) *gradient, ulong gradient_at, __global C *partial, ulong partial_at

// What a position sees of a channel of x, which begins at `at`, under a tap.
C seen_at(__global const STORAGE(T) *image, ulong at, Step position, int row, int column, uint4 extent,
          INDEX8 strides)
{
    row += (int)(position.row * extent.s2);
    column += (int)(position.column * extent.s3);
    const int inside = row >= 0 && column >= 0 && row < (int)extent.s0 && column < (int)extent.s1;
    return inside ? LOAD(T)(image, at + position.outer * strides.s0 + row * strides.s2 + column * strides.s3) : (C)0;
}

#define LOADS (TILE * TILE_K / WORK_GROUP)

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void weight_tiled(OPERANDS)
{
    // Padded, so that columns of it can be written by items of one wavefront.
    __local C gradients[TILE_K][TILE + 4];
    __local C seen[TILE_K][TILE + 4];
    const uint item = get_local_id(0);
    const uint row_tiles = (sizes.s0 + TILE - 1) / TILE, column_tiles = (sizes.s1 + TILE - 1) / TILE;
    const uint tile = get_group_id(0);
    const uint first_column = tile % column_tiles * TILE;
    const uint first_row = tile / column_tiles % row_tiles * TILE;
    const uint part = tile / column_tiles / row_tiles % parts;
    const uint group = tile / column_tiles / row_tiles / parts;
    const uint inputs = sizes.s1 / (sizes.s6 * sizes.s7);

    // Each item brings one position in a step, for every few rows and columns.
    const uint hand = item / TILE_K, step = item % TILE_K;
    const uint end = min(sizes.s2, (part + 1) * part_length);
    uint position = part * part_length + step;
    Step place = step_at(position, sizes.s3, sizes.s4);
    const Step by = step_at(TILE_K, sizes.s3, sizes.s4);
    ulong channel_at[LOADS];
    int top[LOADS], left[LOADS];
    #pragma unroll
    for (uint i = 0; i < LOADS; ++i) {
        const Step tap = step_at(first_column + hand + i * (WORK_GROUP / TILE_K), sizes.s6, sizes.s7);
        channel_at[i] = image_at + (group * inputs + tap.outer) * strides.s1;
        top[i] = reach.s0 + (int)tap.row * reach.s2;
        left[i] = reach.s1 + (int)tap.column * reach.s3;
    }
    const uint item_row = item / (TILE / ITEM) * ITEM, item_column = item % (TILE / ITEM) * ITEM;
    C sums[ITEM][ITEM];
    #pragma unroll
    for (uint i = 0; i < ITEM; ++i) {
        #pragma unroll
        for (uint j = 0; j < ITEM; ++j) {
            sums[i][j] = 0;
        }
    }
    for (uint first = part * part_length; first < end; first += TILE_K) {
        const int is_position = position < end;
        const ulong at = gradient_at + place.outer * strides.s4 + place.row * strides.s6 + place.column * strides.s7 +
                         group * sizes.s0 * strides.s5;
        #pragma unroll
        for (uint i = 0; i < LOADS; ++i) {
            const uint line = hand + i * (WORK_GROUP / TILE_K);
            const uint row = first_row + line, column = first_column + line;
            gradients[step][line] =
                is_position && row < sizes.s0 ? LOAD(T)(gradient, at + row * strides.s5) : (C)0;
            seen[step][line] = is_position && column < sizes.s1
                                   ? seen_at(image, channel_at[i], place, top[i], left[i], extent, strides)
                                   : (C)0;
        }
        position += TILE_K;
        place = advance(place, by, sizes.s3, sizes.s4);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (uint k = 0; k < TILE_K; ++k) {
            C rows[ITEM], columns[ITEM];
            #pragma unroll
            for (uint i = 0; i < ITEM; ++i) {
                rows[i] = gradients[k][item_row + i];
                columns[i] = seen[k][item_column + i];
            }
            #pragma unroll
            for (uint i = 0; i < ITEM; ++i) {
                #pragma unroll
                for (uint j = 0; j < ITEM; ++j) {
                    sums[i][j] += rows[i] * columns[j];
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const ulong at = partial_at + (ulong)(part * sizes.s5 + group) * sizes.s0 * sizes.s1;
    #pragma unroll
    for (uint i = 0; i < ITEM; ++i) {
        #pragma unroll
        for (uint j = 0; j < ITEM; ++j) {
            const uint row = first_row + item_row + i, column = first_column + item_column + j;
            if (row < sizes.s0 && column < sizes.s1) {
                partial[at + row * sizes.s1 + column] = sums[i][j];
            }
        }
    }
}

// Where an element of the weight is stored.
ulong weight_place(uint output, uint column, uint8 sizes, INDEX8 weight)
{
    const Step tap = step_at(column, sizes.s6, sizes.s7);
    return output * weight.s0 + tap.outer * weight.s1 + tap.row * weight.s2 + tap.column * weight.s3;
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void weight_combine(OPERANDS)
{
    const INDEX element = get_global_id(0), elements = (INDEX)sizes.s5 * sizes.s0 * sizes.s1;
    if (element < elements) {
        C sum = partial[partial_at + element];
        for (uint part = 1; part < parts; ++part) {
            sum += partial[partial_at + (ulong)part * elements + element];
        }
        const ulong at = weight_place(element / sizes.s1, element % sizes.s1, sizes, weight);
        STORE(T)(out, out_at + at, sum);
    }
}

// The sum over every `stride`-th position from `first` on.
C sum_over(uint output, uint column, uint first, uint stride, uint8 sizes, uint4 extent,
           int4 reach, INDEX8 strides, __global const STORAGE(T) *image, ulong image_at,
           __global const STORAGE(T) *gradient, ulong gradient_at)
{
    const Step tap = step_at(column, sizes.s6, sizes.s7);
    const uint inputs = sizes.s1 / (sizes.s6 * sizes.s7);
    const int top = reach.s0 + (int)tap.row * reach.s2, left = reach.s1 + (int)tap.column * reach.s3;
    image_at += (output / sizes.s0 * inputs + tap.outer) * strides.s1;
    gradient_at += output * strides.s5;
    const Step by = step_at(stride, sizes.s3, sizes.s4);
    Step place = step_at(first, sizes.s3, sizes.s4);
    C sum = 0;
    for (uint position = first; position < sizes.s2; position += stride) {
        const ulong at = gradient_at + place.outer * strides.s4 + place.row * strides.s6 + place.column * strides.s7;
        sum += LOAD(T)(gradient, at) * seen_at(image, image_at, place, top, left, extent, strides);
        place = advance(place, by, sizes.s3, sizes.s4);
    }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void weight_direct(OPERANDS)
{
    __local C sums[WORK_GROUP];
    const uint item = get_local_id(0);
    const uint output = get_group_id(0) / sizes.s1, column = get_group_id(0) % sizes.s1;
    sums[item] = sum_over(output, column, item, WORK_GROUP, sizes, extent, reach, strides, image,
                          image_at, gradient, gradient_at);
    for (uint half_size = WORK_GROUP / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < half_size) {
            sums[item] += sums[item + half_size];
        }
    }
    if (item == 0) {
        STORE(T)(out, out_at + weight_place(output, column, sizes, weight), sums[0]);
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void weight_simple(OPERANDS)
{
    const INDEX element = get_global_id(0);
    const uint output = element / sizes.s1, column = element % sizes.s1;
    if (output < sizes.s5 * sizes.s0) {
        const C sum = sum_over(output, column, 0, 1, sizes, extent, reach, strides, image, image_at,
                               gradient, gradient_at);
        STORE(T)(out, out_at + weight_place(output, column, sizes, weight), sum);
    }
}
