/* tessera: local language models in C.
 *
 * Conventions
 *   - Every function that can fail returns a status and takes, last, a tsr_error that it fills in when the
 *     status is not TSR_OK; NULL there is fine. Nothing aborts, prints or throws, whatever is passed in.
 *   - Structs that callers fill in begin with their size: `tsr_model_options o = {sizeof o};`. A field of
 * zero means its default, so this is a complete set of options, and newer libraries serve older callers.
 *   - Text is UTF-8. (const char*, size_t) pairs need no terminator; lone const char* do.
 *   - Objects are freed by their tsr_*_free(), which take NULL. What a function hands out as a pointer
 * belongs to the object it came from unless it says otherwise. A model must outlive nothing: engines and
 * sessions keep what they need of it.
 *   - Threads: functions on a const tsr_model and on a tsr_engine or tsr_request may be called from any
 * thread at any time; a tsr_session belongs to one thread at a time.
 */
#ifndef TESSERA_H
#define TESSERA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && defined(TSR_BUILDING_LIBRARY)
#define TSR_API __attribute__((visibility("default")))
#else
#define TSR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status and version ------------------------------------------------------------------------------ */

typedef enum tsr_status {
    TSR_OK = 0,
    TSR_INVALID_ARGUMENT = 1, /* a pointer, option or value is not what it should be */
    TSR_NOT_FOUND = 2,        /* a file, key or name does not exist */
    TSR_MALFORMED = 3,        /* a file or text breaks its format */
    TSR_UNSUPPORTED = 4,      /* well-formed, but a kind that is not run */
    TSR_OUT_OF_MEMORY = 5,
    TSR_IO = 6,        /* the system refused a read, write or map */
    TSR_CANCELLED = 7, /* the caller wanted it to end */
    TSR_BUSY = 8,      /* a queue is full; the same may succeed later */
    TSR_INTERNAL = 9   /* a bug of the library */
} tsr_status;

/* The message names the thing, what was expected and what was found; cut to fit, always terminated. */
typedef struct tsr_error {
    tsr_status status;
    char message[1020];
} tsr_error;

/* "invalid argument", ...; never NULL. */
TSR_API const char* tsr_status_name(tsr_status status);

#define TSR_ABI_VERSION 1
/* "0.1.0", and the version of this interface that the library was built with. */
TSR_API const char* tsr_version(void);
TSR_API int tsr_abi_version(void);

/* Messages of the library: level 0 error, 1 warning, 2 information. NULL: none (the default). The callback
 * may be called from any thread that uses the library. Not to be changed while other functions run. */
typedef void (*tsr_log_fn)(void* user, int level, const char* message);
TSR_API void tsr_set_log(tsr_log_fn log, void* user);

/* Text that a function allocated: data is terminated, n does not count the terminator. */
typedef struct tsr_text {
    char* data;
    size_t n;
} tsr_text;
TSR_API void tsr_text_free(tsr_text* text);

/* ---- Models ------------------------------------------------------------------------------------------ */

typedef struct tsr_model tsr_model;

typedef struct tsr_model_options {
    size_t size;
    int32_t n_threads; /* for loading; 0: the physical cores that the process may use */
    int32_t precise;   /* not 0: float products from the stored weights, slower */
    const char* isa;   /* instruction set by name; NULL: TESSERA_ISA, or the best that the processor has */
    /* Bytes done and in all while weights are prepared. Not 0 ends the load with TSR_CANCELLED. */
    int (*progress)(void* user, uint64_t done, uint64_t total);
    void* user;
} tsr_model_options;

/* A GGUF file, or the first part of a split one. *model is NULL on failure. options may be NULL. */
TSR_API tsr_status tsr_model_load(const char* path, const tsr_model_options* options, tsr_model** model,
                                  tsr_error* error);
TSR_API void tsr_model_free(tsr_model* model);

typedef struct tsr_model_info {
    size_t size;
    const char* architecture; /* "llama"; lives as long as the model */
    const char* type;         /* most common type of the weights, "q4_k" */
    const char* isa;          /* instruction set in use */
    int64_t n_params;
    int64_t n_ctx_train; /* positions it was trained for */
    int64_t n_embd, n_layer, n_head, n_head_kv;
    int32_t n_vocab;
    int32_t bos, eos; /* -1: none */
} tsr_model_info;

/* Fills in the fields that the caller's size covers. */
TSR_API tsr_status tsr_model_get_info(const tsr_model* model, tsr_model_info* info, tsr_error* error);
/* A metadata value as text; *value is NULL where the file has no such key. Free it with tsr_text_free. */
TSR_API tsr_status tsr_model_metadata(const tsr_model* model, const char* key, tsr_text* value,
                                      tsr_error* error);

/* ---- Text and tokens --------------------------------------------------------------------------------- */

