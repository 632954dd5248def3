/* The C interface from C99: every function with what it should get, and with what it should not. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/capi/check.h"

enum { kCap = 512 };

static void test_version(void) {
    int i;
    CHECK(tsr_abi_version() == TSR_ABI_VERSION);
    CHECK(strlen(tsr_version()) >= 5);
    for (i = -1; i < 12; i++) CHECK(tsr_status_name((tsr_status)i) != NULL);
    tsr_text_free(NULL);
}

static void test_names(void) {
    int list, i;
    const char* name;
    for (list = 0; list <= (int)TSR_LIST_FEATURES; list++) {
        for (i = 0; tsr_list_name((tsr_list)list, (size_t)i, &name, NULL) == TSR_OK; i++) {
            CHECK(name && *name && strlen(name) < 64);
            if (list == (int)TSR_LIST_FEATURES) CHECK(tsr_has_feature(name) == 1);
        }
        CHECK(i >= 1);
        CHECK_FAILS(TSR_NOT_FOUND, "name", tsr_list_name((tsr_list)list, (size_t)i, &name, error));
        CHECK(name == NULL);
    }
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "list", tsr_list_name((tsr_list)list, 0, &name, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "list", tsr_list_name((tsr_list)-1, 0, &name, error));
    CHECK_NULL("name", tsr_list_name(TSR_LIST_ISAS, 0, NULL, error));
    CHECK_OK(tsr_list_name(TSR_LIST_FEATURES, 0, &name, error));
    CHECK(strcmp(name, "chat") == 0);
    CHECK(tsr_has_feature("flying") == 0 && tsr_has_feature(NULL) == 0);
}

static void test_nulls(const tsr_model* model, tsr_session* session, tsr_engine* engine) {
    tsr_model* no_model = NULL;
    tsr_model_info info = TSR_INIT(tsr_model_info);
    tsr_text text;
    size_t n;
    int32_t id;
    const char* bytes;
    const float* logits;
    tsr_engine_stats stats = TSR_INIT(tsr_engine_stats);
    tsr_request_options asked = TSR_INIT(tsr_request_options);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "path", tsr_model_load(NULL, NULL, &no_model, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "model", tsr_model_load("x", NULL, NULL, error));
    CHECK(tsr_model_load(NULL, NULL, NULL, NULL) == TSR_INVALID_ARGUMENT);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "model", tsr_model_get_info(NULL, &info, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "info", tsr_model_get_info(model, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "key", tsr_model_metadata(model, NULL, &text, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "value", tsr_model_metadata(model, "x", NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "model", tsr_model_metadata(NULL, "x", &text, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "model", tsr_tokenize(NULL, "x", 1, 0, NULL, 0, &n, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "text", tsr_tokenize(model, NULL, 1, 0, NULL, 0, &n, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "n_ids", tsr_tokenize(model, "x", 1, 0, NULL, 0, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "flags", tsr_tokenize(model, "x", 1, 64, NULL, 0, &n, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "ids", tsr_detokenize(model, NULL, 1, 0, &text, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "text", tsr_detokenize(model, NULL, 0, 0, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "model", tsr_token_bytes(NULL, 0, &bytes, &n, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "bytes", tsr_token_bytes(model, 0, NULL, &n, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "n:", tsr_token_bytes(model, 0, &bytes, NULL, error));
    CHECK(tsr_is_end(NULL, 0) == 0);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "info", tsr_sampling_param(0, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "model", tsr_session_create(NULL, NULL, &session, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_create(model, NULL, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_eval(NULL, &id, 1, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_sync(NULL, &id, 1, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_truncate(NULL, 0, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_logits(NULL, &logits, &n, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_sample(NULL, &id, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_step(NULL, &id, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_save(NULL, "x", error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "session", tsr_session_restore(NULL, "x", error));
    CHECK(tsr_session_n_tokens(NULL) == 0 && tsr_session_n_ctx(NULL) == 0);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "model", tsr_engine_create(NULL, NULL, &engine, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "engine", tsr_engine_create(model, NULL, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "engine", tsr_engine_submit(NULL, &asked, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "engine", tsr_engine_get_stats(NULL, &stats, error));
    CHECK_NULL("model", tsr_model_sampling_param(NULL, 0, NULL, error));
    CHECK_NULL("info", tsr_model_sampling_param(model, 0, NULL, error));
    tsr_request_cancel(NULL);
    tsr_request_wait(NULL);
    CHECK(tsr_request_done(NULL) == 1);
    tsr_request_free(NULL);
    tsr_engine_free(NULL);
    tsr_session_free(NULL);
    tsr_model_free(NULL);
}

static void test_model(const char* path, const tsr_model* model) {
    tsr_model_info info = TSR_INIT(tsr_model_info);
    tsr_model_info short_info;
    tsr_model_options options = TSR_INIT(tsr_model_options);
    tsr_model* other = NULL;
    tsr_text text;
    CHECK_OK(tsr_model_get_info(model, &info, error));
    CHECK(strcmp(info.architecture, "llama") == 0);
    CHECK(info.n_vocab == 4096 && info.n_embd == 256 && info.n_layer == 6 && info.n_ctx_train == 256);
    CHECK(info.n_bytes > info.n_params / 2 && info.n_bytes < 4 * info.n_params);
    /* An older caller, whose struct ended behind the second field. */
    memset(&short_info, 0x55, sizeof short_info);
    short_info.size = 3 * sizeof(size_t);
    CHECK_OK(tsr_model_get_info(model, &short_info, error));
    CHECK(short_info.architecture == info.architecture && short_info.n_params == 0x5555555555555555);
    short_info.size = 0;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "size", tsr_model_get_info(model, &short_info, error));
    CHECK_OK(tsr_model_metadata(model, "general.architecture", &text, error));
    CHECK(strcmp(text.data, "llama") == 0 && text.n == 5);
    tsr_text_free(&text);
    CHECK_OK(tsr_model_metadata(model, "no.such.key", &text, error));
    CHECK(text.data == NULL);
    CHECK_FAILS(TSR_NOT_FOUND, "no/such/file", tsr_model_load("no/such/file", NULL, &other, error));
    {
        const char* overrides[] = {"general.name=str:mine", "general.name"};
        options.overrides = overrides;
        options.n_overrides = 1;
        options.check = 1;
        CHECK_OK(tsr_model_load(path, &options, &other, error));
        CHECK_OK(tsr_model_metadata(other, "general.name", &text, error));
        CHECK(strcmp(text.data, "mine") == 0);
        tsr_text_free(&text);
        tsr_model_free(other);
        options.n_overrides = 2;
        CHECK_FAILS(TSR_INVALID_ARGUMENT, "overrides", tsr_model_load(path, &options, &other, error));
        options.n_overrides = 0;
        options.check = 0;
    }
    options.blas = 1;
    {
        /* Either the library is there, or the error names it. */
        tsr_error failure;
        const tsr_status status = tsr_model_load(path, &options, &other, &failure);
        CHECK(status == TSR_OK ||
              (status == TSR_UNSUPPORTED && strstr(failure.message, "OpenBLAS: expected")));
        tsr_model_free(other);
        other = NULL;
    }
    options.blas = 0;
    options.isa = "abacus";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "abacus", tsr_model_load(path, &options, &other, error));
    options.isa = "scalar";
    options.n_threads = -1;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "n_threads", tsr_model_load(path, &options, &other, error));
    options.size = 1;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "size", tsr_model_load(path, &options, &other, error));
    CHECK(other == NULL);
}

