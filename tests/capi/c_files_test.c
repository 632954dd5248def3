/* Model files from C99: conversions with progress, and their ends; embeddings; gaps; a model's own defaults.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/capi/check.h"

typedef struct {
    int n_calls, cancel_at; /* 0: never */
    uint64_t done, total;
} Progress;

static int on_progress(void* user, uint64_t done, uint64_t total) {
    Progress* progress = user;
    CHECK(done >= progress->done && done <= total);
    progress->done = done;
    progress->total = total;
    return ++progress->n_calls == progress->cancel_at;
}

static long size_of(const char* path) {
    FILE* file = fopen(path, "rb");
    long size;
    if (!file) return -1;
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    fclose(file);
    return size;
}

static int same_files(const char* a, const char* b) {
    FILE *first = fopen(a, "rb"), *second = fopen(b, "rb");
    int x = 0, same = first && second;
    while (same && x != EOF) {
        x = fgetc(first);
        same = x == fgetc(second);
    }
    if (first) fclose(first);
    if (second) fclose(second);
    return same;
}

static void test_load_progress(const char* path) {
    tsr_model_options options = TSR_INIT(tsr_model_options);
    Progress progress = {0}, last = {0};
    tsr_model* model = NULL;
    options.progress = on_progress;
    options.user = &progress;
    CHECK_OK(tsr_model_load(path, &options, &model, error));
    CHECK(progress.n_calls > 1 && progress.done == progress.total);
    tsr_model_free(model);
    options.user = &last;
    for (last.cancel_at = 1; last.cancel_at <= progress.n_calls; last.cancel_at += progress.n_calls - 1) {
        last.n_calls = 0;
        last.done = 0;
        CHECK_FAILS(TSR_CANCELLED, "cancel", tsr_model_load(path, &options, &model, error));
        CHECK(model == NULL);
    }
}

static void test_quantize(const char* path, const char* folder) {
    tsr_quantize_options options = TSR_INIT(tsr_quantize_options);
    const char* overrides[] = {"blk\\.0\\.=q8_0", "nonsense"};
    Progress progress = {0};
    uint64_t n_bytes = 0;
    char out[1024];
    int n_calls, at;
    tsr_model* model = NULL;
    snprintf(out, sizeof out, "%s/quantized.gguf", folder);
    remove(out);
    CHECK_NULL("options", tsr_quantize(path, out, NULL, error));
    CHECK_NULL("type", tsr_quantize(path, out, &options, error));
    options.type = "Q4_K_X";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "Q4_K_X", tsr_quantize(path, out, &options, error));
    options.type = "Q4_0";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "quantized", tsr_quantize(path, out, &options, error));
    options.allow_requantize = 1;
    options.progress = on_progress;
    options.user = &progress;
    options.overrides = overrides;
    options.n_overrides = 2;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "nonsense", tsr_quantize(path, out, &options, error));
    options.n_overrides = 1;
    CHECK_OK(tsr_quantized_size(path, &options, &n_bytes, error));
    CHECK_OK(tsr_quantize(path, out, &options, error));
    CHECK(size_of(out) == (long)n_bytes && progress.done == progress.total);
    CHECK_OK(tsr_model_load(out, NULL, &model, error));
    tsr_model_free(model);
    n_calls = progress.n_calls;
    remove(out);
    for (at = 1; at <= n_calls; at += n_calls - 1) {
        memset(&progress, 0, sizeof progress);
        progress.cancel_at = at;
        CHECK_FAILS(TSR_CANCELLED, "interrupted", tsr_quantize(path, out, &options, error));
        CHECK(size_of(out) == -1);
    }
    options.progress = NULL;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "input", tsr_quantize(path, path, &options, error));
    CHECK_FAILS(TSR_NOT_FOUND, "no/such", tsr_quantize("no/such", out, &options, error));
    options.output_type = "q99";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "output_type", tsr_quantize(path, out, &options, error));
    options.output_type = NULL;
    options.imatrix = path;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "importance", tsr_quantize(path, out, &options, error));
    CHECK_NULL("in:", tsr_quantize(NULL, out, &options, error));
    CHECK_NULL("out:", tsr_quantize(path, NULL, &options, error));
    CHECK_NULL("in:", tsr_quantized_size(NULL, &options, &n_bytes, error));
    CHECK_NULL("n_bytes", tsr_quantized_size(path, &options, NULL, error));
}

