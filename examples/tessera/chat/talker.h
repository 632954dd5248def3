#pragma once
// The model's side of a chat: a loaded model, its template, and an engine that runs one request at a time.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/expected.h"
#include "examples/tessera/chat/conversation.h"
#include "examples/tessera/chat/settings.h"
#include "examples/tessera/npu_flags.h"
#include "include/tessera.hpp"

namespace tessera::repl {

struct TalkerOptions {
    std::string model;           ///< empty: the default model
    std::string chat_template;   ///< a file, or the name of a built-in one; empty: the model's own
    std::string tools;           ///< JSON: a list in OpenAI's form; empty: none
    std::string tool_choice;     ///< auto, required, none or a tool's name; empty: auto
    std::string k_type, v_type;  ///< types of the KV cache; empty: f16
    int64_t n_threads = 0, n_ctx = 0, n_batch = 512;
    bool precise = false, blas = false;
    std::vector<std::string> overrides;  ///< "KEY=TYPE:VALUE": used instead of the file's values
    bool check = false;                  ///< look for weights that are infinite or NaN
    bool force = false;                  ///< load the model even if the memory estimate does not fit
    NpuFlags npu;
};

/// Token counts and times of an answer.
struct Figures {
    int64_t n_prompt = 0, n_cached = 0, n_generated = 0;
    double prompt_s = 0, decode_s = 0;
    uint64_t seed = 0;
    int64_t n_used() const { return n_prompt + n_generated; }  ///< positions of the context
    double prompt_rate() const;                                ///< tokens per second; 0: all were cached
    double decode_rate() const;
};

struct Answered {
    Message message;
    Figures figures;
};

/// Receives an answer while it is generated, on the caller's thread. An error ends the answer.
struct Listener {
    /// Content and reasoning, and each call of a tool as a line of text (TSR_PIECE_CALL).
    std::function<Result<void>(tsr_piece_kind kind, std::string_view text)> on_text;
    std::function<void(int64_t n_read, int64_t n_prompt)> on_prompt;
};

/// One thread at a time.
class Talker {
  public:
    /// Loads the model, with a progress bar on a terminal. Errors name the file.
    static Result<std::unique_ptr<Talker>> create(const TalkerOptions& options);

    /// Answers the last message of the current line. Ctrl-C, SIGTERM and SIGHUP end the answer early
    /// (Cut::Interrupt). Errors: InvalidArgument where the prompt leaves no room in the context, or a setting
    /// has a wrong value.
    Result<Answered> answer(const Conversation& conversation, const Settings& settings,
                            const Listener& listener);

    /// The prompt for the current line, which is not empty.
    Result<tessera_api::Prompt> render(const Conversation& conversation, const Settings& settings) const;
    Result<std::vector<int32_t>> tokenize(std::string_view text) const;
    /// The bytes of one token, which may be a part of a character; for control tokens their spelling.
    Result<std::string> spelling(int32_t id) const;

    bool has_tools() const { return !tools_.empty(); }
    const tessera_api::Model& model() const { return model_; }
    tsr_chat_info chat_info() const { return chat_.info(); }
    int64_t n_ctx() const { return n_ctx_; }
    /// "llama q4_k, avx2".
    std::string description() const;

  private:
    Talker(tessera_api::Model model, const std::string& template_source, const TalkerOptions& options);
    /// The constraint of the next answer; nothing where any text is allowed.
    Result<std::optional<tessera_api::Grammar>> constraint(const tessera_api::Prompt& prompt,
                                                           const Settings& settings);

    tessera_api::Model model_;
    tessera_api::Chat chat_;
    tessera_api::Engine engine_;
    int64_t n_ctx_ = 0;
    std::string tools_, tool_choice_;
    // The grammar of the last answer. The library caches its work by the grammar's handle, so it is used
    // again as long as `constraint_key_` stays the same.
    std::optional<tessera_api::Grammar> constraint_;
    std::string constraint_key_;
};

}  // namespace tessera::repl
