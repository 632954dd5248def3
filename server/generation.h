#pragma once
// From the engine's thread to a connection's: the completions of one HTTP request, as events in the order in
// which they came.
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/connection.h"
#include "server/service.h"

namespace tessera::server {

/// More of a prompt that was read, a token and the text that became certain with it, or the end of a
/// completion.
struct Event {
    enum class Kind { Prompt, Token, End };
    Kind kind = Kind::Token;
    size_t choice = 0;  ///< over all completions of all prompts
    size_t slot = 0;
    Clock::time_point when;
    int64_t n_read = 0;  ///< of a prompt, with what was known already
    // Of a token; id is -1 for text alone.
    int32_t id = -1;
    std::string text;
    float log_p = 0;
    std::vector<tsr_token_prob> top;
    tsr_outcome outcome{};  ///< as far as it has come; nothing that it points to is to be used
    std::string error;
    std::vector<float> embedding;  ///< of an end, where one was wanted
};

/// One thread, but for the callbacks.
class Generation {
  public:
    /// A request for each prompt; completion k of prompt i is choice i * n + k. As many as are computed
    /// together are submitted, the rest as those end: a long list leaves the queue to others. Throws
    /// HttpError 429 when the queue is full, 400 for what the engine refuses.
    Generation(Service& service, const Request& request, tessera_api::Request options,
               std::vector<std::vector<int32_t>> prompts);
    /// Cancels what has not ended, and waits for it.
    ~Generation();

    enum class Next { Event, Nothing, Done, Gone, Stopping };
    /// The next event; Nothing after some seconds without one; Done behind the last. Throws HttpError for
    /// what the engine refuses.
    Next next(Event& event);

    size_t n_choices() const { return n_choices_; }
    /// Texts that end a completion; tsr_outcome.stop_index counts these.
    const std::vector<std::string>& stop() const { return options_.stop; }

  private:
    void submit_more();
    size_t n_under_way() const;
    void push(Event event);
    void measure(Event& event);
    /// The callbacks of a prompt's request, whose completions are choices from `first` on.
    void listen(tessera_api::Request& request, size_t first);

    Service& service_;
    Peer& peer_;
    tessera_api::Request options_;
    std::vector<std::vector<int32_t>> prompts_;  // those that were submitted are empty
    const Clock::time_point start_ = Clock::now();
    size_t n_choices_, n_ended_ = 0;
    struct Choice {
        std::optional<size_t> slot;  // the engine's thread alone
        // The connection's thread alone.
        std::optional<Clock::time_point> began, first_token, last_token;
        tsr_outcome outcome{};
    };
    std::vector<Choice> choices_;
    Signal ready_;
    std::mutex mutex_;
    std::deque<Event> events_;
    std::vector<tessera_api::Engine::Ticket> tickets_;
};

/// Sums over the completions that have ended, as answers report them.
struct Totals {
    int64_t n_prompt = 0, n_cached = 0, n_generated = 0;
    double prompt_s = 0, decode_s = 0, queue_s = 0;
    std::vector<bool> counted;  ///< prompts: their completions share them

    /// `prompt` is the number of the prompt that the completion belongs to.
    void add(const tsr_outcome& outcome, size_t prompt);
    Json usage() const;
    Json timings() const;
};

/// "stop", "length"; throws for completions that failed. `truncated` ones count as length.
const char* finish_reason(const Event& end);

}  // namespace tessera::server
