#pragma once
// Requests to the engine and their results: a prompt with its settings goes in; text comes back as it is
// generated, and then an outcome for each completion.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "src/engine/embedding.h"
#include "src/engine/reasoning.h"
#include "src/grammar/grammar.h"
#include "src/sample/params.h"

namespace tessera::engine {

/// Reason for the end of a completion.
enum class Finish : uint8_t {
    EndOfGeneration,  ///< end-of-generation token, or a finished embedding
    StopString,       ///< one of Request::stop
    Length,           ///< max_tokens
    ContextFull,      ///< no position left, and the policy is Stop
    Cancelled,        ///< by the caller
    Deadline,         ///< deadline exceeded
    Failed,           ///< see Outcome::error
    Indent,           ///< the next line is indented less than n_indent
};
/// "end", "stop_string", "length", "context_full", "cancelled", "deadline", "failed",
/// "indent".
const char* finish_name(Finish finish);

/// Policy for a sequence that has no position left.
enum class ContextPolicy : uint8_t {
    Error,  ///< overflow is excluded: a request is refused unless prompt and max_tokens fit the context
    Stop,   ///< ends with Finish::ContextFull
    Shift,  ///< drops the older half of the tokens behind the first n_keep, and recomputes the rest
};

struct TokenProb {
    int32_t id = 0;
    float log_p = 0;  ///< natural logarithm of its probability before any sampler
};

struct Request {
    std::vector<int32_t> prompt;  ///< at least one token
    sample::Params sampling;
    int64_t max_tokens = -1;                          ///< -1: no limit
    std::vector<std::string> stop;                    ///< at most 64 strings of 1 to 4096 bytes
    std::shared_ptr<const grammar::Grammar> grammar;  ///< constrains the output; null: none
    ReasoningLimit reasoning;
    int32_t n = 1;  ///< completions of the same prompt, 1..64; each has its own random stream
    int32_t n_top =
        -1;  ///< log probabilities: -1 none; 0 of the token; n also of the n best tokens, up to 64
    bool ignore_eos = false;       ///< continue behind end-of-generation tokens
    bool no_prefix_cache = false;  ///< compute the whole prompt, even where it is cached
    int64_t n_indent = 0;  ///< stop at the second or a later line with less indentation (spaces and tabs)
    bool show_special = false;  ///< include special tokens in the text
    ContextPolicy on_full = ContextPolicy::Stop;
    int64_t n_keep = 0;    ///< tokens at the front that a shift keeps
    int32_t priority = 0;  ///< higher ones are admitted first and preempted last
    std::string
        client;  ///< fairness key: at equal priority the client with the fewest running completions is next
    double deadline_s = 0;  ///< seconds from submission; 0 = none
    /// Computes an embedding of the prompt instead of a continuation; requires n = 1 and no grammar.
    std::optional<Pooling> embedding;
};

/// Checks that a request can be served in a context of n_ctx positions with a vocabulary of n_vocab tokens.
/// Errors name the field.
Result<void> check_request(const Request& request, int64_t n_ctx, int64_t n_vocab);

/// A generated token and the text that is final with it.
struct Delta {
    int32_t completion = 0;  ///< 0 .. n - 1
    int32_t id = -1;         ///< -1: only text, at the end
    std::string_view
        text;         ///< whole UTF-8 characters; empty while they may be the beginning of a stop string
    float log_p = 0;  ///< with n_top >= 0
    std::span<const TokenProb> top;  ///< the n_top most probable tokens, descending
};

struct Usage {
    int64_t n_prompt = 0;
    int64_t n_cached = 0;  ///< prompt tokens found in the prefix cache
    int64_t n_generated = 0;
    int64_t n_shifted = 0;    ///< tokens dropped because the context was full
    int64_t n_rewinds = 0;    ///< times that a banned string was removed
    int64_t n_preempted = 0;  ///< number of preemptions
    double queue_s = 0, prompt_s = 0,
           decode_s = 0;  ///< in the queue; then until the first token; from there to the end
};

/// The end of one completion.
struct Outcome {
    int32_t completion = 0;
    Finish finish = Finish::Failed;
    int stop_index = -1;  ///< of Request::stop
    Error error;          ///< with Finish::Failed
    uint64_t seed = 0;
    std::span<const std::string_view> samplers;  ///< of the chain, in order; valid during the call
    std::span<const float> embedding;  ///< [n_embd] for Request::embedding, else empty; valid during the call
    Usage usage;
};

/// Called on the engine's thread, one call at a time. Must return quickly and must not call the engine.
struct Listener {
    std::function<void(const Delta&)> on_delta;
    std::function<void(const Outcome&)> on_finish;  ///< once per completion, its last call
    /// Prefill progress: called when a completion is admitted, with the cached prompt tokens, and after each
    /// pass that computed prompt tokens.
    std::function<void(int32_t completion, int64_t n_read, int64_t n_prompt)> on_prompt;
};

}  // namespace tessera::engine
