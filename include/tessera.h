/* tessera: local language models in C.
 *
 * Conventions
 *   - Every function that can fail returns a status and takes, last, a tsr_error that it fills in when the
 *     status is not TSR_OK; NULL there is fine. Nothing aborts, prints or throws, whatever is passed in.
 *   - Structs that callers fill in begin with their size, which TSR_INIT sets. A field of zero means its
 * default, so `tsr_model_options o = TSR_INIT(tsr_model_options);` is a complete set of options, and newer
 * libraries serve older callers.
 *   - Text is UTF-8. (const char*, size_t) pairs need no terminator; lone const char* do.
 *   - Objects are freed by their tsr_*_free(), which accept NULL. A pointer that a function returns belongs
 * to the object it came from, unless the function says otherwise. A model may be freed before its engines and
 * sessions, which keep the parts they need.
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
    TSR_INVALID_ARGUMENT = 1, /* a pointer, option or value is not allowed */
    TSR_NOT_FOUND = 2,        /* a file, key or name does not exist */
    TSR_MALFORMED = 3,        /* a file or text breaks its format */
    TSR_UNSUPPORTED = 4,      /* well-formed, but not supported by this library */
    TSR_OUT_OF_MEMORY = 5,
    TSR_IO = 6,        /* the system refused a read, write or map */
    TSR_CANCELLED = 7, /* the caller cancelled it */
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

