#pragma once
// The completions of one HTTP request, as an ordered queue of events from the engine's thread to the
// connection's.
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/connection.h"
#include "server/service.h"

namespace tessera::server {

/// More tokens of a prompt were prefilled, a token was generated, with the text that it completes, or a
/// completion ended.
struct Event {
    enum class Kind { Prompt, Token, End };
    Kind kind = Kind::Token;
    size_t choice = 0;  ///< over all completions of all prompts
    size_t slot = 0;
    Clock::time_point when;
    int64_t n_read = 0;  ///< tokens of the prompt that are done, cached ones included
    // Of a token; id is -1 where text follows without a new token.
    int32_t id = -1;
    std::string text;
    float log_p = 0;
    std::vector<tsr_token_prob> top;
    tsr_outcome outcome{};  ///< so far; its pointers are not valid
    std::string error;
    std::vector<float> embedding;  ///< at the end of an embedding request
};

/// One thread at a time, except for the callbacks.
class Generation {
  public:
    /// One request per prompt; completion k of prompt i is choice i * n + k. At most as many are submitted as
    /// are computed together, the rest as those end, so that a long list does not fill the queue. Throws
    /// HttpError 429 when the queue is full, 400 if the engine refuses a request.
    Generation(Service& service, const Request& request, tessera_api::Request options,
               std::vector<std::vector<int32_t>> prompts);
    /// Cancels the requests that have not ended, and waits for them.
    ~Generation();

    enum class Next { Event, Nothing, Done, Gone, Stopping };
    /// The next event; Nothing after some seconds without one; Done after the last. Throws HttpError if the
    /// engine refuses a request.
    Next next(Event& event);

    size_t n_choices() const { return n_choices_; }
    /// The stop strings; tsr_outcome.stop_index is an index of this list.
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
    std::vector<std::vector<int32_t>> prompts_;  // emptied when submitted
    const Clock::time_point start_ = Clock::now();
    size_t n_choices_, n_ended_ = 0;
    struct Choice {
        std::optional<size_t> slot;  // used by the engine's thread only
        // Used by the connection's thread only.
        std::optional<Clock::time_point> began, first_token, last_token;
        tsr_outcome outcome{};
    };
    std::vector<Choice> choices_;
    Signal ready_;
    std::mutex mutex_;
    std::deque<Event> events_;
    std::vector<tessera_api::Engine::Ticket> tickets_;
};

/// Sums over the completions that have ended, for the answer's usage and timings.
struct Totals {
    int64_t n_prompt = 0, n_cached = 0, n_generated = 0;
    double prompt_s = 0, decode_s = 0, queue_s = 0;
    std::vector<bool> counted;  ///< per prompt: its tokens count once for all its completions

    /// `prompt` is the number of the prompt that the completion belongs to.
    void add(const tsr_outcome& outcome, size_t prompt);
    Json usage() const;
    Json timings() const;
};

/// "stop" or "length" (also where the context was full). Throws for completions that failed.
const char* finish_reason(const Event& end);

}  // namespace tessera::server
