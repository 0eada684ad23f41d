// Sorting of lanes along an axis, by keys: unsigned integers in the order of the elements.
//
// Layouts: `sort_local` gives each lane a work-group, which sorts it in local memory by a network of
// comparisons. For longer lanes `sort_keys` writes the keys of all lanes, densely, which are then sorted
// elsewhere, and `sort_store` writes the indices where they belong.
//
// Parameters:
//   T              element type
//   C              compute type: float, double, int or long
//   KEY            uint, or ulong for types of eight bytes
//   IS_FLOAT       1 for floating-point types
//   INDEX          uint, or ulong where an index may exceed 32 bits
//   WORK_GROUP     work-items in a group
//   MOST           the longest lane that sort_local takes, a power of two
//
// The axes of the lanes' first elements are the first `rank` ones of `lengths` and the strides; .s7 is
// the axis of the lanes themselves. Of the order, the first `kept` indices are written. `descending` is
// 1 if the largest comes first.
#ifndef T
#define T f32
#define C float
#define KEY uint
#define IS_FLOAT 1
#define INDEX uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif
#ifndef MOST
#define MOST 2048
#endif

#define HIGHEST ((KEY)1 << (sizeof(KEY) * 8 - 1))

KEY key_of(C value, uint descending)
{
#if IS_FLOAT
    // One of the two zeros becomes the other. NaN is the largest.
    const KEY bits = PASTE(as_, KEY)(value == 0 ? (C)0 : value);
    const KEY ordered = bits & HIGHEST ? ~bits : bits | HIGHEST;
    const KEY key = isnan(value) ? ~(KEY)0 : ordered;
#else
    const KEY key = (KEY)value ^ HIGHEST;
#endif
    return descending ? ~key : key;
}

#define AT_AXIS(k) \
    io += index * out_strides.s##k; \
    ii += index * in_strides.s##k;
#define FIND_LANE(lane) \
    INDEX io = 0, ii = 0; \
    { \
        INDEX rest = (INDEX)(lane); \
        WALK_AXES(7) \
    }

#define PLACES \
    ulong lanes, uint rank, uint descending, uint kept, VECTOR8(INDEX) lengths, \
    VECTOR8(INDEX) out_strides, VECTOR8(INDEX) in_strides

#define READ_KEY(r) key_of(LOAD(T)(in, in_at + ii + (r) * in_strides.s7), descending)
#define WRITE_INDEX(r, value) out[out_at + io + (r) * out_strides.s7] = (long)(value)

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void sort_local(PLACES, __global long *out, ulong out_at, __global const STORAGE(T) *in, ulong in_at)
{
    __local KEY keys[MOST];
    __local ushort indices[MOST];
    const uint item = get_local_id(0);
    const uint length = (uint)lengths.s7;
    FIND_LANE(get_group_id(0))
    uint size = 1;
    while (size < length) {
        size *= 2;
    }
    for (uint i = item; i < size; i += WORK_GROUP) {
        // What fills up to a power of two stays behind the lane: its indices are larger.
        keys[i] = i < length ? READ_KEY(i) : ~(KEY)0;
        indices[i] = (ushort)i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint sorted = 2; sorted <= size; sorted *= 2) {
        for (uint distance = sorted / 2; distance > 0; distance /= 2) {
            for (uint pair = item; pair < size / 2; pair += WORK_GROUP) {
                const uint low = pair / distance * distance * 2 + pair % distance;
                const uint high = low + distance;
                const bool upwards = (low & sorted) == 0;
                const KEY a = keys[low], b = keys[high];
                const ushort ia = indices[low], ib = indices[high];
                const bool is_larger = a > b || a == b && ia > ib;
                if (is_larger == upwards) {
                    keys[low] = b;
                    keys[high] = a;
                    indices[low] = ib;
                    indices[high] = ia;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    for (uint i = item; i < kept; i += WORK_GROUP) {
        WRITE_INDEX((INDEX)i, indices[i]);
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void sort_keys(PLACES, __global KEY *keys, ulong keys_at, __global const STORAGE(T) *in, ulong in_at)
{
    const ulong point = get_global_id(0);
    const ulong length = lengths.s7;
    if (point >= lanes * length) {
        return;
    }
    FIND_LANE(point / length)
    keys[keys_at + point] = READ_KEY((INDEX)(point % length));
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void sort_store(PLACES, __global long *out, ulong out_at, __global const uint *positions,
                ulong positions_at)
{
    const ulong point = get_global_id(0);
    if (point >= lanes * kept) {
        return;
    }
    const ulong lane = point / kept;
    const INDEX place = (INDEX)(point % kept);
    FIND_LANE(lane)
    WRITE_INDEX(place, positions[positions_at + lane * lengths.s7 + place]);
}