static void test_pack(const char* path, const char* folder) {
    tsr_pack_options options = TSR_INIT(tsr_pack_options);
    Progress progress = {0};
    char packed[1024], unpacked[1024];
    tsr_model* model = NULL;
    snprintf(packed, sizeof packed, "%s/packed.gguf", folder);
    snprintf(unpacked, sizeof unpacked, "%s/unpacked.gguf", folder);
    options.progress = on_progress;
    options.user = &progress;
    CHECK_OK(tsr_pack(path, packed, &options, error));
    CHECK(progress.n_calls > 0 && progress.done == progress.total);
    CHECK_OK(tsr_model_load(packed, NULL, &model, error));
    tsr_model_free(model);
    CHECK_OK(tsr_unpack(packed, unpacked, NULL, error));
    CHECK(same_files(path, unpacked));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "input", tsr_pack(path, path, NULL, error));
    memset(&progress, 0, sizeof progress);
    progress.cancel_at = 1;
    remove(packed);
    CHECK_FAILS(TSR_CANCELLED, "interrupted", tsr_pack(path, packed, &options, error));
    CHECK(size_of(packed) == -1);
    options.n_threads = -3;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "n_threads", tsr_pack(path, packed, &options, error));
    CHECK_NULL("in:", tsr_pack(NULL, packed, NULL, error));
    CHECK_NULL("out:", tsr_pack(path, NULL, NULL, error));
    CHECK_NULL("in:", tsr_unpack(NULL, packed, NULL, error));
    CHECK_NULL("out:", tsr_unpack(path, NULL, NULL, error));
    remove(unpacked);
}

static void test_convert(const char* folder, const char* checkpoint) {
    tsr_convert_options options = TSR_INIT(tsr_convert_options);
    Progress progress = {0};
    char out[1024], config[1024];
    tsr_model* model = NULL;
    snprintf(out, sizeof out, "%s/converted.gguf", folder);
    snprintf(config, sizeof config, "%s/config.json", checkpoint);
    CHECK_NULL("folder:", tsr_convert(NULL, out, NULL, error));
    CHECK_NULL("out:", tsr_convert(folder, NULL, NULL, error));
    CHECK_FAILS(TSR_NOT_FOUND, "config.json", tsr_convert(folder, out, NULL, error));
    options.n_overrides = 1;
    CHECK_NULL("overrides", tsr_convert(folder, out, &options, error));
    options.n_overrides = 0;
    if (size_of(config) < 0) {
        printf("skipped: there is no %s\n", config);
        return;
    }
    options.type = "Q9_Z";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "Q9_Z", tsr_convert(checkpoint, out, &options, error));
    options.type = "Q8_0";
    options.packed = 1;
    CHECK_OK(tsr_convert(checkpoint, out, &options, error));
    CHECK_OK(tsr_model_load(out, NULL, &model, error));
    tsr_model_free(model);
    remove(out);
    options.packed = 0;
    options.progress = on_progress;
    options.user = &progress;
    CHECK_OK(tsr_convert(checkpoint, out, &options, error));
    CHECK(progress.n_calls > 0 && progress.done == progress.total);
    remove(out);
    memset(&progress, 0, sizeof progress);
    progress.cancel_at = 1;
    CHECK_FAILS(TSR_CANCELLED, "interrupted", tsr_convert(checkpoint, out, &options, error));
    CHECK(size_of(out) == -1);
}

