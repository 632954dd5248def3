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

/* Whether the library at hand can do this: "chat", "convert", "embedding_requests", "embeddings",
 * "grammar", "infill", "plan", "reasoning_budget", "tools". 0 for a name that it does not know. A library of
 * an earlier version ignores option fields that came later, so who can do without asks first. */
TSR_API int tsr_has_feature(const char* name);

typedef enum tsr_list {
    TSR_LIST_ARCHITECTURES = 0,  /* of models that are run */
    TSR_LIST_TENSOR_TYPES = 1,   /* of weights that are read: "q4_k" */
    TSR_LIST_QUANTIZATIONS = 2,  /* what tsr_quantize writes: "Q4_K_M" */
    TSR_LIST_ISAS = 3,           /* instruction sets that this processor can use, the best first */
    TSR_LIST_CACHE_TYPES = 4,    /* of keys and values */
    TSR_LIST_CHAT_TEMPLATES = 5, /* of our own, by name */
    TSR_LIST_ANSWER_FORMATS = 6, /* that tsr_parser reads */
    TSR_LIST_SAMPLERS = 7,       /* in the order in which they take part */
    TSR_LIST_FEATURES = 8
} tsr_list;
/* Name i of a list; it lives for ever. TSR_NOT_FOUND behind the last. */
TSR_API tsr_status tsr_list_name(tsr_list list, size_t i, const char** name, tsr_error* error);

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

/* Work done and in all, in bytes. Not 0 ends the work with TSR_CANCELLED. Called on the caller's thread. */
typedef int (*tsr_progress_fn)(void* user, uint64_t done, uint64_t total);

typedef struct tsr_plan_options {
    size_t size;
    int64_t n_ctx;     /* positions of one sequence; 0: the model's, at most 4096 */
    int64_t n_batch;   /* tokens of one pass; 0: 512 */
    int64_t n_slots;   /* sequences; 0: 1 */
    int32_t n_threads; /* 0: the physical cores that the process may use */
    int32_t precise;   /* as for tsr_model_load */
    int32_t session;   /* not 0: sessions; else requests of an engine, which keep less of windowed layers */
    const char* isa;
    const char* k_type; /* of the cache; NULL: f16 */
    const char* v_type;
} tsr_plan_options;

/* What an emulated NPU computes of a model (docs/guide/npu.md): the results are real, times are not its own.
 * Where it has keys and values, an engine computes one request at a time, and sessions cannot be saved. */
typedef struct tsr_npu_options {
    size_t size;
    const char* file;    /* a compiled model; NULL: it is compiled by the fields up to `offload` */
    const char* device;  /* a name that `tessera npu devices` lists, or a file */
    const char* ranges;  /* the file that `tessera npu calibrate` wrote for this model */
    const char* recipe;  /* a name, or a file; NULL: w4a16 */
    const char* offload; /* "blk.0-15.ffn,output"; NULL: all that the device can compute */
    int32_t strict;      /* not 0: TSR_UNSUPPORTED where something selected stays on the processor */
    int32_t fast;        /* not 0: without the copies through the NPU's memory; the same bits sooner */
    /* Whose tokens: "prefill" of prompts, "decode" of what an engine writes, "both", or "auto". What a
     * session is given is a prompt, however it comes. Where keys and values are the NPU's only both or auto.
     * NULL: both. */
    const char* phase;
} tsr_npu_options;

typedef struct tsr_model_options {
    size_t size;
    int32_t n_threads; /* for loading; 0: the physical cores that the process may use */
    int32_t precise;   /* not 0: float products from the stored weights, slower */
    const char* isa;   /* instruction set by name; NULL: TESSERA_ISA, or the best that the processor has */
    tsr_progress_fn progress; /* while weights are prepared */
    void* user;
    /* What the model is loaded for; TSR_OUT_OF_MEMORY with the plan as its message, before the weights take
     * any, where the system has no room for it. Its isa, precise and n_threads do not count. NULL: do not
     * ask. */
    const tsr_plan_options* must_fit;
    const tsr_npu_options* npu; /* for all sessions and engines of the model; NULL: none */
} tsr_model_options;

