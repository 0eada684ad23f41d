// Running sums along one axis. The order in which elements are added depends on the lanes' length
// alone.
//
// Layouts: `scan_serial` gives each lane a work-item. `scan_group` gives each segment of each lane a
// work-group, which goes through it tile by tile; where lanes have several segments it runs twice, for
// the segments' sums and for the results, with `scan_segments` between.
//
// Parameters:
//   T              element type: f32, f16, bf16 or f64
//   C              compute type: float or double
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group, a power of two
//
// The axes of the lanes' first elements are the first `rank` ones of `lengths` and the strides; .s7 is
// the axis of the lanes themselves. `reverse` says that sums run from the end.
#ifndef T
#define T f32
#define C float
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ii += index * in_strides.s##k;
#define FIND_LANE(lane) \
    INDEX io = 0, ii = 0; \
    { \
        INDEX rest = (INDEX)(lane); \
        WALK_AXES(7) \
    } \
    const ulong out_lane = out_at + io, in_lane = in_at + ii; \
    const INDEX length = lengths.s7;

#define OPERANDS \
    ulong lanes, uint rank, uint reverse, VECTOR8(INDEX) lengths, VECTOR8(INDEX) out_strides, \
    VECTOR8(INDEX) in_strides, __global STORAGE(T) *out, ulong out_at, \
    __global const STORAGE(T) *in, ulong in_at

#define STEP(r) (reverse ? length - 1 - (r) : (r))
#define READ(r) ((C)LOAD(T)(in, in_lane + STEP(r) * in_strides.s7))
#define WRITE(r, value) STORE(T)(out, out_lane + STEP(r) * out_strides.s7, value)

// Elements that are added up before they are added to the sum: of many numbers added one by one, the
// last ones would lose their lower digits.
#define STRETCH 64

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void scan_serial(OPERANDS)
{
    const ulong lane = get_global_id(0);
    if (lane >= lanes) {
        return;
    }
    FIND_LANE(lane)
    C before = 0;
    for (INDEX first = 0; first < length; first += STRETCH) {
        const INDEX count = min(length - first, (INDEX)STRETCH);
        C part = 0;
        for (INDEX i = 0; i < count; ++i) {
            const INDEX r = first + i;
            part += READ(r);
            const C sum = before + part;
            WRITE(r, sum);
        }
        before += part;
    }
}

// Elements of an item in a tile, which are neighbours.
#define EACH 4
#define TILE (WORK_GROUP * EACH)

// `sums` has an element for each segment. The first run (`results` is 0) writes the segment's sum
// there; the second one reads what comes before the segment, if lanes have several.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void scan_group(OPERANDS, ulong segments, ulong segment_length, uint results, __global C *sums,
                ulong sums_at)
{
    __local C tile[TILE];
    __local C items[WORK_GROUP];
    const uint item = get_local_id(0);
    const ulong group = get_group_id(0);
    FIND_LANE(group / segments)
    const INDEX first = (INDEX)(group % segments * segment_length);
    const INDEX end = (INDEX)min((ulong)length, first + segment_length);
    C before = results && segments > 1 ? sums[sums_at + group] : (C)0;
    for (INDEX start = first; start < end; start += TILE) {
        const uint count = (uint)min(end - start, (INDEX)TILE);
        // Read and written side by side, added up by neighbours.
        for (uint i = item; i < TILE; i += WORK_GROUP) {
            tile[i] = i < count ? READ(start + i) : (C)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        C own = 0;
        for (uint i = 0; i < EACH; ++i) {
            own += tile[item * EACH + i];
        }
        items[item] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint distance = 1; distance < WORK_GROUP; distance *= 2) {
            const C other = item >= distance ? items[item - distance] : (C)0;
            barrier(CLK_LOCAL_MEM_FENCE);
            items[item] += other;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        C sum = item > 0 ? items[item - 1] : (C)0;
        for (uint i = 0; i < EACH; ++i) {
            sum += tile[item * EACH + i];
            tile[item * EACH + i] = before + sum;
        }
        before += items[WORK_GROUP - 1];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (results) {
            for (uint i = item; i < count; i += WORK_GROUP) {
                WRITE(start + i, tile[i]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (!results && item == 0) {
        sums[sums_at + group] = before;
    }
}

// The sums of a lane's segments become those of all segments before them. One item for each lane.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void scan_segments(ulong lanes, ulong segments, __global C *sums, ulong sums_at)
{
    const ulong lane = get_global_id(0);
    if (lane >= lanes) {
        return;
    }
    C before = 0;
    for (ulong i = 0; i < segments; ++i) {
        const ulong at = sums_at + lane * segments + i;
        const C sum = sums[at];
        sums[at] = before;
        before += sum;
    }
}