static void test_plan(const char* path) {
    tsr_plan_options options = TSR_INIT(tsr_plan_options);
    tsr_plan plan = TSR_INIT(tsr_plan), more = TSR_INIT(tsr_plan);
    CHECK_OK(tsr_plan_memory(path, NULL, &plan, error));
    CHECK(plan.packed > 0 && plan.cache > 0 && plan.activations > 0 && plan.process > 0);
    CHECK(plan.total == plan.process + plan.packed + plan.mapped + plan.cache + plan.activations +
                            plan.scratch + plan.sampling);
    CHECK(plan.fits);
    options.n_slots = 3;
    options.k_type = options.v_type = "f32";
    CHECK_OK(tsr_plan_memory(path, &options, &more, error));
    CHECK(more.cache > 5 * plan.cache);
    options.n_slots = -1;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "slots", tsr_plan_memory(path, &options, &more, error));
    options.n_slots = 0;
    options.n_batch = -7;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "n_batch", tsr_plan_memory(path, &options, &more, error));
    options.n_batch = 0;
    options.k_type = "q7";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "k_type", tsr_plan_memory(path, &options, &more, error));
    CHECK_FAILS(TSR_NOT_FOUND, "nowhere", tsr_plan_memory("nowhere.gguf", NULL, &more, error));
    CHECK_NULL("path:", tsr_plan_memory(NULL, NULL, &more, error));
    /* The same refuses a load that would not fit, before the model takes any memory. */
    tsr_model_options load = TSR_INIT(tsr_model_options);
    tsr_model* model = NULL;
    load.must_fit = &options;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "k_type", tsr_model_load(path, &load, &model, error));
    options.k_type = NULL;
    CHECK_OK(tsr_model_load(path, &load, &model, error));
    tsr_model_free(model);
    if (plan.available != 0) {
        options.n_ctx = 1 << 24;
        options.n_slots = 250;
        options.k_type = options.v_type = "f32";
        CHECK_FAILS(TSR_OUT_OF_MEMORY, "KV cache", tsr_model_load(path, &load, &model, error));
        CHECK(model == NULL);
    }
    options.size = 4;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "must_fit", tsr_model_load(path, &load, &model, error));
    load.must_fit = NULL;
    tsr_npu_options npu = TSR_INIT(tsr_npu_options);
    load.npu = &npu;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "npu: device", tsr_model_load(path, &load, &model, error));
    npu.device = "x-elite";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "npu: ranges", tsr_model_load(path, &load, &model, error));
    npu.ranges = "nowhere.json";
    CHECK_FAILS(TSR_NOT_FOUND, "nowhere.json", tsr_model_load(path, &load, &model, error));
    npu.phase = "some";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "prefill, decode, both or auto",
                tsr_model_load(path, &load, &model, error));
    npu.phase = "both";
    npu.file = "nowhere.nctx";
    CHECK_FAILS(TSR_NOT_FOUND, "nowhere.nctx", tsr_model_load(path, &load, &model, error));
    CHECK(model == NULL);
    CHECK_NULL("plan:", tsr_plan_memory(path, NULL, NULL, error));
}

typedef struct {
    float values[256];
    size_t n;
    tsr_finish finish;
} Embedded;

static void on_embedded(void* user, const tsr_outcome* outcome) {
    Embedded* out = user;
    out->finish = outcome->finish;
    out->n = outcome->n_embedding;
    if (out->n == 256) memcpy(out->values, outcome->embedding, sizeof out->values);
}

