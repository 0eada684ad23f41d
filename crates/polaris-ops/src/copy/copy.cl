// Copies between layouts and element types.
//
// Layouts: `copy_vector` moves dense arrays four elements at a time; `copy_strided` any layout of
// up to eight axes; `copy_tiled` transposes through local memory where input and output are dense
// along different axes.
//
// Parameters:
//   FROM, TO       element types
//   CAST(v)        turns a loaded value into the one that is stored
//   CF, CT         compute types of the loaded and the stored value: float, double, int or long
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group (vector and strided)
//   VARIANT        0 for copy_vector, 1 for copy_strided, 2 for copy_tiled, 3 for the first two
//   TILE           side of a tile, and work-items in a row of its group (tiled)
//   TILE_ROWS      rows of work-items in a tile's group; divides TILE (tiled)
//
// Ranks are arguments and not parameters: branches on them cost next to nothing, while each
// program costs a build.
#ifndef FROM
#define FROM f32
#define TO f32
#define CAST(v) (v)
#define CF float
#define CT float
#define INDEX uint
#define VARIANT 0
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif
#ifndef TILE
#define TILE 32
#define TILE_ROWS 8
#endif

// Cut off, with the last bit set to 1 if anything was lost: rounding this further is rounding
// once. NaN and infinities stay.
float float_rounded_to_odd(CF value)
{
    const float cut_off = convert_float_rtz(value);
    return (CF)cut_off == value ? cut_off : as_float(as_uint(cut_off) | 1u);
}

// One digit of an index: where it leads in output and input.
#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ii += index * in_strides.s##k;

#define OPERANDS \
    __global STORAGE(TO) *out, ulong out_at, __global const STORAGE(FROM) *in, ulong in_at

#if VARIANT == 0 || VARIANT == 3

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void copy_vector(ulong n, OPERANDS)
{
    const ulong i = (ulong)get_global_id(0) * 4;
    if (i + 4 <= n) {
        const VECTOR4(CF) x = LOAD4(FROM)(in, in_at + i);
        VECTOR4(CT) r;
        r.s0 = CAST(x.s0);
        r.s1 = CAST(x.s1);
        r.s2 = CAST(x.s2);
        r.s3 = CAST(x.s3);
        STORE4(TO)(out, out_at + i, r);
    } else {
        for (ulong j = i; j < n; ++j) {
            const CT r = CAST(LOAD(FROM)(in, in_at + j));
            STORE(TO)(out, out_at + j, r);
        }
    }
}

#endif
#if VARIANT == 1 || VARIANT == 3

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void copy_strided(ulong n, uint rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides,
                  VECTOR8(INDEX) in_strides, OPERANDS)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX io = 0, ii = 0;
    WALK_AXES(8)
    const CT r = CAST(LOAD(FROM)(in, in_at + ii));
    STORE(TO)(out, out_at + io, r);
}

#endif
#if VARIANT == 2

// The tile lies across axis y, along which the input is dense, and axis x, along which the output
// is. Group (i, j, k) moves tile (i, j) of the k-th combination of the outer axes, and of every
// further one by the number of groups.
__kernel __attribute__((reqd_work_group_size(TILE, TILE_ROWS, 1)))
void copy_tiled(ulong outer, uint rank, INDEX width, INDEX height, INDEX out_x, INDEX out_y, INDEX in_x,
                INDEX in_y, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides,
                VECTOR8(INDEX) in_strides, OPERANDS)
{
    // One more column than needed: a column's elements then lie in different banks.
    __local STORAGE(TO) tile[TILE][TILE + 1];
    const INDEX lx = get_local_id(0), ly = get_local_id(1);
    const INDEX x0 = get_group_id(0) * TILE, y0 = get_group_id(1) * TILE;
    for (ulong k = get_group_id(2); k < outer; k += get_num_groups(2)) {
        INDEX rest = (INDEX)k;
        INDEX io = 0, ii = 0;
        WALK_AXES(8)
        for (INDEX r = ly; r < TILE; r += TILE_ROWS) {
            const INDEX x = x0 + r, y = y0 + lx;
            if (x < width && y < height) {
                tile[r][lx] = in[in_at + ii + x * in_x + y * in_y];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (INDEX r = ly; r < TILE; r += TILE_ROWS) {
            const INDEX x = x0 + lx, y = y0 + r;
            if (x < width && y < height) {
                out[out_at + io + x * out_x + y * out_y] = tile[lx][r];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