/* Initializes a variable of a struct that begins with its size. */
#ifdef __cplusplus
} /* extern "C" */
namespace tessera_api {
template <class Struct>
inline Struct init() {
    Struct out = Struct();
    out.size = sizeof out;
    return out;
}
} /* namespace tessera_api */
extern "C" {
#define TSR_INIT(type) ::tessera_api::init<type>()
#else
#define TSR_INIT(type) \
    { .size = sizeof(type) }
#endif

#define TSR_ABI_VERSION 1
/* "0.1.0", and the version of this interface that the library was built with. */
TSR_API const char* tsr_version(void);
TSR_API int tsr_abi_version(void);

/* Whether this library has a feature: "chat", "convert", "embedding_requests", "embeddings",
 * "grammar", "infill", "plan", "reasoning_budget", "tools". 0 for an unknown name. An earlier
 * version of the library ignores option fields that were added later: check the feature before relying on
 * such a field. */
TSR_API int tsr_has_feature(const char* name);

typedef enum tsr_list {
    TSR_LIST_ARCHITECTURES = 0,  /* model architectures: "llama" */
    TSR_LIST_TENSOR_TYPES = 1,   /* tensor types that can be read: "q4_k" */
    TSR_LIST_QUANTIZATIONS = 2,  /* types that tsr_quantize writes: "Q4_K_M" */
    TSR_LIST_ISAS = 3,           /* instruction sets usable on this processor, best first */
    TSR_LIST_CACHE_TYPES = 4,    /* types of the KV cache */
    TSR_LIST_CHAT_TEMPLATES = 5, /* built-in templates */
    TSR_LIST_ANSWER_FORMATS = 6, /* formats that tsr_parser reads */
    TSR_LIST_SAMPLERS = 7,       /* in the order of the sampler chain */
    TSR_LIST_FEATURES = 8
} tsr_list;
/* Name i of a list, valid for the life of the process. TSR_NOT_FOUND past the last. */
TSR_API tsr_status tsr_list_name(tsr_list list, size_t i, const char** name, tsr_error* error);

/* Messages of the library: level 0 error, 1 warning, 2 information. NULL: none (the default). The callback
 * may be called from any thread that uses the library. Do not change it while other functions run. */
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

/* Progress in bytes: done so far, and in total. A result other than 0 ends the work with TSR_CANCELLED.
 * Called on the caller's thread. */
typedef int (*tsr_progress_fn)(void* user, uint64_t done, uint64_t total);

typedef struct tsr_plan_options {
    size_t size;
    int64_t n_ctx;     /* context of one sequence, in tokens; 0: the model's, at most 4096 */
    int64_t n_batch;   /* largest batch, in tokens; 0: 512 */
    int64_t n_slots;   /* sequences; 0: 1 */
    int32_t n_threads; /* 0: the physical cores that the process may use */
    int32_t precise;   /* as for tsr_model_load */
    int32_t session;   /* not 0: plan for sessions; else for an engine's requests, which keep less of
                          sliding-window layers */
    const char* isa;
    const char* k_type; /* of the KV cache; NULL: f16 */
    const char* v_type;
} tsr_plan_options;

/* Offloading to an emulated NPU (docs/guide/npu.md): the results are those of the device, the times are not.
 * If the NPU holds the KV cache, an engine computes one request at a time, and sessions cannot be saved. */
typedef struct tsr_npu_options {
    size_t size;
    const char* file;    /* a compiled model; NULL: compile with the fields up to `offload` */
    const char* device;  /* a name that `tessera npu devices` lists, or a file */
    const char* ranges;  /* the file that `tessera npu calibrate` wrote for this model */
    const char* recipe;  /* a name, or a file; NULL: w4a16 */
    const char* offload; /* "blk.0-15.ffn,output"; NULL: everything the device supports */
    int32_t strict;      /* not 0: TSR_UNSUPPORTED if a selected operation stays on the CPU */
    int32_t fast;        /* not 0: skip the copies through the NPU's memory; same bits, less time */
    /* Phases to offload: "prefill" (prompts), "decode" (tokens that an engine generates), "both" or "auto".
     * All tokens of a session count as prefill. If the NPU holds the KV cache, only both or auto is allowed.
     * NULL: both. */
    const char* phase;
} tsr_npu_options;

typedef struct tsr_model_options {
    size_t size;
    int32_t n_threads;        /* for loading; 0: the physical cores that the process may use */
    int32_t precise;          /* not 0: float activations instead of int8; slower, more precise */
    const char* isa;          /* instruction set by name; NULL: TESSERA_ISA, or the best of this processor */
    tsr_progress_fn progress; /* while weights are prepared */
    void* user;
    /* Intended use. If the memory estimate for it exceeds the available memory, loading fails with
     * TSR_OUT_OF_MEMORY before any weights are loaded, with the estimate as the message. Its isa, precise
     * and n_threads are ignored. NULL: no check. */
    const tsr_plan_options* must_fit;
    const tsr_npu_options* npu; /* for all sessions and engines of the model; NULL: none */
    /* "KEY=TYPE:VALUE" with the type int, float, bool or str: used instead of the file's value of the key.
     * Not for keys that describe the container itself. The NPU computes the same overridden model. */
    const char* const* overrides;
    size_t n_overrides;
    int32_t check; /* not 0: fails with TSR_MALFORMED if a weight is infinite or NaN; reads all of the file */
    /* not 0: OpenBLAS computes float products (weights in F32, F16 and BF16; with `precise` all) of 32 tokens
     * and more: results are equal within float rounding, not bit by bit. TSR_UNSUPPORTED without OpenBLAS. */
    int32_t blas;
} tsr_model_options;

/* A GGUF file, or the first part of a split one. *model is NULL on failure. options may be NULL. */
TSR_API tsr_status tsr_model_load(const char* path, const tsr_model_options* options, tsr_model** model,
                                  tsr_error* error);
TSR_API void tsr_model_free(tsr_model* model);

/* Memory use in bytes with a full context and the largest batch. */
typedef struct tsr_plan {
    size_t size;
    uint64_t process; /* resident already */
    uint64_t packed;  /* weights in allocated memory */
    uint64_t mapped;  /* weights in the mapped file, at most */
    uint64_t cache;   /* keys and values, and the state of recurrent layers */
    uint64_t activations, scratch, sampling;
    uint64_t total;
    uint64_t available; /* memory available to this process; 0: unknown */
    int32_t fits;       /* not 0: total - process <= available, or available is unknown */
} tsr_plan;

/* Estimates the memory that a model needs, without loading it. options may be NULL. */
TSR_API tsr_status tsr_plan_memory(const char* path, const tsr_plan_options* options, tsr_plan* plan,
                                   tsr_error* error);

typedef struct tsr_model_info {
    size_t size;
    const char* architecture; /* "llama"; lives as long as the model */
    const char* type;         /* most common type of the weights, "q4_k" */
    const char* isa;          /* instruction set in use */
    int64_t n_params;
    int64_t n_ctx_train;                        /* positions it was trained for */
    int64_t n_embd, n_layer, n_head, n_head_kv; /* heads: the most of any layer */
    int32_t n_vocab;
    int32_t bos, eos; /* -1: none */
    int64_t n_bytes;  /* of its files */
} tsr_model_info;

/* Fills in the fields that info->size covers. */
TSR_API tsr_status tsr_model_get_info(const tsr_model* model, tsr_model_info* info, tsr_error* error);
/* A metadata value as text; value->data is NULL if the file has no such key. Free it with tsr_text_free. */
TSR_API tsr_status tsr_model_metadata(const tsr_model* model, const char* key, tsr_text* value,
                                      tsr_error* error);

/* ---- Text and tokens --------------------------------------------------------------------------------- */

enum {
    TSR_ADD_SPECIAL = 1,   /* add BOS and EOS where the model wants them */
    TSR_PARSE_SPECIAL = 2, /* parse text such as <|im_end|> as the special token it names */
    TSR_SHOW_SPECIAL = 4   /* include the text of special tokens */
};

/* Writes the token ids of a text to ids[capacity]; *n_ids is always set to their number. If that exceeds
 * capacity, nothing is written and the status is TSR_INVALID_ARGUMENT, unless ids is NULL, which only counts.
 */
TSR_API tsr_status tsr_tokenize(const tsr_model* model, const char* text, size_t n, uint32_t flags,
                                int32_t* ids, size_t capacity, size_t* n_ids, tsr_error* error);
/* Valid UTF-8. Unknown ids are an error. */
TSR_API tsr_status tsr_detokenize(const tsr_model* model, const int32_t* ids, size_t n, uint32_t flags,
                                  tsr_text* text, tsr_error* error);
/* The bytes that a token stands for, valid as long as the model. They need not be valid UTF-8. */
TSR_API tsr_status tsr_token_bytes(const tsr_model* model, int32_t id, const char** bytes, size_t* n,
                                   tsr_error* error);
/* Whether this token ends the generation (EOG). */
TSR_API int tsr_is_end(const tsr_model* model, int32_t id);

/* Another file of the repository as context, for models trained on whole repositories. */
typedef struct tsr_infill_file {
    const char* name; /* may be NULL */
    const char* text;
    size_t n_text;
} tsr_infill_file;

/* A text with a gap (fill-in-the-middle). Its parts are plain text: special tokens are not parsed. */
typedef struct tsr_infill {
    size_t size;
    const char* prefix; /* text before the gap */
    size_t n_prefix;
    const char* suffix; /* text after the gap */
    size_t n_suffix;
    const char* middle; /* text already written into the gap */
    size_t n_middle;
    const tsr_infill_file* files;
    size_t n_files;
    const char* name;     /* of the file with the gap; NULL: none */
    const char* repo;     /* NULL: none */
    int32_t suffix_first; /* not 0: suffix before prefix (SPM order) */
} tsr_infill;

/* The fill-in-the-middle prompt, returned as by tsr_tokenize. TSR_UNSUPPORTED if the vocabulary has no tokens
 * for it. */
TSR_API tsr_status tsr_infill_tokens(const tsr_model* model, const tsr_infill* infill, int32_t* ids,
                                     size_t capacity, size_t* n_ids, tsr_error* error);

/* ---- Sampling ---------------------------------------------------------------------------------------- */

/* A sampling parameter by name, with its value as text: {"temperature", "0.8"}. The names are those of
 * docs/reference/sampling.md; tsr_sampling_param lists them. A parameter that is not given has the model
 * file's default, if the file has one, else the library's. */
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
    const char* default_text; /* of texts */
} tsr_param_info;
/* Parameter i in order, with the library's default; TSR_NOT_FOUND past the last. */
TSR_API tsr_status tsr_sampling_param(size_t i, tsr_param_info* info, tsr_error* error);
/* The same with the model file's default; its text is valid as long as the model. */
TSR_API tsr_status tsr_model_sampling_param(const tsr_model* model, size_t i, tsr_param_info* info,
                                            tsr_error* error);

