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
    virtual ~Answer() = default;
    virtual void start(std::string& out) = 0;
    virtual void token(const Event& event, std::string& out) = 0;
    /// A completion's end; `totals` has it already.
    virtual void end(const Event& event, const Totals& totals, std::string& out) = 0;
    virtual void finish(const Totals& totals, std::string& out) = 0;
    /// The body, where nothing streams.
    virtual Json whole(const Totals& totals) = 0;
};

/// Answers with what the generation gives. `n` is the number of completions of a prompt.
Response respond(Request& request, std::unique_ptr<Generation> generation, std::shared_ptr<Answer> answer,
                 size_t n, bool stream);

}  // namespace tessera::server