enum {
    TSR_ADD_SPECIAL = 1,   /* start and end tokens around the text, where the model wants them */
    TSR_PARSE_SPECIAL = 2, /* the spelling of a control token becomes that token */
    TSR_SHOW_SPECIAL = 4   /* control tokens appear by their spelling */
};

/* Ids of a text into ids[capacity]; *n_ids is their number in any case. With more than capacity nothing is
 * written and the status is TSR_INVALID_ARGUMENT, unless ids is NULL, which asks for the number alone. */
TSR_API tsr_status tsr_tokenize(const tsr_model* model, const char* text, size_t n, uint32_t flags,
                                int32_t* ids, size_t capacity, size_t* n_ids, tsr_error* error);
/* Valid UTF-8. Unknown ids are an error. */
TSR_API tsr_status tsr_detokenize(const tsr_model* model, const int32_t* ids, size_t n, uint32_t flags,
                                  tsr_text* text, tsr_error* error);
/* The bytes a token stands for; they live as long as the model and may be no valid UTF-8. */
TSR_API tsr_status tsr_token_bytes(const tsr_model* model, int32_t id, const char** bytes, size_t* n,
                                   tsr_error* error);
/* Whether generation ends with this token. */
TSR_API int tsr_is_end(const tsr_model* model, int32_t id);

/* ---- Sampling ---------------------------------------------------------------------------------------- */

/* A sampling parameter by name, with its value as text: {"temperature", "0.8"}. The names are those of
 * docs/sampling.md; tsr_sampling_param lists them. */
typedef struct tsr_param {
    const char* name;
    const char* value;
} tsr_param;

typedef struct tsr_param_info {
    size_t size;
    const char* name;
    const char* help;
    double default_value, min, max; /* of numbers */
    int32_t is_text;
} tsr_param_info;
/* Parameter i in order; TSR_NOT_FOUND behind the last. */
TSR_API tsr_status tsr_sampling_param(size_t i, tsr_param_info* info, tsr_error* error);

/* ---- Sessions: one text, token by token -------------------------------------------------------------- */

typedef struct tsr_session tsr_session;

typedef struct tsr_session_options {
    size_t size;
    int64_t n_ctx;      /* positions; 0: the model's, at most 4096 */
    int64_t n_batch;    /* tokens of one pass; 0: 512. Never changes results */
    int32_t n_threads;  /* 0: the physical cores that the process may use. Never changes results */
    const char* k_type; /* of the cache: "f32", "f16", "q8_0", "q4_0"; NULL: f16 */
    const char* v_type;
    const tsr_param* sampling;
    size_t n_sampling;
} tsr_session_options;

TSR_API tsr_status tsr_session_create(const tsr_model* model, const tsr_session_options* options,
                                      tsr_session** session, tsr_error* error);
TSR_API void tsr_session_free(tsr_session* session);

/* Appends tokens and computes the logits of the last. On failure nothing has changed. */
TSR_API tsr_status tsr_session_eval(tsr_session* session, const int32_t* tokens, size_t n, tsr_error* error);
/* Makes the text these tokens: what is there already in front is kept, the rest computed. *n_kept may be
 * NULL. */
TSR_API tsr_status tsr_session_sync(tsr_session* session, const int32_t* tokens, size_t n, size_t* n_kept,
                                    tsr_error* error);
/* Forgets all tokens from position n on. */
TSR_API tsr_status tsr_session_truncate(tsr_session* session, int64_t n, tsr_error* error);
TSR_API int64_t tsr_session_n_tokens(const tsr_session* session);
TSR_API int64_t tsr_session_n_ctx(const tsr_session* session);

/* Logits of the last token, *n_vocab floats, valid until the session is used again. */
TSR_API tsr_status tsr_session_logits(const tsr_session* session, const float** logits, size_t* n_vocab,
                                      tsr_error* error);
/* Draws a token from them by the session's sampling parameters. It is not part of the text yet: evaluate it.
 */
TSR_API tsr_status tsr_session_sample(tsr_session* session, int32_t* id, tsr_error* error);
/* draw, evaluate and return the token: one step of writing. */
TSR_API tsr_status tsr_session_step(tsr_session* session, int32_t* id, tsr_error* error);

/* The text and its cache into a file, and back into a session of the same model and cache types. A file that
 * is torn, changed or another model's is refused. It appears when it is complete. */
TSR_API tsr_status tsr_session_save(const tsr_session* session, const char* path, tsr_error* error);
TSR_API tsr_status tsr_session_restore(tsr_session* session, const char* path, tsr_error* error);

/* ---- Engines: many requests at once ------------------------------------------------------------------ */

typedef struct tsr_engine tsr_engine;
typedef struct tsr_request tsr_request;

