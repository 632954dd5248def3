#pragma once
// The form that a route's answers have: told of events in order, it makes chunks of a stream, or one body at
// the end.
#include <memory>
#include <string>

#include "server/generation.h"

namespace tessera::server {

/// A connection's thread only. What it appends to `out` goes to a client that streams, and is dropped
/// otherwise.
class Answer {
  public:
    explicit Answer(const Fields& fields)
        : shows_timings_(fields.flag("timings_per_token")), shows_progress_(fields.flag("return_progress")) {}
    virtual ~Answer() = default;
    virtual void start(std::string& out) = 0;
    /// More of a prompt was read.
    void prompt(const Event& event, std::string& out) {
        if (shows_progress_) out += progress(event);
    }
    virtual void token(const Event& event, std::string& out) = 0;
    /// A completion's end; `totals` has it already.
    virtual void end(const Event& event, const Totals& totals, std::string& out) = 0;
    virtual void finish(const Totals& totals, std::string& out) = 0;
    /// The body, where nothing streams.
    virtual Json whole(const Totals& totals) = 0;

  protected:
    /// An event without text, whose data add_extras() has completed.
    virtual std::string progress(const Event& event) = 0;
    /// What timings_per_token and return_progress add to the data of an event.
    void add_extras(const Event& event, Json& data) const;

  private:
    const bool shows_timings_, shows_progress_;
};

/// Answers with what the generation gives. `n` is the number of completions of a prompt.
Response respond(Request& request, std::unique_ptr<Generation> generation, std::shared_ptr<Answer> answer,
                 size_t n, bool stream);

}  // namespace tessera::server