/* ---- Chat: dialogues to prompts, answers to messages -------------------------------------------------- */

/* A chat template ready for use. Any thread. */
typedef struct tsr_chat tsr_chat;

typedef struct tsr_chat_options {
    size_t size;
    /* A Jinja template, or the name of a built-in one (TSR_LIST_CHAT_TEMPLATES); a broken one is an error.
     * NULL: the model's own; ChatML with a warning in the log if the model has none or a broken one. */
    const char* template_text;
    const char* template_name;
    const char* format; /* format of answers, by name; NULL: the one that matches the template */
} tsr_chat_options;

TSR_API tsr_status tsr_chat_create(const tsr_model* model, const tsr_chat_options* options, tsr_chat** chat,
                                   tsr_error* error);
TSR_API void tsr_chat_free(tsr_chat* chat);

/* Capabilities of a template, found by rendering probes. Dialogues are adapted to missing ones. The texts are
 * valid as long as the chat. */
typedef struct tsr_chat_info {
    size_t size;
    const char* source;   /* of the template */
    const char* format;   /* of answers: "hermes" */
    const char* turn_end; /* text that ends an assistant turn: "<|im_end|>"; empty: unknown */
    /* turn_end if it is not an end-of-generation token: pass it as a stop string. Else NULL. */
    const char* stop;
    const char* warning;  /* why ChatML replaces the model's template; NULL: it does not */
    int32_t system;       /* renders system messages */
    int32_t tools;        /* renders the list of tools */
    int32_t tool_calls;   /* renders the tool calls of earlier turns */
    int32_t tool_results; /* renders tool results */
    int32_t parts;        /* accepts content as a list of parts */
    int32_t thinking;     /* reasoning can be switched off and on */
    /* whether tsr_grammar_create_tools can constrain calls: 0 never, 2 always */
    int32_t enforced_calls;
} tsr_chat_info;
TSR_API tsr_status tsr_chat_get_info(const tsr_chat* chat, tsr_chat_info* info, tsr_error* error);