typedef struct tsr_engine_options {
    size_t size;
    int64_t n_ctx;       /* positions of one request; 0: the model's, at most 4096 */
    uint64_t kv_bytes;   /* cache of all together; 0: max_running contexts */
    int64_t n_batch;     /* tokens of one pass; 0: 512 */
    int64_t max_running; /* requests computed together; 0: 8 */
    int64_t max_queue;   /* requests that may wait; 0: 256 */
    int32_t n_threads;   /* 0: the physical cores that the process may use */
    const char* k_type;  /* of the cache, as for sessions */
    const char* v_type;
} tsr_engine_options;

TSR_API tsr_status tsr_engine_create(const tsr_model* model, const tsr_engine_options* options,
                                     tsr_engine** engine, tsr_error* error);
/* Cancels what is open, and waits for the end of the pass. Not to be called from a callback. */
TSR_API void tsr_engine_free(tsr_engine* engine);

typedef enum tsr_finish {
    TSR_FINISH_END = 0,         /* the model ended */
    TSR_FINISH_STOP_STRING = 1, /* a stop string would have come */
    TSR_FINISH_LENGTH = 2,      /* max_tokens */
    TSR_FINISH_CONTEXT_FULL = 3,
    TSR_FINISH_CANCELLED = 4,
    TSR_FINISH_DEADLINE = 5,
    TSR_FINISH_FAILED = 6 /* see error */
} tsr_finish;

typedef struct tsr_token_prob {
    int32_t id;
    float log_p; /* natural logarithm of the probability by the model alone */
} tsr_token_prob;

/* A token, and the text that became certain with it: whole characters, empty while a stop string may begin.
 */
typedef struct tsr_delta {
    size_t size;
    int32_t completion; /* 0 .. n_completions - 1 */
    int32_t id;         /* -1: text alone, at the end */
    const char* text;
    size_t n_text;
    float log_p; /* with TSR_LOG_PROBS */
    const tsr_token_prob* top;
    size_t n_top;
} tsr_delta;

typedef struct tsr_outcome {
    size_t size;
    int32_t completion;
    tsr_finish finish;
    int32_t stop_index; /* which stop string, or -1 */
    uint64_t seed;
    int64_t n_prompt, n_cached, n_generated; /* cached: prompt tokens that were known already */
    int64_t n_shifted;                       /* forgotten because the context was full */
    double queue_s, prompt_s, decode_s;      /* waiting; until the first token; from there */
    const char* error;                       /* with TSR_FINISH_FAILED */
} tsr_outcome;

enum {
    TSR_IGNORE_END = 1,        /* go on where the model would end */
    TSR_SHOW_SPECIAL_TEXT = 2, /* control tokens appear in the text */
    TSR_SHIFT_CONTEXT = 4,     /* a full context forgets its older half instead of ending */
    TSR_LOG_PROBS = 8
};

typedef struct tsr_request_options {
    size_t size;
    const int32_t* tokens; /* the prompt, at least one */
    size_t n_tokens;
    int64_t max_tokens; /* 0: until something else ends it */
    const tsr_param* sampling;
    size_t n_sampling;
    const char* const* stop; /* none of them empty */
    size_t n_stop;
    int32_t n_completions; /* 0: 1 */
    int32_t n_top;         /* with TSR_LOG_PROBS: so many likeliest tokens beside */
    uint32_t flags;
    int32_t priority; /* higher first */
    int64_t n_keep;   /* tokens at the front that TSR_SHIFT_CONTEXT keeps */
    const char* client;
    double deadline_s; /* seconds from now; 0: none */
    /* Called on the engine's thread, one at a time; they return soon and call nothing of the engine.
     * on_finish comes once for each completion, last. */
    void (*on_delta)(void* user, const tsr_delta* delta);
    void (*on_finish)(void* user, const tsr_outcome* outcome);
    void* user;
} tsr_request_options;

/* Copies all it is given. *request may be NULL when it is never to be waited for or cancelled. */
TSR_API tsr_status tsr_engine_submit(tsr_engine* engine, const tsr_request_options* options,
                                     tsr_request** request, tsr_error* error);
/* Its completions end soon. */
TSR_API void tsr_request_cancel(tsr_request* request);
/* Returns when all completions have ended. Not to be called from a callback. */
TSR_API void tsr_request_wait(const tsr_request* request);
TSR_API int tsr_request_done(const tsr_request* request);
/* Lets go of the handle; the request goes on. */
TSR_API void tsr_request_free(tsr_request* request);

typedef struct tsr_engine_stats {
    size_t size;
    int64_t n_running, n_waiting;
    int64_t n_pages, n_pages_free, n_pages_cached;
    int64_t n_passes, n_preemptions;
    int64_t n_prompt_tokens, n_cached_tokens, n_generated_tokens;
    double forward_s, other_s;
} tsr_engine_stats;
TSR_API tsr_status tsr_engine_get_stats(const tsr_engine* engine, tsr_engine_stats* stats, tsr_error* error);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_H */