/* A GGUF file, or the first part of a split one. *model is NULL on failure. options may be NULL. */
TSR_API tsr_status tsr_model_load(const char* path, const tsr_model_options* options, tsr_model** model,
                                  tsr_error* error);
TSR_API void tsr_model_free(tsr_model* model);

/* Bytes of a model at full use: every position taken, the longest pass. */
typedef struct tsr_plan {
    size_t size;
    uint64_t process; /* resident already */
    uint64_t packed;  /* weights in memory of their own */
    uint64_t mapped;  /* weights where they lie in the file, at most */
    uint64_t cache, activations, scratch, sampling;
    uint64_t total;
    uint64_t available; /* what the system has left for this process; 0: unknown */
    int32_t fits;       /* not 0: total - process is no more than that, or it is unknown */
} tsr_plan;

/* What running a model would take, without loading it. options may be NULL. */
TSR_API tsr_status tsr_plan_memory(const char* path, const tsr_plan_options* options, tsr_plan* plan,
                                   tsr_error* error);

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
    int64_t n_bytes;  /* of its files */
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

/* A file beside the one that is written, for models that were trained on whole repositories. */
typedef struct tsr_infill_file {
    const char* name; /* may be NULL */
    const char* text;
    size_t n_text;
} tsr_infill_file;

/* A text with a gap. Its parts are plain text: no control token is read out of them. */
typedef struct tsr_infill {
    size_t size;
    const char* prefix; /* in front of the gap */
    size_t n_prefix;
    const char* suffix; /* behind it */
    size_t n_suffix;
    const char* middle; /* how the gap is filled so far */
    size_t n_middle;
    const tsr_infill_file* files;
    size_t n_files;
    const char* name;     /* of the file with the gap; NULL: none */
    const char* repo;     /* NULL: none */
    int32_t suffix_first; /* not 0: the suffix stands in front of the prefix */
} tsr_infill;

/* The prompt with which the model fills the gap, as tsr_tokenize returns ids. TSR_UNSUPPORTED where its
 * vocabulary has no tokens for that. */
TSR_API tsr_status tsr_infill_tokens(const tsr_model* model, const tsr_infill* infill, int32_t* ids,
                                     size_t capacity, size_t* n_ids, tsr_error* error);

/* ---- Sampling ---------------------------------------------------------------------------------------- */

/* A sampling parameter by name, with its value as text: {"temperature", "0.8"}. The names are those of
 * docs/reference/sampling.md; tsr_sampling_param lists them. Those that are not given have the default of the
 * model's file, where it has one, and else the library's. */
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
/* Parameter i in order, with the library's default; TSR_NOT_FOUND behind the last. */
TSR_API tsr_status tsr_sampling_param(size_t i, tsr_param_info* info, tsr_error* error);
/* The same with the default that the model's file sets; the text lives as long as the model. */
TSR_API tsr_status tsr_model_sampling_param(const tsr_model* model, size_t i, tsr_param_info* info,
                                            tsr_error* error);

/* ---- Chat: dialogues to prompts, answers to messages -------------------------------------------------- */

/* A chat template ready for use. Any thread. */
typedef struct tsr_chat tsr_chat;

typedef struct tsr_chat_options {
    size_t size;
    /* A template in Jinja, or the name of one of ours (TSR_LIST_CHAT_TEMPLATES); a broken one is an error.
     * NULL: the model's own, or ChatML with a warning in the log where it has none or a broken one. */
    const char* template_text;
    const char* template_name;
    const char* format; /* of answers, by name; NULL: the one that goes with the template */
} tsr_chat_options;

TSR_API tsr_status tsr_chat_create(const tsr_model* model, const tsr_chat_options* options, tsr_chat** chat,
                                   tsr_error* error);