/* Values of switches that have a default. */
enum { TSR_DEFAULT = 0, TSR_YES = 1, TSR_NO = -1 };

typedef struct tsr_dialogue {
    size_t size;
    /* JSON: a list of messages in OpenAI's form, or an object with `messages` and, if the fields below are
     * not set, `tools`, `chat_template_kwargs`, ...: the members in docs/guide/templates.md. */
    const char* messages;
    const char* tools;             /* JSON: a list */
    const char* kwargs;            /* JSON: an object with further variables of the template */
    int32_t add_generation_prompt; /* TSR_DEFAULT: yes, unless continue_last */
    int32_t continue_last;         /* continue the last message, the assistant's; TSR_DEFAULT: no */
    int32_t enable_thinking;       /* TSR_DEFAULT: the template decides */
    const char* now;               /* "2026-08-22T10:20:30"; NULL: the current time */
} tsr_dialogue;

/* A dialogue as text and tokens. Immutable; any thread. */
typedef struct tsr_prompt tsr_prompt;

/* Errors name the place: "messages[2].content: ...". */
TSR_API tsr_status tsr_chat_render(const tsr_chat* chat, const tsr_dialogue* dialogue, tsr_prompt** prompt,
                                   tsr_error* error);
TSR_API void tsr_prompt_free(tsr_prompt* prompt);

/* The pointers are valid as long as the prompt. */
typedef struct tsr_prompt_info {
    size_t size;
    const char* text;
    size_t n_text;
    const int32_t* tokens; /* with one BOS token, if the model wants it */
    size_t n_tokens;
    const char* opening; /* the end of the text that already belongs to the answer */
    const char* notes;   /* changes made to fit the dialogue to the template, one per line */
} tsr_prompt_info;
TSR_API tsr_status tsr_prompt_get_info(const tsr_prompt* prompt, tsr_prompt_info* info, tsr_error* error);

/* Parses an answer as it streams. Its input must show special tokens (TSR_SHOW_SPECIAL_TEXT), which many
 * formats use. The result does not depend on how the text is split. One thread at a time. */
typedef struct tsr_parser tsr_parser;

enum {
    TSR_PARSER_NO_CALLS = 1, /* tool calls are not parsed: they are content */
    /* Reasoning is content, with its marks, including a mark at the end of the opening. */
    TSR_PARSER_KEEP_REASONING = 2
};

typedef struct tsr_parser_options {
    size_t size;
    const tsr_prompt* prompt; /* the prompt of the answer; may be NULL, and be freed before the parser */
    /* These are taken from the prompt if NULL. */
    const char* format;   /* by name; without a prompt: "plain" */
    const char* tools;    /* JSON: a list; gives the types of arguments */
    const char* opening;  /* see tsr_prompt_info */
    const char* turn_end; /* see tsr_chat_info */
    /* not 0: a call with JSON arguments is streamed as TSR_PIECE_CALL_BEGIN and TSR_PIECE_CALL_ARGUMENTS
     * while it is generated; it counts as a call from then on, even if it stays incomplete */
    int32_t stream_calls;
    uint64_t flags; /* TSR_PARSER_* */
} tsr_parser_options;

TSR_API tsr_status tsr_parser_create(const tsr_parser_options* options, tsr_parser** parser,
                                     tsr_error* error);
TSR_API void tsr_parser_free(tsr_parser* parser);

/* Appends text of the answer; then call tsr_parser_next() until it returns TSR_PIECE_NONE. */
TSR_API tsr_status tsr_parser_push(tsr_parser* parser, const char* text, size_t n, tsr_error* error);
/* Ends the answer: text that was held back is released. Nothing may be pushed afterwards. */
TSR_API tsr_status tsr_parser_finish(tsr_parser* parser, tsr_error* error);

typedef enum tsr_piece_kind {
    TSR_PIECE_NONE = 0,
    TSR_PIECE_CONTENT = 1,
    TSR_PIECE_REASONING = 2,
    TSR_PIECE_CALL = 3,
    TSR_PIECE_CALL_BEGIN = 4,
    TSR_PIECE_CALL_ARGUMENTS = 5
} tsr_piece_kind;

