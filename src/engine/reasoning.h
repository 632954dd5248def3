#pragma once
// How much a model may think: what it writes is watched for the marks around its reasoning.
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::engine {

/// How reasoning is marked, and how many tokens of it there may be.
struct ReasoningLimit {
    std::string begin, end;   ///< neither is empty where there is a limit
    std::string close;        ///< what is written where the limit is reached: `end`, and what has to follow
    bool is_open = false;     ///< the prompt began it
    int64_t max_tokens = -1;  ///< in one completion; -1: no limit
};

/// One thread. The limit must outlive it.
class ReasoningWatch {
  public:
    explicit ReasoningWatch(const ReasoningLimit& limit) : limit_(limit), is_inside_(limit.is_open) {}

    /// The bytes of the next token of the answer.
    void push(std::string_view bytes);
    /// Whether close() is to come next. While the model writes the end mark itself it may finish that.
    bool is_spent() const;
    /// It has been written. So each stretch of reasoning is closed once at most.
    void set_closed() { is_closed_ = true; }

  private:
    const ReasoningLimit& limit_;
    std::string tail_;  // what may be the beginning of the mark that is looked for
    int64_t n_tokens_ = 0;
    bool is_inside_, is_closed_ = false;
};

}  // namespace tessera::engine