TSR_API void tsr_chat_free(tsr_chat* chat);

/* What a template was seen to take. What it does not, a dialogue is adapted to. The texts live as long as the
 * chat. */
typedef struct tsr_chat_info {
    size_t size;
    const char* source;   /* of the template */
    const char* format;   /* of answers: "hermes" */
    const char* turn_end; /* what ends a turn of the assistant: "<|im_end|>"; empty: unknown */
    /* turn_end, where no token ends the generation there: to be one of a request's stop strings; else NULL */
    const char* stop;
    const char* warning;  /* why ChatML stands in for the model's template; NULL: it does not */
    int32_t system;       /* knows messages of the system */
    int32_t tools;        /* prints the list of tools */
    int32_t tool_calls;   /* prints the calls of earlier turns */
    int32_t tool_results; /* prints what they returned */
    int32_t parts;        /* takes content as a list of parts */
    int32_t thinking;     /* reasoning can be switched off and on */
    /* tsr_grammar_create_tools can hold calls to their form: 0 never, 2 always */
    int32_t enforced_calls;
} tsr_chat_info;
TSR_API tsr_status tsr_chat_get_info(const tsr_chat* chat, tsr_chat_info* info, tsr_error* error);

/* Of fields that may be told or left to a default. */
enum { TSR_DEFAULT = 0, TSR_YES = 1, TSR_NO = -1 };

typedef struct tsr_dialogue {
    size_t size;
    /* JSON: a list of messages in OpenAI's form, or an object with `messages` and, if the fields below are
     * not set, `tools`, `chat_template_kwargs`, ...: the members in docs/guide/templates.md. */
    const char* messages;
    const char* tools;             /* JSON: a list */
    const char* kwargs;            /* JSON: an object with further variables of the template */
    int32_t add_generation_prompt; /* TSR_DEFAULT: yes, but with continue_last */
    int32_t continue_last;         /* the last message, the assistant's, is gone on with; TSR_DEFAULT: no */
    int32_t enable_thinking;       /* TSR_DEFAULT: as the template has it */
    const char* now;               /* "2026-08-22T10:20:30"; NULL: by the clock */
} tsr_dialogue;

/* A dialogue as text and tokens. Immutable; any thread. */
typedef struct tsr_prompt tsr_prompt;

/* Errors name the place: "messages[2].content: ...". */
TSR_API tsr_status tsr_chat_render(const tsr_chat* chat, const tsr_dialogue* dialogue, tsr_prompt** prompt,
                                   tsr_error* error);
TSR_API void tsr_prompt_free(tsr_prompt* prompt);

/* All of it lives as long as the prompt. */
typedef struct tsr_prompt_info {
    size_t size;
    const char* text;
    size_t n_text;
    const int32_t* tokens; /* with the token that begins a text, once */
    size_t n_tokens;
    const char* opening; /* the end of the text that belongs to the answer already */
    const char* notes;   /* what was changed so that the template takes the dialogue, a line each */
} tsr_prompt_info;
TSR_API tsr_status tsr_prompt_get_info(const tsr_prompt* prompt, tsr_prompt_info* info, tsr_error* error);

/* Reads an answer as it streams. What it is given must show control tokens (TSR_SHOW_SPECIAL_TEXT), which
 * many formats are made of. Any way of cutting the text gives the same answer. One thread at a time. */
typedef struct tsr_parser tsr_parser;

enum {
    TSR_PARSER_NO_CALLS = 1, /* what looks like a call is content */
    /* Reasoning is content, with the marks around it: also with the one that the opening ends with. */
    TSR_PARSER_KEEP_REASONING = 2
};

