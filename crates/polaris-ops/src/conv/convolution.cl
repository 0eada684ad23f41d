// Convolutions and the gradients of their inputs: channels of a result, each the sum over channels of
// a source and taps of the weight. Position i along an axis sees, under tap j, the source's element
// `i * step + first + j * advance`, and zero where there is none.
//
// `convolution_tiled`: a product of matrices, weights times what positions see, in tiles of TILE by
// TILE, for which a work-group puts TILE_K steps of the sum into local memory at a time. With CUT, for few
// tiles, the sum is cut into parts of `part_length` steps, each with a result of its own.
// `convolution_combine`: adds up the parts, in their order, a work-item an element.
// `convolution_direct`: a work-item an element, a group a square of positions of one channel.
// `convolution_simple`: a work-item an element. Slow, and little that a compiler could get wrong.
//
// Operands:
//   sizes   .s0 channels of the result in a group, .s1 positions of all images, .s2 numbers in a sum,
//           .s3 and .s4 positions along rows and columns, .s5 channels of the source in a group,
//           .s6 and .s7 taps along rows and columns
//   extent  .s0 and .s1 lengths of the source, .s2 and .s3 steps, along rows and columns
//   reach   `first` along rows and columns, then `advance`
//   strides of the source's .s0 images, .s1 channels, .s2 rows, .s3 columns; .s4 to .s7 of the result's
//   weight  strides of .s0 groups, .s1 channels of the result, .s2 channels of the source, .s3 row
//           taps, .s4 column taps; .s5 the stride of the bias, .s6 whether there is one, .s7 groups
//
// With FUSED, what follows the sum: `more`, .s0 to .s3 the strides of the residual's images, channels, rows
// and columns; limits of the activation; the residual, which is read if HAS_RESIDUAL.
//
// Parameters: T, the type of elements; C, what they are computed in; INDEX; WORK_GROUP, TILE * TILE
// items of ITEM by ITEM sums; TILE_K; CUT; FUSED, HAS_RESIDUAL, ACTIVATION(a).
#ifndef WORK_GROUP
#define T f32
#define C float
#define INDEX uint
#define WORK_GROUP 256
#define TILE 64
#define TILE_K 16
#define ITEM 4
#define CUT 0
#define FUSED 0
#endif

#define INDEX8 VECTOR8(INDEX)
#define OPERANDS \
    uint8 sizes, uint4 extent, int4 reach, INDEX8 strides, INDEX8 weight, uint parts, uint part_length, \
    __global STORAGE(T) *out, ulong out_at, __global const STORAGE(T) *src, ulong src_at, \
    __global const STORAGE(T) *taps, ulong taps_at, __global const STORAGE(T) *bias, ulong bias_at, \
    __global C *partial, ulong partial_at FUSED_OPERANDS

#if FUSED
#define FUSED_OPERANDS , INDEX8 more, C low, C high, __global const STORAGE(T) *residual, ulong residual_at
// What becomes of a sum at a position of a channel.
#define FINISH(sum, image, channel, row, column) \
    finish(sum, image, channel, row, column, more, low, high, residual, residual_at)

C finish(C a, uint image, uint channel, uint row, uint column, INDEX8 more, C low, C high,
         __global const STORAGE(T) *residual, ulong residual_at)
{
#if HAS_RESIDUAL
    a += LOAD(T)(residual, residual_at + image * more.s0 + channel * more.s1 + row * more.s2 + column * more.s3);
#endif
    return ACTIVATION(a);
}
#else
#define FUSED_OPERANDS
#define FINISH(sum, image, channel, row, column) (sum)
#endif

// An element of the source, or of the zeros around it.
C seen_at(__global const STORAGE(T) *src, ulong at, int row, int column, uint4 extent, INDEX8 strides)
{
    const int inside = row >= 0 && column >= 0 && row < (int)extent.s0 && column < (int)extent.s1;
    return inside ? LOAD(T)(src, at + row * strides.s2 + column * strides.s3) : (C)0;
}