typedef struct tsr_call {
    const char* id;        /* as the model gave it; empty in most formats */
    const char* name;      /* of the function */
    const char* arguments; /* a JSON object; incomplete if a streamed call was cut off */
} tsr_call;

/* Valid until the parser is used again. */
typedef struct tsr_piece {
    size_t size;
    tsr_piece_kind kind;
    const char* text; /* TSR_PIECE_CONTENT, TSR_PIECE_REASONING, TSR_PIECE_CALL_ARGUMENTS */
    size_t n_text;
    size_t call_index; /* index of the call */
    tsr_call call;     /* TSR_PIECE_CALL: complete; TSR_PIECE_CALL_BEGIN: id and name */
} tsr_piece;
/* The next parsed piece, in order; kind is TSR_PIECE_NONE when more text is needed. */
TSR_API tsr_status tsr_parser_next(tsr_parser* parser, tsr_piece* piece, tsr_error* error);

/* Everything parsed so far. Valid until the parser is used again. */
typedef struct tsr_answer {
    size_t size;
    const char* content;
    size_t n_content;
    const char* reasoning;
    size_t n_reasoning;
    const tsr_call* calls;
    size_t n_calls;
    const char* notes; /* calls that could not be parsed, one per line */
} tsr_answer;
TSR_API tsr_status tsr_parser_answer(tsr_parser* parser, tsr_answer* answer, tsr_error* error);

/* ---- Grammars: constrained output ---------------------------------------------------------------------- */

/* Compiled once, for any number of requests and sessions of any model. Immutable; any thread. Token masks for
 * a vocabulary are cached in the handle: reuse it. */
typedef struct tsr_grammar tsr_grammar;

typedef enum tsr_grammar_kind {
    TSR_GRAMMAR_GBNF = 1,
    TSR_GRAMMAR_REGEX = 2, /* matches the whole text */
    TSR_GRAMMAR_JSON_SCHEMA = 3,
    TSR_GRAMMAR_JSON_OBJECT = 4 /* any JSON object; text is not used */
} tsr_grammar_kind;

typedef struct tsr_grammar_options {
    size_t size;
    tsr_grammar_kind kind;
    const char* text;
    size_t n_text;
    int32_t compact_json; /* not 0: no white space in JSON */
    const tsr_prompt*
        prompt; /* the prompt of the answer, which may begin with reasoning; NULL: no reasoning */
} tsr_grammar_options;

/* TSR_MALFORMED: a syntax error; the message has line and column, the position, or the JSON pointer.
 * TSR_UNSUPPORTED: a part, named in the message, cannot be enforced. TSR_INVALID_ARGUMENT: nothing satisfies
 * it. docs/guide/structured-output.md describes the languages. */
TSR_API tsr_status tsr_grammar_create(const tsr_grammar_options* options, tsr_grammar** grammar,
                                      tsr_error* error);

/* Tool calls: free text until a call begins, then a call of one of the tools with arguments that satisfy its
 * schema. */
typedef struct tsr_tool_grammar_options {
    size_t size;
    /* The prompt gives the tools and the call format; TSR_UNSUPPORTED if calls of that format cannot be
     * enforced (tsr_chat_info). NULL: the fields from `tools` on are used. */
    const tsr_prompt* prompt;
    int32_t required;            /* not 0: the answer is a call, after reasoning that the prompt opened */
    int32_t parallel;            /* not 0: several calls are allowed */
    const char* function;        /* the one tool that may be called; NULL: any */
    int32_t compact_json;        /* not 0: no white space in JSON */
    const char* tools;           /* JSON: a list; NULL: the prompt's */
    const char* const* triggers; /* texts that begin a call; n_triggers 0: those of the prompt's format */
    size_t n_triggers;
    const char* before;    /* text between trigger and JSON; only with the caller's triggers */
    const char* after;     /* text behind the JSON */
    const char* separator; /* between a call and the next trigger; NULL: a line break */
    int32_t none;          /* not 0: no call, although there are tools; overrides the other fields */
} tsr_tool_grammar_options;

TSR_API tsr_status tsr_grammar_create_tools(const tsr_tool_grammar_options* options, tsr_grammar** grammar,
                                            tsr_error* error);
TSR_API void tsr_grammar_free(tsr_grammar* grammar);

/* ---- Sessions: one text, token by token -------------------------------------------------------------- */

typedef struct tsr_session tsr_session;