static size_t test_text(const tsr_model* model, int32_t* ids) {
    static const char kText[] = "Once upon a time";
    size_t n = 0, n_bytes;
    const char* bytes;
    tsr_text text;
    int32_t bad = 4096;
    CHECK_OK(tsr_tokenize(model, kText, strlen(kText), TSR_ADD_SPECIAL, ids, kCap, &n, error));
    CHECK(n > 3 && ids[0] == 1);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "room",
                tsr_tokenize(model, kText, strlen(kText), 0, ids, 1, &n, error));
    CHECK_OK(tsr_tokenize(model, kText, strlen(kText), TSR_ADD_SPECIAL, ids, kCap, &n, error));
    CHECK_OK(tsr_detokenize(model, ids, n, 0, &text, error));
    CHECK(strcmp(text.data, kText) == 0);
    tsr_text_free(&text);
    CHECK_OK(tsr_detokenize(model, NULL, 0, 0, &text, error));
    CHECK(text.n == 0 && text.data && !*text.data);
    tsr_text_free(&text);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "4096", tsr_detokenize(model, &bad, 1, 0, &text, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "4096", tsr_token_bytes(model, bad, &bytes, &n_bytes, error));
    CHECK_OK(tsr_token_bytes(model, ids[1], &bytes, &n_bytes, error));
    CHECK(n_bytes > 0);
    CHECK(tsr_is_end(model, 2) == 1 && tsr_is_end(model, ids[1]) == 0 && tsr_is_end(model, -7) == 0);
    return n;
}