C first_sum(__global const STORAGE(T) *bias, ulong bias_at, uint channel, INDEX8 weight)
{
    return weight.s6 ? LOAD(T)(bias, bias_at + channel * weight.s5) : (C)0;
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void convolution_tiled(OPERANDS)
{
    // Padded, so that columns of it can be written by items of one wavefront.
    __local C weights[TILE_K][TILE + 4];
    __local C seen[TILE_K][TILE];
    const uint item = get_local_id(0);
    const uint row_tiles = (sizes.s0 + TILE - 1) / TILE, column_tiles = (sizes.s1 + TILE - 1) / TILE;
    const uint tile = get_group_id(0);
    const uint first_position = tile % column_tiles * TILE;
    const uint first_row = tile / column_tiles % row_tiles * TILE;
#if CUT
    const uint part = tile / column_tiles / row_tiles % parts;
    const uint group = tile / column_tiles / row_tiles / parts;
    const uint first_step = part * part_length, end = min(sizes.s2, first_step + part_length);
#else
    const uint group = tile / column_tiles / row_tiles;
    const uint first_step = 0, end = sizes.s2;
#endif

    // Each item looks with the eyes of one position, in every few steps.
    const uint eye = item % TILE, eye_step = item / TILE;
    const uint position = first_position + eye;
    const Step place = step_at(position, sizes.s3, sizes.s4);
    const int top = (int)(place.row * extent.s2) + reach.s0;
    const int left = (int)(place.column * extent.s3) + reach.s1;
    const ulong image_at = src_at + place.outer * strides.s0 + group * sizes.s5 * strides.s1;
    const Step eye_by = step_at(WORK_GROUP / TILE, sizes.s6, sizes.s7);
    Step eye_at = step_at(first_step + eye_step, sizes.s6, sizes.s7);
    // And brings the weights of one step, for every few rows.
    const uint hand = item / TILE_K, hand_step = item % TILE_K;
    const ulong group_at = taps_at + group * weight.s0;
    const Step hand_by = step_at(TILE_K, sizes.s6, sizes.s7);
    Step hand_at = step_at(first_step + hand_step, sizes.s6, sizes.s7);

    const uint item_row = item / (TILE / ITEM) * ITEM, item_column = item % (TILE / ITEM) * ITEM;
    C sums[ITEM][ITEM];
    #pragma unroll
    for (uint i = 0; i < ITEM; ++i) {
        const uint row = first_row + item_row + i;
        const int begins = !CUT && row < sizes.s0;
        const C first = begins ? first_sum(bias, bias_at, group * sizes.s0 + row, weight) : (C)0;
        #pragma unroll
        for (uint j = 0; j < ITEM; ++j) {
            sums[i][j] = first;
        }
    }
    for (uint step = first_step; step < end; step += TILE_K) {
        #pragma unroll
        for (uint i = 0; i < TILE_K; i += WORK_GROUP / TILE) {
            const int is_there = position < sizes.s1 && step + eye_step + i < end;
            const int row = top + (int)eye_at.row * reach.s2, column = left + (int)eye_at.column * reach.s3;
            const ulong at = image_at + eye_at.outer * strides.s1;
            seen[eye_step + i][eye] = is_there ? seen_at(src, at, row, column, extent, strides) : (C)0;
            eye_at = advance(eye_at, eye_by, sizes.s6, sizes.s7);
        }
        const ulong at = group_at + hand_at.outer * weight.s2 + hand_at.row * weight.s3 +
                         hand_at.column * weight.s4;
        #pragma unroll
        for (uint i = 0; i < TILE; i += WORK_GROUP / TILE_K) {
            const uint row = first_row + hand + i;
            const int is_there = row < sizes.s0 && step + hand_step < end;
            weights[hand_step][hand + i] = is_there ? LOAD(T)(taps, at + row * weight.s1) : (C)0;
        }
        hand_at = advance(hand_at, hand_by, sizes.s6, sizes.s7);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (uint k = 0; k < TILE_K; ++k) {
            C rows[ITEM], columns[ITEM];
            #pragma unroll
            for (uint i = 0; i < ITEM; ++i) {
                rows[i] = weights[k][item_row + i];
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
    #pragma unroll
    for (uint j = 0; j < ITEM; ++j) {
        const uint position = first_position + item_column + j;
        const Step place = step_at(position, sizes.s3, sizes.s4);
        const ulong at = out_at + place.outer * strides.s4 + place.row * strides.s6 + place.column * strides.s7;
        #pragma unroll
        for (uint i = 0; i < ITEM; ++i) {
            const uint row = first_row + item_row + i;
            if (row < sizes.s0 && position < sizes.s1) {
                const uint channel = group * sizes.s0 + row;
#if CUT
                const ulong plane = (ulong)part * weight.s7 * sizes.s0 + channel;
                partial[partial_at + plane * sizes.s1 + position] = sums[i][j];
#else
                const C result = FINISH(sums[i][j], place.outer, channel, place.row, place.column);
                STORE(T)(out, at + channel * strides.s5, result);
#endif
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void convolution_combine(OPERANDS)
{
    const INDEX element = get_global_id(0), elements = (INDEX)weight.s7 * sizes.s0 * sizes.s1;
    if (element < elements) {
        const uint channel = element / sizes.s1;
        const Step place = step_at(element % sizes.s1, sizes.s3, sizes.s4);
        C sum = first_sum(bias, bias_at, channel, weight);
        for (uint part = 0; part < parts; ++part) {
            sum += partial[partial_at + (ulong)part * elements + element];
        }
        const ulong at = out_at + place.outer * strides.s4 + channel * strides.s5 + place.row * strides.s6 +
                         place.column * strides.s7;
        STORE(T)(out, at, FINISH(sum, place.outer, channel, place.row, place.column));
    }
}

// The sum for one channel of the result and one position of an image.
C sum_at(uint channel, uint image, uint row, uint column, uint8 sizes, uint4 extent,
         int4 reach, INDEX8 strides, INDEX8 weight, __global const STORAGE(T) *src, ulong src_at,
         __global const STORAGE(T) *taps, ulong taps_at, __global const STORAGE(T) *bias, ulong bias_at)
{
    const uint group = channel / sizes.s0;
    const int top = (int)(row * extent.s2) + reach.s0, left = (int)(column * extent.s3) + reach.s1;
    ulong at = src_at + image * strides.s0 + group * sizes.s5 * strides.s1;
    ulong tap_at = taps_at + group * weight.s0 + channel % sizes.s0 * weight.s1;
    C sum = first_sum(bias, bias_at, channel, weight);
    for (uint i = 0; i < sizes.s5; ++i) {
        for (int j = 0; j < (int)sizes.s6; ++j) {
            for (int k = 0; k < (int)sizes.s7; ++k) {
                const C tap = LOAD(T)(taps, tap_at + j * weight.s3 + k * weight.s4);
                sum += tap * seen_at(src, at, top + j * reach.s2, left + k * reach.s3, extent, strides);
            }
        }
        at += strides.s1;
        tap_at += weight.s2;
    }
    return sum;
}

#define SQUARE 16

__kernel __attribute__((reqd_work_group_size(SQUARE * SQUARE, 1, 1)))
void convolution_direct(OPERANDS)
{
    const uint across = (sizes.s4 + SQUARE - 1) / SQUARE, down = (sizes.s3 + SQUARE - 1) / SQUARE;
    const Step square = step_at(get_group_id(0), down, across);
    const uint channels = sizes.s0 * weight.s7;
    const uint channel = square.outer % channels, image = square.outer / channels;
    const uint row = square.row * SQUARE + get_local_id(0) / SQUARE;
    const uint column = square.column * SQUARE + get_local_id(0) % SQUARE;
    if (row < sizes.s3 && column < sizes.s4) {
        const C sum = sum_at(channel, image, row, column, sizes, extent, reach, strides, weight, src, src_at,
                             taps, taps_at, bias, bias_at);
        const ulong at = out_at + image * strides.s4 + channel * strides.s5;
        STORE(T)(out, at + row * strides.s6 + column * strides.s7, FINISH(sum, image, channel, row, column));
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void convolution_simple(OPERANDS)
{
    const INDEX id = get_global_id(0);
    const uint column = id % sizes.s4, row = id / sizes.s4 % sizes.s3;
    const INDEX plane = id / sizes.s4 / sizes.s3, channels = sizes.s0 * weight.s7;
    const uint channel = plane % channels, image = plane / channels;
    if (image < sizes.s1 / (sizes.s3 * sizes.s4)) {
        const C sum = sum_at(channel, image, row, column, sizes, extent, reach, strides, weight, src,
                             src_at, taps, taps_at, bias, bias_at);
        const ulong at = out_at + image * strides.s4 + channel * strides.s5;
        STORE(T)(out, at + row * strides.s6 + column * strides.s7, FINISH(sum, image, channel, row, column));
    }
}