/* Requests for embeddings, which are those of sessions. */
static void test_requests(const tsr_model* model, const int32_t* ids, size_t n, const float* normed,
                          const float* raw) {
    tsr_engine_options options = TSR_INIT(tsr_engine_options);
    tsr_request_options asked = TSR_INIT(tsr_request_options);
    tsr_embed_options embed = TSR_INIT(tsr_embed_options);
    tsr_engine* engine = NULL;
    tsr_request* request = NULL;
    Embedded found = {{0}, 0, TSR_FINISH_FAILED};
    int i;
    CHECK(tsr_has_feature("embedding_requests"));
    options.n_ctx = 64;
    CHECK_OK(tsr_engine_create(model, &options, &engine, error));
    asked.tokens = ids;
    asked.n_tokens = n;
    asked.embed = &embed;
    asked.on_finish = on_embedded;
    asked.user = &found;
    for (i = 0; i < 2; i++) {
        embed.raw = i;
        CHECK_OK(tsr_engine_submit(engine, &asked, &request, error));
        tsr_request_wait(request);
        tsr_request_free(request);
        CHECK(found.finish == TSR_FINISH_END && found.n == 256);
        CHECK(memcmp(found.values, i ? raw : normed, sizeof found.values) == 0);
    }
    asked.embed = NULL;
    asked.flags = TSR_PROMPT_ONLY;
    CHECK_OK(tsr_engine_submit(engine, &asked, &request, error));
    tsr_request_wait(request);
    tsr_request_free(request);
    CHECK(found.finish == TSR_FINISH_LENGTH && found.n == 0);
    asked.embed = &embed;
    asked.flags = 0;
    asked.n_completions = 2;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "embedding", tsr_engine_submit(engine, &asked, &request, error));
    asked.n_completions = 1;
    embed.pooling = (tsr_pooling)8;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "pooling", tsr_engine_submit(engine, &asked, &request, error));
    embed.size = 0;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "embed", tsr_engine_submit(engine, &asked, &request, error));
    tsr_engine_free(engine);
}

static void test_embeddings(const tsr_model* model) {
    tsr_session_options options = TSR_INIT(tsr_session_options);
    tsr_embed_options embed = TSR_INIT(tsr_embed_options);
    tsr_session* session = NULL;
    int32_t ids[64];
    float last[256], mean[256], raw[256];
    double square = 0;
    size_t n, i;
    options.n_ctx = 64;
    CHECK_OK(tsr_session_create(model, &options, &session, error));
    CHECK_OK(tsr_tokenize(model, "A ship on the sea", 17, TSR_ADD_SPECIAL, ids, 64, &n, error));
    CHECK_OK(tsr_session_eval(session, ids, n, error));
    CHECK_OK(tsr_session_embed(session, ids, n, NULL, last, 256, error));
    CHECK(tsr_session_n_tokens(session) == 0);
    embed.pooling = TSR_POOLING_MEAN;
    CHECK_OK(tsr_session_embed(session, ids, n, &embed, mean, 256, error));
    CHECK(memcmp(last, mean, sizeof last) != 0);
    embed.pooling = TSR_POOLING_LAST;
    embed.raw = 1;
    CHECK_OK(tsr_session_embed(session, ids, n, &embed, raw, 256, error));
    for (i = 0; i < 256; i++) square += (double)last[i] * (double)last[i];
    CHECK(fabs(square - 1) < 1e-5);
    CHECK(raw[0] != last[0] &&
          fabs((double)raw[0] / (double)last[0] - (double)raw[1] / (double)last[1]) < 1e-2);
    test_requests(model, ids, n, last, raw);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "256", tsr_session_embed(session, ids, n, &embed, raw, 255, error));
    embed.pooling = (tsr_pooling)8;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "pooling", tsr_session_embed(session, ids, n, &embed, raw, 256, error));
    ids[0] = -1;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "token", tsr_session_embed(session, ids, n, NULL, raw, 256, error));
    CHECK_NULL("session", tsr_session_embed(NULL, ids, n, NULL, raw, 256, error));
    CHECK_NULL("tokens", tsr_session_embed(session, NULL, n, NULL, raw, 256, error));
    CHECK_NULL("out", tsr_session_embed(session, ids, n, NULL, NULL, 256, error));
    tsr_session_free(session);
}

static void test_infill(const tsr_model* model) {
    tsr_infill infill = TSR_INIT(tsr_infill);
    int32_t ids[8];
    size_t n;
    CHECK_FAILS(TSR_UNSUPPORTED, "infill", tsr_infill_tokens(model, &infill, ids, 8, &n, error));
    infill.n_files = 1;
    CHECK_NULL("files", tsr_infill_tokens(model, &infill, ids, 8, &n, error));
    infill.n_files = 0;
    infill.n_prefix = 1;
    CHECK_NULL("prefix", tsr_infill_tokens(model, &infill, ids, 8, &n, error));
    CHECK_NULL("infill", tsr_infill_tokens(model, NULL, ids, 8, &n, error));
    CHECK_NULL("model", tsr_infill_tokens(NULL, &infill, ids, 8, &n, error));
    CHECK_NULL("n_ids", tsr_infill_tokens(model, &infill, ids, 8, NULL, error));
}

