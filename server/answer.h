#pragma once
// The format of a route's answers: it turns events, in order, into chunks of a stream or into one body at the
// end.
#include <memory>
#include <string>

#include "server/generation.h"

namespace tessera::server {

/// The connection's thread only. Text appended to `out` is sent to a client that streams, and dropped
/// otherwise.
class Answer {
  public:
    explicit Answer(const Fields& fields)
        : shows_timings_(fields.flag("timings_per_token")), shows_progress_(fields.flag("return_progress")) {}
    virtual ~Answer() = default;
    virtual void start(std::string& out) = 0;
    /// More tokens of a prompt were prefilled.
    void prompt(const Event& event, std::string& out) {
        if (shows_progress_) out += progress(event);
    }
    virtual void token(const Event& event, std::string& out) = 0;
    /// A completion has ended; `totals` includes it.
    virtual void end(const Event& event, const Totals& totals, std::string& out) = 0;
    virtual void finish(const Totals& totals, std::string& out) = 0;
    /// The body of an answer that does not stream.
    virtual Json whole(const Totals& totals) = 0;

  protected:
    /// An event without text, completed by add_extras().
    virtual std::string progress(const Event& event) = 0;
    /// Adds the members that timings_per_token and return_progress request.
    void add_extras(const Event& event, Json& data) const;

  private:
    const bool shows_timings_, shows_progress_;
};

/// The response made from a generation. `n`: completions per prompt.
Response respond(Request& request, std::unique_ptr<Generation> generation, std::shared_ptr<Answer> answer,
                 size_t n, bool stream);

}  // namespace tessera::server
