#pragma once
// The model's side of a chat: a loaded model, its template and an engine that answers one request at a time.
#include <functional>
#include <memory>
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
    std::string chat_template;   ///< a file, or the name of one of ours; empty: the model's own
    std::string k_type, v_type;  ///< of the cache; empty: f16
    int64_t n_threads = 0, n_ctx = 0, n_batch = 512;
    bool precise = false;
    bool force = false;  ///< load what the memory has no room for
    NpuFlags npu;
};

/// How an answer went.
struct Figures {
    int64_t n_prompt = 0, n_cached = 0, n_generated = 0;
    double prompt_s = 0, decode_s = 0;
    uint64_t seed = 0;
    int64_t n_used() const { return n_prompt + n_generated; }  ///< positions of the context
    double prompt_rate() const;                                ///< tokens per second; 0: nothing was read
    double decode_rate() const;
};

struct Answered {
    Message message;
    Figures figures;
};

/// What an answer is told to while it comes, on the caller's thread. An error ends the answer.
struct Listener {
    std::function<Result<void>(tsr_piece_kind kind, std::string_view text)> on_text;
    std::function<void(int64_t n_read, int64_t n_prompt)> on_prompt;
};

/// One thread at a time.
class Talker {
  public:
    /// Loads the model, with a progress bar on a terminal. Errors are those of the library, and name the
    /// file.
    static Result<std::unique_ptr<Talker>> create(const TalkerOptions& options);

    /// Answers the last message of the present line. Ctrl-C ends it early (Cut::Interrupt). Errors:
    /// InvalidArgument where the prompt leaves no room in the context, or a setting is not what it should be.
    Result<Answered> answer(const Conversation& conversation, const Settings& settings,
                            const Listener& listener);

    /// The prompt for the present line, which is not empty.
    Result<tessera_api::Prompt> render(const Conversation& conversation, const Settings& settings) const;
    Result<std::vector<int32_t>> tokenize(std::string_view text) const;
    /// The bytes of one token, which may be a part of a character; of control tokens their spelling.
    Result<std::string> spelling(int32_t id) const;

    const tessera_api::Model& model() const { return model_; }
    tsr_chat_info chat_info() const { return chat_.info(); }
    int64_t n_ctx() const { return n_ctx_; }
    /// "llama q4_k, avx2".
    std::string description() const;

  private:
    Talker(tessera_api::Model model, const std::string& template_source, const TalkerOptions& options);

    tessera_api::Model model_;
    tessera_api::Chat chat_;
    tessera_api::Engine engine_;
    int64_t n_ctx_ = 0;
};

}  // namespace tessera::repl
