// Linear attention: tokens write into a matrix of states and read from it.
//
// Layouts: any. `linear_attention` has a work-group for COLUMNS columns of a head of a sequence: WORK_GROUP / COLUMNS
// slices of work-items share the rows of each column, ROWS of them in registers of each. What slices read of a state is
// added through local memory, once for each token, and once more with the delta rule. `linear_attention_serial` has
// a work-item for each column, which keeps the state in the output, takes any sizes and leaves little for a compiler to get wrong.
//
// Parameters:
//   SERIAL         1 for the serial kernel
//   DECAY          what the decay depends on: 0 the head, 1 the key, 2 key and value by rates
//   DELTA          1 for the delta rule
//   ROWS           rows of the state for each work-item
//   COLUMNS        columns of a work-group
//   WORK_GROUP     work-items in a group, a power of two
//
// Arguments:
//   sizes          tokens, sequences, slots, heads, keys, values; a head divided by the next to last has a group, of
//                  which there are as many as the last says
//   q_steps        strides of q: token, group, key; of k the same; of runs: sequence, number
//   v_steps        strides of v: token, head, value; of the decay the same; of the output: row, head
//   s_steps        strides of the output: value; of states: slot, key, head, value; of beta: token, head
//   r_steps        strides of rates: key, head, value
//
// A slot that does not exist stands for zeros, and runs end with the tokens.
#ifndef DECAY
#define SERIAL 0
#define DECAY 0
#define DELTA 1
#define ROWS 16
#define COLUMNS 32
#endif
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

#define TOKENS sizes.s0
#define SEQUENCES sizes.s1
#define SLOTS sizes.s2
#define HEADS sizes.s3
#define KEYS sizes.s4
#define VALUES sizes.s5

#define OPERANDS \
    float query_scale, float key_scale, uint8 sizes, uint8 q_steps, uint8 v_steps, uint8 s_steps, uint4 r_steps, \
    __global float *out, ulong out_at, __global const float *q, ulong q_at, __global const float *k, ulong k_at, \
    __global const float *v, ulong v_at, __global const float *decay, ulong decay_at, \
    __global const float *states, ulong states_at, __global const int *runs, ulong runs_at, \
    __global const float *beta, ulong beta_at, __global const float *rates, ulong rates_at

// Where a column of a head of a sequence is in all arrays, and its tokens.
#define FIND_COLUMN(sequence, head, value) \
    const ulong run_at = runs_at + (ulong)(sequence) * q_steps.s6; \
    const int slot = runs[run_at]; \
    const bool has_state = slot >= 0 && (uint)slot < SLOTS; \
    const uint first = (uint)clamp(runs[run_at + q_steps.s7], 0, (int)TOKENS); \
    const uint count = min((uint)max(runs[run_at + 2 * q_steps.s7], 0), TOKENS - first); \
    const uint group = (head) / sizes.s6 % sizes.s7; \
    const ulong q_first = q_at + (ulong)group * q_steps.s1, k_first = k_at + (ulong)group * q_steps.s4; \
    const ulong v_first = v_at + (ulong)(head) * v_steps.s1 + (ulong)(value) * v_steps.s2; \
    const ulong decay_first = decay_at + (ulong)(head) * v_steps.s4; \
    const ulong out_first = out_at + (ulong)(head) * v_steps.s7 + (ulong)(value) * s_steps.s0; \
    const ulong state_first = states_at + (ulong)max(slot, 0) * s_steps.s1 + (ulong)(head) * s_steps.s3 \
        + (ulong)(value) * s_steps.s4; \
    const ulong rate_first = rates_at + (ulong)(head) * r_steps.s1 + (ulong)(value) * r_steps.s2;

#define KEY_AT(token, key) (k_first + (ulong)(token) * q_steps.s3 + (ulong)(key) * q_steps.s5)
#define QUERY_AT(token, key) (q_first + (ulong)(token) * q_steps.s0 + (ulong)(key) * q_steps.s2)
#define DECAY_AT(token, i) (decay_first + (ulong)(token) * v_steps.s3 + (ulong)(i) * v_steps.s5)
#define OUT_AT(row) (out_first + (ulong)(row) * v_steps.s6)
#define STATE_ROW(sequence, key) (TOKENS + (ulong)(sequence) * KEYS + (key))

