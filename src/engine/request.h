#pragma once
// What a caller asks of the engine and what comes back: a prompt with its settings, pieces of text as they
// are written, and an outcome for each completion.
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

/// What ended a completion.
enum class Finish : uint8_t {
    EndOfGeneration,  ///< the model's own end, or that of an embedding
    StopString,       ///< one of Request::stop
    Length,           ///< max_tokens
    ContextFull,      ///< no position left, and the policy is to stop
    Cancelled,        ///< by the caller
    Deadline,         ///< time was up
    Failed,           ///< see Outcome::error
    Indent,           ///< the next line is indented less than n_indent
};
/// "end", "stop_string", "length", "context_full", "cancelled", "deadline", "failed",
/// "indent".
const char* finish_name(Finish finish);

/// What happens when a sequence has no position left.
enum class ContextPolicy : uint8_t {
    Error,  ///< this cannot happen: a request is refused unless prompt and max_tokens fit the context
    Stop,   ///< it ends with Finish::ContextFull
    Shift,  ///< the older half behind the first n_keep tokens is forgotten, the rest computed anew
};

struct TokenProb {
    int32_t id = 0;
    float log_p = 0;  ///< natural logarithm of its probability by the model alone, before any sampler
};

struct Request {
    std::vector<int32_t> prompt;  ///< at least one token
    sample::Params sampling;
    int64_t max_tokens = -1;                          ///< -1: until something else ends it
    std::vector<std::string> stop;                    ///< at most 64 of at most 4096 bytes
    std::shared_ptr<const grammar::Grammar> grammar;  ///< what is written is held to it; null: nothing
    ReasoningLimit reasoning;
    int32_t n = 1;                 ///< completions of the same prompt, 1..64; each with a stream of its own
    int32_t n_top = -1;            ///< log probabilities: -1 none, 0 the token's own, up to 64 best beside
    bool ignore_eos = false;       ///< go on where the model would end
    bool no_prefix_cache = false;  ///< what earlier requests made known of the prompt is computed anew
    int64_t n_indent = 0;       ///< it ends before a line, but the first, with fewer spaces and tabs in front
    bool show_special = false;  ///< control tokens appear in the text by their spelling
    ContextPolicy on_full = ContextPolicy::Stop;
    int64_t n_keep = 0;     ///< tokens at the front that a shift keeps
    int32_t priority = 0;   ///< higher ones are admitted first and give way last
    std::string client;     ///< whose it is: among equals, who has less running comes first
    double deadline_s = 0;  ///< seconds from submission; 0 = none
    /// Nothing is written: the one completion ends with the prompt's embedding, once that has been read.
    std::optional<Pooling> embedding;
};

/// A token and the text that became certain with it.
struct Delta {
    int32_t completion = 0;          ///< 0 .. n - 1
    int32_t id = -1;                 ///< -1: text alone, at the end
    std::string_view text;           ///< whole characters; empty while a stop string may begin here
    float log_p = 0;                 ///< with n_top >= 0
    std::span<const TokenProb> top;  ///< the n_top likeliest, best first
};

struct Usage {
    int64_t n_prompt = 0;
    int64_t n_cached = 0;  ///< prompt tokens that were known already
    int64_t n_generated = 0;
    int64_t n_shifted = 0;                           ///< tokens that a full context made it forget
    int64_t n_rewinds = 0;                           ///< times that a banned string was taken back
    int64_t n_preempted = 0;                         ///< times that it gave way and was computed anew
    double queue_s = 0, prompt_s = 0, decode_s = 0;  ///< waiting; until the first token; from there
};

/// The end of one completion.
struct Outcome {
    int32_t completion = 0;
    Finish finish = Finish::Failed;
    int stop_index = -1;  ///< of Request::stop
    Error error;          ///< with Finish::Failed
    uint64_t seed = 0;
    std::span<const std::string_view> samplers;  ///< that took part, in order; during the call
    std::span<const float> embedding;            ///< [n_embd], where one was wanted; during the call
    Usage usage;
};

/// Called on the engine's thread, one call at a time; must return soon and not call the engine.
struct Listener {
    std::function<void(const Delta&)> on_delta;
    std::function<void(const Outcome&)> on_finish;  ///< once for each completion, its last call
    /// Prompt tokens read so far: those that were known already, once when a completion begins; and after
    /// each pass that read some.
    std::function<void(int32_t completion, int64_t n_read, int64_t n_prompt)> on_prompt;
};

}  // namespace tessera::engine
