// Writes the logits that llama.cpp computes for given tokens, to compare ours with.
//
//   logits MODEL.gguf TOKENS.txt OUT.bin [threads] [decode | single | greedy] [plain]
//
// TOKENS.txt holds token ids separated by white space. OUT.bin holds the number of rows and of the vocabulary as 32-bit
// integers, then rows of 32-bit floats, one for each token. The cache is f32 and flash attention is off, so that both
// sides compute the same. With `decode` the last half of the tokens is computed one by one, with `single` all are. With
// `greedy` the rows are what the next 64 tokens are chosen from: the largest logit of each row. `plain` leaves weights in
// the order of the file, where llama.cpp has kernels for another.
#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void quiet(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

int main(int argc, char ** argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: logits MODEL.gguf TOKENS.txt OUT.bin [threads] [decode | single | greedy] [plain]\n");
        return 2;
    }
    llama_log_set(quiet, nullptr);
    llama_backend_init();
    std::vector<llama_token> tokens;
    FILE * file = fopen(argv[2], "r");
    int id = 0;
    while (file && fscanf(file, "%d", &id) == 1) {
        tokens.push_back(id);
    }
    if (file) {
        fclose(file);
    }
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    model_params.use_extra_bufts = argc < 7;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (!model || tokens.empty()) {
        fprintf(stderr, "cannot load the model, or there are no tokens\n");
        return 1;
    }
    const char * mode = argc > 5 ? argv[5] : "";
    const int words = llama_vocab_n_tokens(llama_model_get_vocab(model));
    const int given = tokens.size(), chosen = strcmp(mode, "greedy") ? 0 : 64;
    const int count = given + (chosen ? chosen - 1 : 0), rows = chosen ? chosen : count;
    const int first = !strcmp(mode, "single") ? 0 : !strcmp(mode, "decode") ? given / 2 : given;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = count;
    params.n_batch = given;
    params.n_ubatch = given;
    params.n_threads = argc > 4 ? atoi(argv[4]) : 2;
    params.n_threads_batch = params.n_threads;
    params.type_k = GGML_TYPE_F32;
    params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context * context = llama_init_from_model(model, params);
    if (!context) {
        fprintf(stderr, "cannot make a context\n");
        return 1;
    }
    FILE * out = fopen(argv[3], "wb");
    fwrite(&rows, sizeof(int), 1, out);
    fwrite(&words, sizeof(int), 1, out);
    llama_batch batch = llama_batch_init(count, 0, 1);
    for (int at = 0; at < count;) {
        const int end = at < first ? first : at + 1;
        batch.n_tokens = end - at;
        for (int i = at; i < end; ++i) {
            batch.token[i - at] = tokens[i];
            batch.pos[i - at] = i;
            batch.n_seq_id[i - at] = 1;
            batch.seq_id[i - at][0] = 0;
            batch.logits[i - at] = 1;
        }
        if (llama_decode(context, batch)) {
            fprintf(stderr, "decode failed\n");
            return 1;
        }
        for (int i = chosen ? batch.n_tokens - 1 : 0; i < batch.n_tokens; ++i) {
            fwrite(llama_get_logits_ith(context, i), sizeof(float), words, out);
        }
        if (chosen) {
            const float * row = llama_get_logits_ith(context, batch.n_tokens - 1);
            tokens.push_back(std::max_element(row, row + words) - row);
        }
        at = end;
    }
    fclose(out);
    return 0;
}
