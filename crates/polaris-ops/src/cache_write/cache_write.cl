// Rows of tokens written into a paged cache.
//
// Layouts: any; one work-item for each element, or for each four where rows are dense and aligned.
//
// Parameters:
//   T              element type of the cache: f32, f16 or bf16
//   WORK_GROUP     work-items in a group
//
// Arguments:
//   n              elements, or fours of elements
//   sizes          heads, elements of a row, positions of a block, slots of the cache, whether rows are moved
//                  in fours
//   x_strides      of tokens, heads and elements
//   cache_strides  of blocks, positions, heads and elements
//
// Tokens whose slot does not exist are not written.
#ifndef T
#define T f16
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define HEADS sizes.s0
#define DEPTH sizes.s1
#define BLOCK_SIZE sizes.s2
#define SLOTS sizes.s3
#define IN_FOURS sizes.s4

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void cache_write(ulong n, uint8 sizes, uint4 x_strides, uint4 cache_strides,
                 __global STORAGE(T) *cache, ulong cache_at, __global const float *x, ulong x_at,
                 __global const int *slots, ulong slots_at, ulong slot_step)
{
    const ulong item = get_global_id(0);
    if (item >= n) {
        return;
    }
    const uint width = IN_FOURS ? DEPTH / 4 : DEPTH;
    const uint i = (uint)(item % width) * (IN_FOURS ? 4 : 1);
    const ulong row = item / width;
    const uint head = (uint)(row % HEADS);
    const ulong token = row / HEADS;
    const int slot = slots[slots_at + token * slot_step];
    if (slot < 0 || (uint)slot >= SLOTS) {
        return;
    }
    const ulong from = x_at + token * x_strides.s0 + (ulong)head * x_strides.s1 + (ulong)i * x_strides.s2;
    const ulong to = cache_at + (ulong)((uint)slot / BLOCK_SIZE) * cache_strides.s0
        + (ulong)((uint)slot % BLOCK_SIZE) * cache_strides.s1 + (ulong)head * cache_strides.s2
        + (ulong)i * cache_strides.s3;
    if (IN_FOURS) {
        STORE4(T)(cache, to, LOAD4(f32)(x, from));
    } else {
        STORE(T)(cache, to, x[from]);
    }
}