/* A copy of the model that sets a temperature of 0. Two keys of 64 bytes together go in front of the others,
 * so that what follows keeps its alignment. */
static int write_cold_model(const char* from, const char* to) {
    static const char kKeys[64] =
        "\x15\0\0\0\0\0\0\0general.sampling.temp\x06\0\0\0\0\0\0\0"
        "\x01\0\0\0\0\0\0\0x\x08\0\0\0\x06\0\0\0\0\0\0\0filler";
    const long n = size_of(from);
    char* bytes = n > 24 ? malloc((size_t)n) : NULL;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    int ok = bytes && in && out && fread(bytes, 1, (size_t)n, in) == (size_t)n;
    if (ok) {
        bytes[16] = (char)(bytes[16] + 2); /* the number of keys, which is small */
        ok = fwrite(bytes, 1, 24, out) == 24 && fwrite(kKeys, 1, 64, out) == 64 &&
             fwrite(bytes + 24, 1, (size_t)n - 24, out) == (size_t)n - 24;
    }
    if (in) fclose(in);
    if (out) fclose(out);
    free(bytes);
    return ok;
}

/* The file's defaults count unless the caller says otherwise. */
static void test_defaults(const char* from, const char* folder) {
    char path[1024];
    tsr_model* model = NULL;
    tsr_param_info info = TSR_INIT(tsr_param_info), ours = TSR_INIT(tsr_param_info);
    tsr_session_options options = TSR_INIT(tsr_session_options);
    tsr_param hot[] = {{"temperature", "1.5"}, {"seed", "1"}}, seed[] = {{"seed", "1"}};
    tsr_session* session = NULL;
    int32_t start = 1, best = 0, id, differs = 0;
    const float* logits;
    size_t i, n;
    snprintf(path, sizeof path, "%s/cold.gguf", folder);
    CHECK(write_cold_model(from, path));
    CHECK_OK(tsr_model_load(path, NULL, &model, error));
    remove(path);
    if (!model) return;
    for (i = 0; tsr_model_sampling_param(model, i, &info, NULL) == TSR_OK; i++) {
        CHECK_OK(tsr_sampling_param(i, &ours, error));
        CHECK(strcmp(info.name, ours.name) == 0 && info.default_text);
        if (strcmp(info.name, "temperature") == 0) CHECK(info.default_value == 0 && ours.default_value > 0);
    }
    CHECK(i > 8);
    options.n_ctx = 64;
    options.sampling = seed;
    options.n_sampling = 1;
    CHECK_OK(tsr_session_create(model, &options, &session, error));
    CHECK_OK(tsr_session_eval(session, &start, 1, error));
    CHECK_OK(tsr_session_logits(session, &logits, &n, error));
    for (i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = (int32_t)i;
    for (i = 0; i < 8; i++) {
        CHECK_OK(tsr_session_sample(session, &id, error));
        CHECK(id == best);
    }
    tsr_session_free(session);
    options.sampling = hot;
    options.n_sampling = 2;
    CHECK_OK(tsr_session_create(model, &options, &session, error));
    CHECK_OK(tsr_session_eval(session, &start, 1, error));
    for (i = 0; i < 8; i++) {
        CHECK_OK(tsr_session_sample(session, &id, error));
        differs |= id != best;
    }
    CHECK(differs);
    tsr_session_free(session);
    tsr_model_free(model);
}

int main(int argc, char** argv) {
    tsr_model* model = NULL;
    if (argc != 4) return 2;
    test_load_progress(argv[1]);
    test_quantize(argv[1], argv[2]);
    test_pack(argv[1], argv[2]);
    test_convert(argv[2], argv[3]);
    test_plan(argv[1]);
    CHECK_OK(tsr_model_load(argv[1], NULL, &model, error));
    if (!model) return 1;
    test_embeddings(model);
    test_infill(model);
    tsr_model_free(model);
    test_defaults(argv[1], argv[2]);
    return report_failures();
}