typedef struct tsr_session_options {
    size_t size;
    int64_t n_ctx;      /* context in tokens; 0: the model's, at most 4096 */
    int64_t n_batch;    /* largest batch, in tokens; 0: 512. Never changes results */
    int32_t n_threads;  /* 0: the physical cores that the process may use. Never changes results */
    const char* k_type; /* of the KV cache: "f32", "f16", "q8_0", "q4_0"; NULL: f16 */
    const char* v_type;
    const tsr_param* sampling;
    size_t n_sampling;
} tsr_session_options;

TSR_API tsr_status tsr_session_create(const tsr_model* model, const tsr_session_options* options,
                                      tsr_session** session, tsr_error* error);
TSR_API void tsr_session_free(tsr_session* session);

/* Appends tokens and computes the logits of the last. On failure the text is unchanged; after TSR_CANCELLED
 * there are no logits. */
TSR_API tsr_status tsr_session_eval(tsr_session* session, const int32_t* tokens, size_t n, tsr_error* error);
/* Replaces the session's text by these tokens: the common prefix is kept, the rest computed. *n_kept is the
 * number of tokens that were not computed again: the length of that prefix, or less if the model has
 * recurrent layers, which continue from a checkpoint. n_kept may be NULL. */
TSR_API tsr_status tsr_session_sync(tsr_session* session, const int32_t* tokens, size_t n, size_t* n_kept,
                                    tsr_error* error);
/* Removes all tokens from position n on. A model with recurrent layers goes back to a checkpoint; the next
 * evaluation computes the tokens from there to n again. */
TSR_API tsr_status tsr_session_truncate(tsr_session* session, int64_t n, tsr_error* error);
TSR_API int64_t tsr_session_n_tokens(const tsr_session* session);
TSR_API int64_t tsr_session_n_ctx(const tsr_session* session);

/* Logits of the last token, *n_vocab floats, valid until the session is used again. */
TSR_API tsr_status tsr_session_logits(const tsr_session* session, const float** logits, size_t* n_vocab,
                                      tsr_error* error);
/* Samples a token from the logits. It becomes part of the text only when it is evaluated. */
TSR_API tsr_status tsr_session_sample(tsr_session* session, int32_t* id, tsr_error* error);
/* Samples a token, evaluates it and returns it: one decode step. */
TSR_API tsr_status tsr_session_step(tsr_session* session, int32_t* id, tsr_error* error);

/* Constrains all further tokens to the grammar: sampling masks other tokens, and evaluating one fails with
 * TSR_INVALID_ARGUMENT. tsr_session_truncate rolls the grammar back with the text; tsr_session_sync,
 * tsr_session_restore, tsr_session_embed and NULL end the constraint. When the grammar is complete, sampling
 * returns an end-of-generation token, or fails if the vocabulary has none. */
TSR_API tsr_status tsr_session_constrain(tsr_session* session, const tsr_grammar* grammar, tsr_error* error);

/* From any thread: the running evaluation, or else the next one, ends with TSR_CANCELLED. */
TSR_API void tsr_session_cancel(tsr_session* session);

typedef enum tsr_pooling {
    TSR_POOLING_DEFAULT = 0, /* as the model's file says, else the last token */
    TSR_POOLING_LAST = 1,
    TSR_POOLING_MEAN = 2
} tsr_pooling;

typedef struct tsr_embed_options {
    size_t size;
    tsr_pooling pooling;
    int32_t raw; /* not 0: not normalised; else divided by its Euclidean norm */
} tsr_embed_options;

/* The embedding of a text: the model's normed hidden state of the last token, or the mean of all, n_embd
 * floats (tsr_model_info), into out[capacity]. The same bits for any n_batch and number of threads. The
 * session is empty afterwards. options may be NULL. */
TSR_API tsr_status tsr_session_embed(tsr_session* session, const int32_t* tokens, size_t n,
                                     const tsr_embed_options* options, float* out, size_t capacity,
                                     tsr_error* error);

/* Saves the text, its KV cache and the state of recurrent layers to a file, and restores them into a session
 * of the same model and cache types. A file that is truncated, changed or of another model is refused. The
 * file appears when complete. */
TSR_API tsr_status tsr_session_save(const tsr_session* session, const char* path, tsr_error* error);
TSR_API tsr_status tsr_session_restore(tsr_session* session, const char* path, tsr_error* error);

/* ---- Engines: many requests at once ------------------------------------------------------------------ */

typedef struct tsr_engine tsr_engine;
typedef struct tsr_request tsr_request;