typedef struct tsr_parser_options {
    size_t size;
    const tsr_prompt* prompt; /* whose answer it is; may be NULL, and be freed before the parser */
    /* These come from the prompt where they are NULL. */
    const char* format;   /* by name; without a prompt: "plain" */
    const char* tools;    /* JSON: a list; tells the types of arguments */
    const char* opening;  /* see tsr_prompt_info */
    const char* turn_end; /* see tsr_chat_info */
    /* not 0: a call of one of the tools whose arguments are JSON comes as TSR_PIECE_CALL_BEGIN and
     * TSR_PIECE_CALL_ARGUMENTS while it is written, and is a call from then on, even if it breaks off */
    int32_t stream_calls;
    uint64_t flags; /* of TSR_PARSER_* */
} tsr_parser_options;

TSR_API tsr_status tsr_parser_create(const tsr_parser_options* options, tsr_parser** parser,
                                     tsr_error* error);
TSR_API void tsr_parser_free(tsr_parser* parser);

/* The next text of the answer; then tsr_parser_next() until there is no more. */
TSR_API tsr_status tsr_parser_push(tsr_parser* parser, const char* text, size_t n, tsr_error* error);
/* The answer has ended: what was held back becomes certain. Nothing may be pushed afterwards. */
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
    const char* arguments; /* a JSON object; of a call that was streamed and broke off, its beginning */
} tsr_call;

/* Valid until the parser is used again. */
typedef struct tsr_piece {
    size_t size;
    tsr_piece_kind kind;
    const char* text; /* TSR_PIECE_CONTENT, TSR_PIECE_REASONING, TSR_PIECE_CALL_ARGUMENTS */
    size_t n_text;
    size_t call_index; /* of calls */
    tsr_call call;     /* TSR_PIECE_CALL: all of it; TSR_PIECE_CALL_BEGIN: id and name */
} tsr_piece;
/* What has become certain, in order; kind is TSR_PIECE_NONE when there is no more for now. */
TSR_API tsr_status tsr_parser_next(tsr_parser* parser, tsr_piece* piece, tsr_error* error);

/* All that is certain so far. Valid until the parser is used again. */
typedef struct tsr_answer {
    size_t size;
    const char* content;
    size_t n_content;
    const char* reasoning;
    size_t n_reasoning;
    const tsr_call* calls;
    size_t n_calls;
    const char* notes; /* what looked like a call and could not be read, a line each */
} tsr_answer;
TSR_API tsr_status tsr_parser_answer(tsr_parser* parser, tsr_answer* answer, tsr_error* error);

/* ---- Grammars: the form of what is written ------------------------------------------------------------ */

/* Compiled once, for any number of requests and sessions of any model. Immutable; any thread. What has been
 * worked out about it for a vocabulary is kept as long as the same handle comes back. */
typedef struct tsr_grammar tsr_grammar;

typedef enum tsr_grammar_kind {
    TSR_GRAMMAR_GBNF = 1,
    TSR_GRAMMAR_REGEX = 2, /* which all of the text matches */
    TSR_GRAMMAR_JSON_SCHEMA = 3,
    TSR_GRAMMAR_JSON_OBJECT = 4 /* any; has no text */
} tsr_grammar_kind;

typedef struct tsr_grammar_options {
    size_t size;
    tsr_grammar_kind kind;
    const char* text;
    size_t n_text;
    int32_t compact_json;     /* not 0: no white space in JSON */
    const tsr_prompt* prompt; /* whose answer it is, where reasoning may stand in front; NULL: none may */
} tsr_grammar_options;

/* TSR_MALFORMED: the text is none of its kind; the message has line and column, the position, or the JSON
 * pointer. TSR_UNSUPPORTED: a part of it, which the message names, cannot be enforced.
 * TSR_INVALID_ARGUMENT: nothing satisfies it. docs/guide/structured-output.md has the languages. */
TSR_API tsr_status tsr_grammar_create(const tsr_grammar_options* options, tsr_grammar** grammar,
                                      tsr_error* error);

/* Calls of tools: free text until a call begins, and from there on a call of one of the tools, with arguments
 * that satisfy its schema. */