#if SERIAL

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void linear_attention_serial(OPERANDS)
{
    const uint column = get_global_id(0);
    if (column >= SEQUENCES * HEADS * VALUES) {
        return;
    }
    const uint value = column % VALUES, head = column / VALUES % HEADS, sequence = column / VALUES / HEADS;
    FIND_COLUMN(sequence, head, value)
    for (uint key = 0; key < KEYS; ++key) {
        const ulong from = state_first + (ulong)key * s_steps.s2;
        out[OUT_AT(STATE_ROW(sequence, key))] = has_state ? states[from] : 0.0f;
    }
    for (uint token = first; token < first + count; ++token) {
        float written = v[v_first + (ulong)token * v_steps.s0];
        float read = 0.0f;
        for (uint key = 0; key < KEYS; ++key) {
#if DECAY == 0
            const float exponent = decay[DECAY_AT(token, 0)];
#elif DECAY == 1
            const float exponent = decay[DECAY_AT(token, key)];
#else
            const float exponent = decay[DECAY_AT(token, value)] * rates[rate_first + (ulong)key * r_steps.s0];
#endif
            const ulong at = OUT_AT(STATE_ROW(sequence, key));
            const float kept = exp(exponent) * out[at];
            read += key_scale * k[KEY_AT(token, key)] * kept;
            out[at] = kept;
        }
        if (DELTA) {
            written = beta[beta_at + (ulong)token * s_steps.s5 + (ulong)head * s_steps.s6] * (written - read);
        }
        float result = 0.0f;
        for (uint key = 0; key < KEYS; ++key) {
            const ulong at = OUT_AT(STATE_ROW(sequence, key));
            const float kept = out[at] + key_scale * k[KEY_AT(token, key)] * written;
            result += query_scale * q[QUERY_AT(token, key)] * kept;
            out[at] = kept;
        }
        out[OUT_AT(token)] = result;
    }
}

#else

#define SLICES (WORK_GROUP / COLUMNS)
#define UNROLLED _Pragma("unroll")

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
void linear_attention(OPERANDS)
{
    // What slices read of a column, and the key, query and decay of a token. There are no more rows than work-items.
    __local float read_by[WORK_GROUP], results[WORK_GROUP];
    __local float keys[WORK_GROUP], queries[WORK_GROUP], factors[WORK_GROUP];
    const uint lane = get_local_id(0), column = lane % COLUMNS, slice = lane / COLUMNS;
    const uint tiles = (VALUES + COLUMNS - 1) / COLUMNS;
    const uint tile = get_group_id(0) % tiles, row = get_group_id(0) / tiles;
    const uint head = row % HEADS, sequence = row / HEADS;
    // Columns beyond the last repeat it, and are not written.
    const bool is_inside = tile * COLUMNS + column < VALUES;
    const uint value = min(tile * COLUMNS + column, VALUES - 1);
    FIND_COLUMN(sequence, head, value)
    float state[ROWS];
#if DECAY == 2
    float rate[ROWS];
#endif
    // Rows beyond the last repeat it. Keys and queries of zero keep them out of all sums.
    UNROLLED for (uint i = 0; i < ROWS; ++i) {
        const uint key = min(i * SLICES + slice, KEYS - 1);
        state[i] = has_state ? states[state_first + (ulong)key * s_steps.s2] : 0.0f;
#if DECAY == 2
        rate[i] = rates[rate_first + (ulong)key * r_steps.s0];
#endif
    }
    keys[lane] = 0.0f;
    queries[lane] = 0.0f;
    factors[lane] = 0.0f;
    for (uint token = first; token < first + count; ++token) {
        if (lane < KEYS) {
            keys[lane] = key_scale * k[KEY_AT(token, lane)];
            queries[lane] = query_scale * q[QUERY_AT(token, lane)];
#if DECAY == 1
            factors[lane] = exp(decay[DECAY_AT(token, lane)]);
#endif
        }
        float written = v[v_first + (ulong)token * v_steps.s0];
#if DECAY == 0
        const float factor = exp(decay[DECAY_AT(token, 0)]);
#elif DECAY == 2
        const float step = decay[DECAY_AT(token, value)];
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        float read = 0.0f;
        UNROLLED for (uint i = 0; i < ROWS; ++i) {
#if DECAY == 1
            const float factor = factors[i * SLICES + slice];
#elif DECAY == 2
            const float factor = exp(step * rate[i]);
#endif
            state[i] *= factor;
            if (DELTA) {
                read += keys[i * SLICES + slice] * state[i];
            }
        }
        if (DELTA) {
            read_by[lane] = read;
            barrier(CLK_LOCAL_MEM_FENCE);
            read = 0.0f;
            UNROLLED for (uint s = 0; s < SLICES; ++s) {
                read += read_by[s * COLUMNS + column];
            }
            written = beta[beta_at + (ulong)token * s_steps.s5 + (ulong)head * s_steps.s6] * (written - read);
        }
        float result = 0.0f;
        UNROLLED for (uint i = 0; i < ROWS; ++i) {
            state[i] += keys[i * SLICES + slice] * written;
            result += queries[i * SLICES + slice] * state[i];
        }
        results[lane] = result;
        // Keys and queries are read, and results are written.
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice == 0 && is_inside) {
            result = 0.0f;
            UNROLLED for (uint s = 0; s < SLICES; ++s) {
                result += results[s * COLUMNS + column];
            }
            out[OUT_AT(token)] = result;
        }
    }
    UNROLLED for (uint i = 0; i < ROWS; ++i) {
        const uint key = i * SLICES + slice;
        if (is_inside && key < KEYS) {
            out[OUT_AT(STATE_ROW(sequence, key))] = state[i];
        }
    }
}

#endif