typedef struct tsr_engine_options {
    size_t size;
    int64_t n_ctx;       /* context of one request, in tokens; 0: the model's, at most 4096 */
    uint64_t kv_bytes;   /* KV cache and recurrent state of all requests; 0: max_running contexts */
    int64_t n_batch;     /* largest batch, in tokens; 0: 512 */
    int64_t max_running; /* requests computed together; 0: 8 */
    int64_t max_queue;   /* requests that may wait; 0: 256 */
    int32_t n_threads;   /* 0: the physical cores that the process may use */
    const char* k_type;  /* of the KV cache, as for sessions */
    const char* v_type;
} tsr_engine_options;

TSR_API tsr_status tsr_engine_create(const tsr_model* model, const tsr_engine_options* options,
                                     tsr_engine** engine, tsr_error* error);
/* Cancels open requests and waits for the running batch. Do not call it from a callback. */
TSR_API void tsr_engine_free(tsr_engine* engine);

typedef enum tsr_finish {
    TSR_FINISH_END = 0,         /* end-of-generation token */
    TSR_FINISH_STOP_STRING = 1, /* a stop string was reached; it is not part of the text */
    TSR_FINISH_LENGTH = 2,      /* max_tokens */
    TSR_FINISH_CONTEXT_FULL = 3,
    TSR_FINISH_CANCELLED = 4,
    TSR_FINISH_DEADLINE = 5,
    TSR_FINISH_FAILED = 6, /* see error */
    TSR_FINISH_INDENT = 7  /* the next line is indented less than n_indent */
} tsr_finish;

typedef struct tsr_token_prob {
    int32_t id;
    float log_p; /* natural logarithm of the probability before sampling parameters */
} tsr_token_prob;

/* A token and the text released with it: whole characters; empty while the end of the text may be the start
 * of a stop string. */
typedef struct tsr_delta {
    size_t size;
    int32_t completion; /* 0 .. n_completions - 1 */
    int32_t id;         /* -1: text only, at the end */
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
    int64_t n_prompt, n_cached, n_generated; /* cached: prompt tokens taken from the prefix cache */
    int64_t n_shifted;                       /* tokens dropped because the context was full */
    double queue_s, prompt_s, decode_s;      /* seconds: waiting; until the first token; decoding */
    const char* error;                       /* with TSR_FINISH_FAILED */
    const float* embedding;                  /* with TSR_FINISH_END, if requested; else NULL */
    size_t n_embedding;
} tsr_outcome;

enum {
    TSR_IGNORE_END = 1,        /* ignore end-of-generation tokens */
    TSR_SHOW_SPECIAL_TEXT = 2, /* special tokens appear in the text */
    TSR_SHIFT_CONTEXT = 4,     /* a full context drops its older half instead of ending */
    TSR_LOG_PROBS = 8,
    TSR_FITS_CONTEXT = 16,   /* refuse at once if prompt and max_tokens exceed the context together */
    TSR_PROMPT_ONLY = 32,    /* generate nothing: prefill the prompt into the prefix cache */
    TSR_NO_PREFIX_CACHE = 64 /* do not use the prefix cache: compute the whole prompt */
};

typedef struct tsr_request_options {
    size_t size;
    const int32_t* tokens; /* the prompt, at least one */
    size_t n_tokens;
    int64_t max_tokens; /* 0: no limit */
    const tsr_param* sampling;
    size_t n_sampling;
    const char* const* stop; /* none of them empty */
    size_t n_stop;
    int32_t n_completions; /* 0: 1 */
    int32_t n_top;         /* with TSR_LOG_PROBS: number of top alternatives per token */
    uint32_t flags;
    int32_t priority; /* higher first */
    int64_t n_keep;   /* leading tokens that TSR_SHIFT_CONTEXT keeps */
    const char* client;
    double deadline_s; /* seconds from now; 0: none */
    /* Called on the engine's thread, one at a time. They must return soon and call no engine function.
     * on_finish is the last call for each completion. */
    void (*on_delta)(void* user, const tsr_delta* delta);
    void (*on_finish)(void* user, const tsr_outcome* outcome);
    void* user;
    const tsr_grammar* grammar; /* constrains the output; NULL: no constraint */
    /* Prefill progress: first with the cached tokens when a completion begins, then after each batch that
     * contains prompt tokens. */
    void (*on_prompt)(void* user, int32_t completion, int64_t n_read, int64_t n_prompt);
    /* Reasoning budget of a completion in tokens, after which the end of reasoning is forced; 0: no limit,
     * -1: no reasoning. Needs `prompt`; no effect if its model does not mark reasoning. */
    int64_t max_reasoning;
    const tsr_prompt* prompt; /* the prompt of the answer; may be freed after the call */
    /* Compute the prompt's embedding instead of text: on_finish delivers the same bits as tsr_session_embed.
     * A grammar or several completions are an error; sampling options are ignored. NULL: generate text. */
    const tsr_embed_options* embed;
    /* A completion ends before a line, except the first, that is indented by fewer than n_indent spaces and
     * tabs; blank lines do not count. 0: off. */
    int64_t n_indent;
} tsr_request_options;