static void test_sampling(void) {
    tsr_param_info info = TSR_INIT(tsr_param_info);
    size_t i;
    for (i = 0; tsr_sampling_param(i, &info, NULL) == TSR_OK; i++) {
        CHECK(info.name && *info.name && info.help && *info.help);
        CHECK(info.is_text || (info.min <= info.default_value && info.default_value <= info.max));
    }
    CHECK(i > 8);
    CHECK_FAILS(TSR_NOT_FOUND, "parameter", tsr_sampling_param(i, &info, error));
}

static void test_session(const tsr_model* model, const int32_t* ids, size_t n_ids, const char* folder) {
    tsr_param sampling[] = {{"temperature", "0"}};
    tsr_session_options options = TSR_INIT(tsr_session_options);
    tsr_session *session = NULL, *second = NULL;
    const float* logits;
    float first_logit;
    size_t n, n_kept;
    int32_t id, again;
    char path[1024];
    options.sampling = sampling;
    options.n_sampling = 1;
    options.n_ctx = 64;
    CHECK_OK(tsr_session_create(model, &options, &session, error));
    if (!session) return;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "logits", tsr_session_logits(session, &logits, &n, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "logits", tsr_session_step(session, &id, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "none", tsr_session_eval(session, NULL, 0, error));
    CHECK_OK(tsr_session_eval(session, ids, n_ids, error));
    CHECK(tsr_session_n_tokens(session) == (int64_t)n_ids && tsr_session_n_ctx(session) == 64);
    CHECK_OK(tsr_session_logits(session, &logits, &n, error));
    CHECK(n == 4096 && !isnan(logits[0]));
    first_logit = logits[7];
    CHECK_OK(tsr_session_sample(session, &id, error));
    CHECK_OK(tsr_session_step(session, &again, error));
    CHECK(id == again);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "n:", tsr_session_truncate(session, 1000, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "n:", tsr_session_truncate(session, -1, error));
    CHECK_OK(tsr_session_sync(session, ids, n_ids, &n_kept, error));
    CHECK(n_kept == n_ids - 1);
    CHECK_OK(tsr_session_logits(session, &logits, &n, error));
    CHECK(logits[7] == first_logit);
    snprintf(path, sizeof path, "%s/session", folder);
    CHECK_OK(tsr_session_save(session, path, error));
    CHECK_OK(tsr_session_create(model, &options, &second, error));
    CHECK_OK(tsr_session_restore(second, path, error));
    CHECK(tsr_session_n_tokens(second) == (int64_t)n_ids);
    CHECK_FAILS(TSR_NOT_FOUND, "none", tsr_session_restore(second, "no/such/none", error));
    tsr_session_free(second);
    sampling[0].name = "temprature";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "temprature", tsr_session_create(model, &options, &second, error));
    sampling[0].name = NULL;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "NULL", tsr_session_create(model, &options, &second, error));
    options.n_sampling = 0;
    options.k_type = "q2_k";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "k_type", tsr_session_create(model, &options, &second, error));
    options.k_type = NULL;
    options.n_ctx = -5;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "-5", tsr_session_create(model, &options, &second, error));
    CHECK(second == NULL);
    tsr_session_free(session);
}

typedef struct {
    char text[4096];
    size_t n_text;
    int n_delta, n_finished;
    tsr_finish finish;
    int64_t n_generated;
} Answer;