typedef struct tsr_tool_grammar_options {
    size_t size;
    /* Has the tools, and how its model writes calls; TSR_UNSUPPORTED where calls of its format cannot be
     * enforced (tsr_chat_info). NULL: the fields from `tools` on. */
    const tsr_prompt* prompt;
    int32_t required;     /* not 0: a call from the first byte, but for reasoning that the prompt opened */
    int32_t parallel;     /* not 0: calls may follow the first */
    const char* function; /* the one tool that may be called; NULL: any */
    int32_t compact_json; /* not 0: no white space in JSON */
    const char* tools;    /* JSON: a list; NULL: the prompt's */
    const char* const* triggers; /* texts that begin a call; none: those of the prompt's format */
    size_t n_triggers;
    const char* before; /* between trigger and JSON, and behind it; with triggers of the caller's */
    const char* after;
    const char* separator; /* between a call and the next trigger; NULL: a line break */
    int32_t none;          /* not 0: no call, though there are tools; wins over the others */
} tsr_tool_grammar_options;

TSR_API tsr_status tsr_grammar_create_tools(const tsr_tool_grammar_options* options, tsr_grammar** grammar,
                                            tsr_error* error);
TSR_API void tsr_grammar_free(tsr_grammar* grammar);

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

/* What is drawn from here on is held to the grammar: sampling allows what it allows, and evaluating anything
 * else fails with TSR_INVALID_ARGUMENT. tsr_session_truncate takes it back with the text; tsr_session_sync,
 * tsr_session_restore, tsr_session_embed and NULL end it. Where nothing may follow any more, sampling gives a
 * token that ends the generation, or fails where the vocabulary has none. */
TSR_API tsr_status tsr_session_constrain(tsr_session* session, const tsr_grammar* grammar, tsr_error* error);

/* From any thread: an evaluation under way, or else the next one, ends with TSR_CANCELLED. */
TSR_API void tsr_session_cancel(tsr_session* session);

typedef enum tsr_pooling {
    TSR_POOLING_DEFAULT = 0, /* as the model's file says; where it does not, the last token */
    TSR_POOLING_LAST = 1,
    TSR_POOLING_MEAN = 2
} tsr_pooling;

typedef struct tsr_embed_options {
    size_t size;
    tsr_pooling pooling;
    int32_t raw; /* not 0: as it comes; else divided by its Euclidean length */
} tsr_embed_options;

/* The embedding of a text: the model's normed hidden state of the last token, or the mean of all, n_embd
 * floats (tsr_model_info), into out[capacity]. The same bits for any n_batch and number of threads. The
 * session is empty afterwards. options may be NULL. */
TSR_API tsr_status tsr_session_embed(tsr_session* session, const int32_t* tokens, size_t n,
                                     const tsr_embed_options* options, float* out, size_t capacity,
                                     tsr_error* error);

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
    TSR_FINISH_FAILED = 6, /* see error */
    TSR_FINISH_INDENT = 7  /* the next line is indented less than n_indent */
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
    const float* embedding;                  /* with TSR_FINISH_END, where one was wanted; else NULL */
    size_t n_embedding;
} tsr_outcome;

