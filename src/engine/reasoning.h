#pragma once
// Reasoning budget: watches generated text for the tags around reasoning.
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::engine {

/// The tags of reasoning, and its budget of tokens.
struct ReasoningLimit {
    std::string begin, end;   ///< not empty if there is a limit
    std::string close;        ///< inserted when the limit is reached: `end` and text that must follow
    bool is_open = false;     ///< the prompt ends inside reasoning
    int64_t max_tokens = -1;  ///< per completion; -1: no limit
};

/// One thread. The limit must outlive it.
class ReasoningWatch {
  public:
    explicit ReasoningWatch(const ReasoningLimit& limit) : limit_(limit), is_inside_(limit.is_open) {}

    /// Appends the bytes of the next generated token.
    void push(std::string_view bytes);
    /// Whether the budget is exhausted, so that `close` has to be inserted. False while the model is in the
    /// middle of the end tag.
    bool is_spent() const;
    /// Notes that `close` was inserted, so that each section of reasoning is closed at most once.
    void set_closed() { is_closed_ = true; }

  private:
    const ReasoningLimit& limit_;
    std::string tail_;  // possible beginning of the next tag
    int64_t n_tokens_ = 0;
    bool is_inside_, is_closed_ = false;
};

}  // namespace tessera::engine
