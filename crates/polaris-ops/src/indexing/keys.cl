// Indices of any layout as dense keys, and the first one that lies outside the axis.
//
// Layouts: one work-item for each index. Keys are written in the order in which the index is walked;
// `places` are the strides of its positions in row-major order, in which the first wrong one is asked
// for.
//
// Parameters:
//   T              element type of the index: i32 or i64
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group
//
// `wrong` holds the lowest wrong position in each stretch of 2^31 positions, and all ones where there
// is none. The least of some numbers does not depend on the order in which they come, so an atomic
// minimum gives the same result run after run. A wrong index becomes the key 0.
#ifndef T
#define T i64
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define AT_AXIS(k) \
    ii += index * strides.s##k; \
    ip += index * places.s##k;

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void index_keys(ulong n, ulong length, uint rank, VECTOR8(INDEX) lengths, VECTOR8(INDEX) strides,
                VECTOR8(INDEX) places, __global uint *keys, ulong keys_at,
                volatile __global uint *wrong, ulong wrong_at,
                __global const STORAGE(T) *indices, ulong indices_at)
{
    const ulong point = get_global_id(0);
    if (point >= n) {
        return;
    }
    INDEX rest = (INDEX)point;
    INDEX ii = 0, ip = 0;
    WALK_AXES(8)
    const long value = LOAD(T)(indices, indices_at + ii);
    const bool outside = value < 0 || (ulong)value >= length;
    keys[keys_at + point] = outside ? 0u : (uint)value;
    if (outside) {
        const ulong place = ip;
        atomic_min(wrong + wrong_at + (place >> 31), (uint)(place & 0x7ffffffful));
    }
}
