// Arguments of the kernels of attention to a paged cache, and where queries, keys and values are.
//
// Parameters: K and V, the stored types of keys and values: f32, f16, bf16 or a format of blocks.
//
// Arguments:
//   sizes          heads, heads that share keys, elements of a key, elements of a value, work-items that
//                  take a value (a power of two), queries, whether there are sinks, whether slopes
//   pages          blocks of the cache, positions of a block, sequences, blocks of a sequence, positions of
//                  the longest sequence, the window, the chunk, whether keys are read in fours
//   cap            the softcap, or 0
//   strides        of q: token, head, element; of the output the same; whether all positions are seen
//   cache_strides  of keys: block, position, head, element; of values the same
//
// The table and the tokens are dense. Indices that lead nowhere are replaced by the nearest that do.
#ifndef K
#define K f32
#define V f32
#endif

#define HEADS sizes.s0
#define SHARING sizes.s1
#define DEPTH sizes.s2
#define VALUES sizes.s3
#define VALUE_LANES sizes.s4
#define QUERIES sizes.s5
#define HAS_SINKS sizes.s6
#define HAS_SLOPES sizes.s7
#define BLOCKS pages.s0
#define BLOCK_SIZE pages.s1
#define SEQUENCES pages.s2
#define MOST_BLOCKS pages.s3
#define LONGEST pages.s4
#define WINDOW pages.s5
#define CHUNK_OF_POSITIONS pages.s6
#define IN_FOURS pages.s7

#define OPERANDS \
    float scale, float cap, uint8 sizes, uint8 pages, uint8 strides, uint8 cache_strides, \
    __global float *out, ulong out_at, __global const float *q, ulong q_at, \
    __global const STORAGE(K) *k, ulong k_at, __global const STORAGE(V) *v, ulong v_at, \
    __global const int *table, ulong table_at, __global const int *tokens, ulong tokens_at, \
    __global const float *sinks, ulong sinks_at, __global const float *slopes, ulong slopes_at

// The token and head of a query, where it is, and the positions that it sees.
#define FIND_QUERY(row) \
    const uint token = (row) / HEADS, head = (row) % HEADS, key_head = head / SHARING; \
    const uint sequence = (uint)clamp(tokens[tokens_at + 2 * token], 0, (int)SEQUENCES - 1); \
    const uint position = (uint)clamp(tokens[tokens_at + 2 * token + 1], 0, (int)LONGEST - 1); \
    const uint end = strides.s6 ? LONGEST : position + 1; \
    const uint in_window = WINDOW > 0 && WINDOW < end ? end - WINDOW : 0; \
    const uint in_chunk = CHUNK_OF_POSITIONS > 0 ? position / CHUNK_OF_POSITIONS * CHUNK_OF_POSITIONS : 0; \
    const uint begin = max(in_window, in_chunk); \
    const ulong sequence_at = table_at + (ulong)sequence * MOST_BLOCKS; \
    const ulong k_head = k_at + (ulong)key_head * cache_strides.s2; \
    const ulong v_head = v_at + (ulong)key_head * cache_strides.s6; \
    const ulong query_at = q_at + (ulong)token * strides.s0 + (ulong)head * strides.s1; \
    const float slope = HAS_SLOPES ? slopes[slopes_at + head] : 0.0f;

// The rows of a position of the sequence.
#define FIND_ROWS(key) \
    const uint block = (uint)clamp(table[sequence_at + (key) / BLOCK_SIZE], 0, (int)BLOCKS - 1); \
    const uint inside = (key) % BLOCK_SIZE; \
    const ulong k_row = k_head + (ulong)block * cache_strides.s0 + (ulong)inside * cache_strides.s1; \
    const ulong v_row = v_head + (ulong)block * cache_strides.s4 + (ulong)inside * cache_strides.s5;

// Where the result of a query begins.
#define RESULT_AT (out_at + (ulong)token * strides.s3 + (ulong)head * strides.s4)

// What a product of a query and a key becomes.
#define FINISH_SCORE(score, key, slope) \
    if (cap > 0.0f) { \
        score = cap * tanh(score / cap); \
    } \
    score += (slope) * ((float)(key) - (float)position);

// A NaN is never the larger one: it shows in the sum.
#define LARGER(a, b) ((b) > (a) ? (b) : (a))