static void on_delta(void* user, const tsr_delta* delta) {
    Answer* answer = user;
    if (delta->size != sizeof *delta) n_failed++;
    if (answer->n_text + delta->n_text < sizeof answer->text)
        memcpy(answer->text + answer->n_text, delta->text, delta->n_text);
    answer->n_text += delta->n_text;
    answer->n_delta++;
}

static void on_finish(void* user, const tsr_outcome* outcome) {
    Answer* answer = user;
    answer->finish = outcome->finish;
    answer->n_generated = outcome->n_generated;
    answer->n_finished++;
}

static void test_engine(const tsr_model* model, const int32_t* ids, size_t n_ids) {
    tsr_engine_options options = TSR_INIT(tsr_engine_options);
    tsr_request_options asked = TSR_INIT(tsr_request_options);
    tsr_engine_stats stats = TSR_INIT(tsr_engine_stats);
    tsr_engine* engine = NULL;
    tsr_request* request = NULL;
    static Answer answer, endless;
    const char* stops[] = {""};
    options.n_ctx = 128;
    CHECK_OK(tsr_engine_create(model, &options, &engine, error));
    if (!engine) return;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "options", tsr_engine_submit(engine, NULL, NULL, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "prompt", tsr_engine_submit(engine, &asked, NULL, error));
    asked.n_tokens = 3;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "tokens", tsr_engine_submit(engine, &asked, NULL, error));
    asked.tokens = ids;
    asked.n_tokens = n_ids;
    asked.flags = 1u << 30;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "flags", tsr_engine_submit(engine, &asked, NULL, error));
    asked.flags = TSR_IGNORE_END;
    asked.stop = stops;
    asked.n_stop = 1;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "stop", tsr_engine_submit(engine, &asked, NULL, error));
    asked.n_stop = 0;
    asked.deadline_s = NAN;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "deadline_s", tsr_engine_submit(engine, &asked, NULL, error));
    asked.deadline_s = 0;
    asked.max_tokens = 12;
    asked.on_delta = on_delta;
    asked.on_finish = on_finish;
    asked.user = &answer;
    CHECK_OK(tsr_engine_submit(engine, &asked, &request, error));
    tsr_request_wait(request);
    CHECK(tsr_request_done(request) == 1);
    CHECK(answer.n_finished == 1 && answer.finish == TSR_FINISH_LENGTH && answer.n_generated == 12);
    CHECK(answer.n_delta >= 12 && answer.n_text > 0);
    tsr_request_free(request);
    asked.max_tokens = 4096;
    asked.flags |= TSR_FITS_CONTEXT;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "4096", tsr_engine_submit(engine, &asked, &request, error));
    asked.flags |= TSR_SHIFT_CONTEXT;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "flags", tsr_engine_submit(engine, &asked, &request, error));
    asked.max_tokens = 0;
    asked.flags ^= TSR_FITS_CONTEXT;
    asked.user = &endless;
    CHECK_OK(tsr_engine_submit(engine, &asked, &request, error));
    tsr_request_cancel(request);
    tsr_request_wait(request);
    CHECK(endless.finish == TSR_FINISH_CANCELLED);
    tsr_request_free(request);
    CHECK_OK(tsr_engine_get_stats(engine, &stats, error));
    CHECK(stats.n_pages > 0 && stats.n_generated_tokens >= 12);
    CHECK(stats.n_ctx == 128 && stats.kv_bytes > 0);
    CHECK_NULL("stats", tsr_engine_get_stats(engine, NULL, error));
    test_nulls(model, NULL, NULL);
    tsr_engine_free(engine);
}

int main(int argc, char** argv) {
    tsr_model* model = NULL;
    int32_t ids[kCap];
    size_t n_ids;
    if (argc != 3) return 2;
    test_version();
    test_names();
    CHECK_OK(tsr_model_load(argv[1], NULL, &model, error));
    if (!model) return 1;
    test_model(argv[1], model);
    n_ids = test_text(model, ids);
    test_sampling();
    test_session(model, ids, n_ids, argv[2]);
    test_engine(model, ids, n_ids);
    tsr_model_free(model);
    return report_failures();
}
