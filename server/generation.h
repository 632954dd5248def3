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

/// A token and the text that became certain with it, or the end of a completion.
struct Event {
    size_t choice = 0;  ///< over all completions of all prompts
    bool is_end = false;
    Clock::time_point when;
    // Of a token; id is -1 for text alone.
    int32_t id = -1;
    std::string text;
    float log_p = 0;
    std::vector<tsr_token_prob> top;
    // Of an end.
    tsr_outcome outcome{};  ///< its texts are not to be used
    std::string error;
};

/// One thread, but for the callbacks.
class Generation {
  public:
    /// Submits a request for each prompt; completion k of prompt i is choice i * n + k. Throws HttpError 429
    /// when the queue is full, 400 for what the engine refuses, with what was submitted cancelled.
    Generation(Service& service, const Request& request, const tessera_api::Request& options,
               const std::vector<std::vector<int32_t>>& prompts);
    /// Cancels what has not ended, and waits for it.
    ~Generation();

    enum class Next { Event, Nothing, Done, Gone, Stopping };
    /// The next event; Nothing after some seconds without one; Done behind the last.
    Next next(Event& event);

    size_t n_choices() const { return n_choices_; }
    /// Texts that end a completion; tsr_outcome.stop_index counts these.
    const std::vector<std::string>& stop() const { return stop_; }

  private:
    void push(Event event);
    void measure(const Event& event);

    Service& service_;
    Peer& peer_;
    std::vector<std::string> stop_;
    const Clock::time_point start_ = Clock::now();
    size_t n_choices_, n_ended_ = 0;
    std::vector<std::optional<Clock::time_point>> last_token_;
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