/* Copies the options. request may be NULL if the request need not be awaited or cancelled. */
TSR_API tsr_status tsr_engine_submit(tsr_engine* engine, const tsr_request_options* options,
                                     tsr_request** request, tsr_error* error);
/* Cancels the request: its completions end soon, with TSR_FINISH_CANCELLED. */
TSR_API void tsr_request_cancel(tsr_request* request);
/* Returns when all completions have ended. Do not call it from a callback. */
TSR_API void tsr_request_wait(const tsr_request* request);
TSR_API int tsr_request_done(const tsr_request* request);
/* Releases the handle; the request continues. */
TSR_API void tsr_request_free(tsr_request* request);

typedef struct tsr_engine_stats {
    size_t size;
    int64_t n_running, n_waiting;
    int64_t n_pages, n_pages_free, n_pages_cached;
    int64_t n_passes, n_preemptions;
    int64_t n_prompt_tokens, n_cached_tokens, n_generated_tokens;
    double forward_s, other_s;
    int64_t n_ctx;     /* context of one request, in tokens */
    uint64_t kv_bytes; /* size of the KV cache, with recurrent state */
} tsr_engine_stats;
TSR_API tsr_status tsr_engine_get_stats(const tsr_engine* engine, tsr_engine_stats* stats, tsr_error* error);

/* ---- Model files --------------------------------------------------------------------------------------- */

/* Output files appear under their names when they are complete, and not at all otherwise. */

typedef struct tsr_quantize_options {
    size_t size;
    const char* type;             /* TSR_LIST_QUANTIZATIONS: "Q4_K_M" */
    const char* imatrix;          /* file with an importance matrix; NULL: none */
    const char* output_type;      /* of the output matrix; NULL: chosen by `type` */
    const char* embedding_type;   /* of the token embeddings; NULL: chosen by `type` */
    const char* const* overrides; /* "PATTERN=TYPE": tensors whose name the regular expression matches */
    size_t n_overrides;
    int32_t pure;             /* not 0: one type for all matrices */
    int32_t allow_requantize; /* not 0: accept weights that are already quantized; quality suffers twice */
    int32_t n_threads;        /* 0: the physical cores that the process may use */
    tsr_progress_fn progress;
    void* user;
} tsr_quantize_options;

/* Writes a model with its weights in other types. */
TSR_API tsr_status tsr_quantize(const char* in, const char* out, const tsr_quantize_options* options,
                                tsr_error* error);
/* The exact size in bytes of the file that tsr_quantize would write. */
TSR_API tsr_status tsr_quantized_size(const char* in, const tsr_quantize_options* options, uint64_t* n_bytes,
                                      tsr_error* error);

typedef struct tsr_convert_options {
    size_t size;
    const char* type;             /* TSR_LIST_QUANTIZATIONS; NULL: BF16 or F16, as the folder has */
    const char* pre;              /* the pre-tokenizer; NULL: detected from tokenizer.json */
    const char* const* overrides; /* "PATTERN=TYPE" */
    size_t n_overrides;
    int32_t pure;             /* not 0: one type for all matrices */
    int32_t allow_requantize; /* not 0: MXFP4 matrices are requantized to the type as well */
    int32_t packed;           /* not 0: a packed model, as tsr_pack writes it */
    int32_t n_threads;        /* 0: the physical cores that the process may use */
    tsr_progress_fn progress; /* with `packed` it runs twice: converting, packing */
    void* user;
} tsr_convert_options;

/* Converts a Hugging Face folder (config.json, safetensors files, tokenizer) to a GGUF model. options may be
 * NULL. */
TSR_API tsr_status tsr_convert(const char* folder, const char* out, const tsr_convert_options* options,
                               tsr_error* error);

typedef struct tsr_pack_options {
    size_t size;
    int32_t n_threads;
    tsr_progress_fn progress;
    void* user;
} tsr_pack_options;

/* Packs a model: weights in the kernels' order, so that loading is a plain mmap. tsr_unpack restores the
 * original file byte for byte. options may be NULL. */
TSR_API tsr_status tsr_pack(const char* in, const char* out, const tsr_pack_options* options,
                            tsr_error* error);
TSR_API tsr_status tsr_unpack(const char* in, const char* out, const tsr_pack_options* options,
                              tsr_error* error);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_H */