enum {
    TSR_IGNORE_END = 1,        /* go on where the model would end */
    TSR_SHOW_SPECIAL_TEXT = 2, /* control tokens appear in the text */
    TSR_SHIFT_CONTEXT = 4,     /* a full context forgets its older half instead of ending */
    TSR_LOG_PROBS = 8,
    TSR_FITS_CONTEXT = 16, /* refused at once unless prompt and max_tokens fit the context together */
    TSR_PROMPT_ONLY = 32,  /* nothing is written: the prompt is read, and known to requests that begin so */
    TSR_IGNORE_KNOWN = 64  /* what earlier requests made known of the prompt is computed anew */
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
    const tsr_grammar* grammar; /* what is written is held to it; NULL: nothing */
    /* Prompt tokens read so far: those that were known already when a completion begins, and then after each
     * pass that read some. */
    void (*on_prompt)(void* user, int32_t completion, int64_t n_read, int64_t n_prompt);
    /* Tokens of reasoning in a completion, behind which its end is written for the model; 0: no limit, -1:
     * none at all. Needs `prompt`; nothing happens where its model does not mark reasoning. */
    int64_t max_reasoning;
    const tsr_prompt* prompt; /* whose answer is written; may be freed after the call */
    /* Nothing is written: the prompt's embedding, the bits of tsr_session_embed, comes with on_finish. Takes
     * neither a grammar nor several completions, and no notice of what is for writing. NULL: text is. */
    const tsr_embed_options* embed;
    /* A completion ends before a line, but the first, with fewer spaces and tabs than so many in front; lines
     * of nothing else are let through. 0: none does. */
    int64_t n_indent;
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
    int64_t n_ctx;     /* positions of one request */
    uint64_t kv_bytes; /* of the cache */
} tsr_engine_stats;
TSR_API tsr_status tsr_engine_get_stats(const tsr_engine* engine, tsr_engine_stats* stats, tsr_error* error);

/* ---- Model files --------------------------------------------------------------------------------------- */

/* What is written appears under its name when it is complete, and not at all otherwise. */

typedef struct tsr_quantize_options {
    size_t size;
    const char* type;        /* TSR_LIST_QUANTIZATIONS: "Q4_K_M" */
    const char* imatrix;     /* file with an importance matrix; NULL: none */
    const char* output_type; /* of the output matrix, of the embedding table; NULL: as the type says */
    const char* embedding_type;
    const char* const* overrides; /* "PATTERN=TYPE": tensors whose name the regular expression matches */
    size_t n_overrides;
    int32_t pure;             /* not 0: one type for all matrices */
    int32_t allow_requantize; /* not 0: takes weights that are quantized already, whose loss stays */
    int32_t n_threads;        /* 0: the physical cores that the process may use */
    tsr_progress_fn progress;
    void* user;
} tsr_quantize_options;

/* Writes a model with its weights in other types. */
TSR_API tsr_status tsr_quantize(const char* in, const char* out, const tsr_quantize_options* options,
                                tsr_error* error);
/* The size of the file that it would write, to the byte. */
TSR_API tsr_status tsr_quantized_size(const char* in, const tsr_quantize_options* options, uint64_t* n_bytes,
                                      tsr_error* error);

typedef struct tsr_convert_options {
    size_t size;
    const char* type;             /* TSR_LIST_QUANTIZATIONS; NULL: BF16 or F16, as the folder has */
    const char* pre;              /* the pre-tokenizer; NULL: the one that the tokenizer's rules tell */
    const char* const* overrides; /* "PATTERN=TYPE" */
    size_t n_overrides;
    int32_t pure;             /* not 0: one type for all matrices */
    int32_t allow_requantize; /* not 0: MXFP4 matrices get the type as well */
    int32_t packed;           /* not 0: a packed model, as tsr_pack writes it */
    int32_t n_threads;        /* 0: the physical cores that the process may use */
    tsr_progress_fn progress; /* of a packed one twice from the start: converting, packing */
    void* user;
} tsr_convert_options;

/* A folder with config.json, safetensors files and tokenizer, as Hugging Face has them, to a GGUF model.
 * options may be NULL. */
TSR_API tsr_status tsr_convert(const char* folder, const char* out, const tsr_convert_options* options,
                               tsr_error* error);

typedef struct tsr_pack_options {
    size_t size;
    int32_t n_threads;
    tsr_progress_fn progress;
    void* user;
} tsr_pack_options;

/* A model in the order of the kernels, which loads at once, and the stock file back, byte for byte. options
 * may be NULL. */
TSR_API tsr_status tsr_pack(const char* in, const char* out, const tsr_pack_options* options,
                            tsr_error* error);
TSR_API tsr_status tsr_unpack(const char* in, const char* out, const tsr_pack_options* options,
                              tsr_error* error);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_H */
