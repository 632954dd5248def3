/* Writing with tessera from C: one text in a session, then the same prompt through an engine.
 *   cc main.c $(pkg-config --cflags --libs tessera) && ./a.out MODEL.gguf "Once upon a time" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

static void on_delta(void* user, const tsr_delta* delta) {
    (void)user;
    fwrite(delta->text, 1, delta->n_text, stdout);
    fflush(stdout);
}

static void on_finish(void* user, const tsr_outcome* outcome) { *(int64_t*)user = outcome->n_generated; }

static int fail(const char* what, const tsr_error* error) {
    fprintf(stderr, "%s: %s\n", what, error->message);
    return 1;
}

static int write_in_session(const tsr_model* model, const int32_t* ids, size_t n_ids) {
    const tsr_param sampling[] = {{"temperature", "0.8"}, {"seed", "1"}};
    tsr_session_options options = TSR_INIT(tsr_session_options);
    tsr_session* session = NULL;
    tsr_error error;
    int i;
    options.n_ctx = 256;
    options.sampling = sampling;
    options.n_sampling = 2;
    if (tsr_session_create(model, &options, &session, &error) != TSR_OK) return fail("session", &error);
    if (tsr_session_eval(session, ids, n_ids, &error) != TSR_OK) return fail("prompt", &error);
    for (i = 0; i < 20; i++) {
        const char* bytes;
        size_t n;
        int32_t id;
        if (tsr_session_step(session, &id, &error) != TSR_OK) return fail("step", &error);
        if (tsr_is_end(model, id)) break;
        if (tsr_token_bytes(model, id, &bytes, &n, &error) != TSR_OK) return fail("token", &error);
        fwrite(bytes, 1, n, stdout);
    }
    puts("");
    tsr_session_free(session);
    return 0;
}

static int write_by_request(const tsr_model* model, const int32_t* ids, size_t n_ids) {
    tsr_engine_options options = TSR_INIT(tsr_engine_options);
    tsr_request_options asked = TSR_INIT(tsr_request_options);
    tsr_engine* engine = NULL;
    tsr_request* request = NULL;
    tsr_error error;
    int64_t n_generated = 0;
    options.n_ctx = 256;
    if (tsr_engine_create(model, &options, &engine, &error) != TSR_OK) return fail("engine", &error);
    asked.tokens = ids;
    asked.n_tokens = n_ids;
    asked.max_tokens = 20;
    asked.on_delta = on_delta;
    asked.on_finish = on_finish;
    asked.user = &n_generated;
    if (tsr_engine_submit(engine, &asked, &request, &error) != TSR_OK) return fail("request", &error);
    tsr_request_wait(request);
    printf("\n%d tokens\n", (int)n_generated);
    tsr_request_free(request);
    tsr_engine_free(engine);
    return 0;
}

int main(int argc, char** argv) {
    tsr_model* model = NULL;
    tsr_error error;
    int32_t ids[256];
    size_t n_ids;
    int status;
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL.gguf TEXT\n", argv[0]);
        return 2;
    }
    if (tsr_model_load(argv[1], NULL, &model, &error) != TSR_OK) return fail("model", &error);
    if (tsr_tokenize(model, argv[2], strlen(argv[2]), TSR_ADD_SPECIAL, ids, 256, &n_ids, &error) != TSR_OK)
        return fail("prompt", &error);
    status = write_in_session(model, ids, n_ids);
    if (status == 0) status = write_by_request(model, ids, n_ids);
    tsr_model_free(model);
    return status;
}
