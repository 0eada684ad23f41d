// Stable sorting of rows of keys, least significant digit first. Three kernels make one pass: they
// count the digits of each block, add the counts up to places, and move keys and positions there.
//
// Layouts: rows lie one after the other and are dense; a group takes a block of WORK_GROUP * EACH keys
// of one row. Counts of a row are those of digit 0 in each block, then of digit 1, and so on, so that
// their running sum is the place of each block's first key of each digit.
//
// Parameters:
//   KEY            uint or ulong
//   WORK_GROUP     work-items in a group, a power of two, at least DIGITS
//   EACH           keys of an item
//
// The last pass may leave the keys behind, and the first one has no positions yet.
#ifndef KEY
#define KEY uint
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif
#ifndef EACH
#define EACH 8
#endif

#define DIGITS 16
#define BLOCK (WORK_GROUP * EACH)
#define DIGIT(key) ((uint)((key) >> shift) & (DIGITS - 1))

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void radix_count(uint length, uint blocks, uint shift, __global const KEY *keys, ulong keys_at,
                 __global uint *counts, ulong counts_at)
{
    volatile __local uint found[DIGITS];
    const uint item = get_local_id(0);
    const ulong row = get_group_id(0) / blocks;
    const uint block = get_group_id(0) % blocks;
    if (item < DIGITS) {
        found[item] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint first = block * BLOCK;
    for (uint i = item; i < BLOCK && i < length - first; i += WORK_GROUP) {
        const KEY key = keys[keys_at + row * length + first + i];
        atomic_inc(&found[DIGIT(key)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < DIGITS) {
        counts[counts_at + (row * DIGITS + item) * blocks + block] = found[item];
    }
}

// The sum of what earlier items have; `sums` has room for all items.
uint sum_before(uint item, uint value, __local uint *sums)
{
    sums[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint distance = 1; distance < WORK_GROUP; distance *= 2) {
        const uint other = item >= distance ? sums[item - distance] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[item] += other;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return sums[item] - value;
}

// Counts become the sums of all earlier ones of the same row. One group takes each row.
__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void radix_places(uint n, __global uint *counts, ulong counts_at)
{
    __local uint sums[WORK_GROUP];
    const uint item = get_local_id(0);
    __global uint *row = counts + counts_at + (ulong)get_group_id(0) * n;
    uint before = 0;
    for (uint first = 0; first < n; first += WORK_GROUP) {
        const bool inside = item < n - first;
        const uint value = inside ? row[first + item] : 0;
        const uint place = before + sum_before(item, value, sums);
        before += sums[WORK_GROUP - 1];
        if (inside) {
            row[first + item] = place;
        }
        // Nobody may write before all have read.
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void radix_move(uint length, uint blocks, uint shift, uint has_positions,
                __global const KEY *keys, ulong keys_at,
                __global const uint *positions, ulong positions_at,
                __global const uint *counts, ulong counts_at,
                __global KEY *keys_out, ulong keys_out_at,
                __global uint *positions_out, ulong positions_out_at)
{
    __local KEY own[BLOCK];
    // How many keys of a digit earlier items have, digit by digit.
    __local ushort table[DIGITS * WORK_GROUP];
    __local uint sums[WORK_GROUP];
    // What turns a key's rank in the block into its place in the row.
    __local uint shifts[DIGITS];
    const uint item = get_local_id(0);
    const ulong row = get_group_id(0) / blocks;
    const uint block = get_group_id(0) % blocks;
    const uint first = block * BLOCK;
    const uint count = min((uint)BLOCK, length - first);
    const ulong start = row * length + first;
    for (uint i = item; i < count; i += WORK_GROUP) {
        own[i] = keys[keys_at + start + i];
    }
    for (uint digit = 0; digit < DIGITS; ++digit) {
        table[digit * WORK_GROUP + item] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // An item's keys are neighbours: their order is that of items.
    for (uint i = item * EACH; i < item * EACH + EACH && i < count; ++i) {
        table[DIGIT(own[i]) * WORK_GROUP + item] += 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint sum = 0;
    for (uint i = 0; i < DIGITS; ++i) {
        sum += table[item * DIGITS + i];
    }
    sum = sum_before(item, sum, sums);
    for (uint i = 0; i < DIGITS; ++i) {
        const uint value = table[item * DIGITS + i];
        table[item * DIGITS + i] = (ushort)sum;
        sum += value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < DIGITS) {
        const uint place = counts[counts_at + (row * DIGITS + item) * blocks + block];
        shifts[item] = place - table[item * WORK_GROUP];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item * EACH; i < item * EACH + EACH && i < count; ++i) {
        const KEY key = own[i];
        const uint digit = DIGIT(key);
        const uint rank = table[digit * WORK_GROUP + item];
        table[digit * WORK_GROUP + item] = (ushort)(rank + 1);
        const ulong to = row * length + (uint)(shifts[digit] + rank);
        keys_out[keys_out_at + to] = key;
        const uint position =
            has_positions ? positions[positions_at + start + i] : first + i;
        positions_out[positions_out_at + to] = position;
    }
}
