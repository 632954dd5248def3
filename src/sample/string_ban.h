#pragma once
// Banned strings that span several tokens: holds tokens back while they may be the beginning of one, and
// tells when generation must back up.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/expected.h"
#include "src/sample/byte_matcher.h"
#include "src/text/tokenizer.h"

namespace tessera::sample {

/// Sits between the chain and the output. For each token that was drawn, before it is shown:
///     push(id)
///     show released(), which cannot become part of a banned string
///     if n_rewind() is not 0, remove that many tokens, including this one, from the KV cache, and from the
///         chain by forget_text() and accept(); then draw again
/// The next draw must not choose banned() (Limits::banned): the token that began the string at this position.
/// If the string began in text that is already shown, it is the first token not shown. At the end of the text
/// the caller shows held(). Only generated text is checked; strings are compared byte by byte, and control
/// tokens have no bytes. Not thread-safe.
class StringBan {
  public:
    /// No string may be empty; the tokenizer must outlive this object.
    StringBan(std::span<const std::string> strings, const text::Tokenizer& tokenizer);

    /// Error (Unsupported): after kMaxRewinds rewinds in a row there was still no token that may be shown.
    Result<void> push(int32_t id);

    /// All three are valid until the next push().
    std::span<const int32_t> released() const { return released_; }
    std::span<const int32_t> held() const { return held_; }
    std::span<const int32_t> banned() const { return banned_; }
    size_t n_rewind() const { return n_rewind_; }

    static constexpr size_t kMaxRewinds = 1000;

  private:
    struct Ban {
        size_t position;  // index of the token in the generated text
        int32_t id;
    };
    std::string_view bytes_of(int32_t id) const;
    void rewind(size_t kept);
    void release(size_t n_bytes);

    ByteMatcher matcher_;
    const text::Tokenizer* tokenizer_;
    std::vector<int32_t> held_, released_, banned_;
    std::vector<size_t> ends_;  // [held] end of each token in bytes from the first byte held
    std::vector<Ban> bans_;     // sorted by position, none before the first token held
    std::string tail_;          // the last bytes shown, in which a string may have begun
    size_t n_tail_ = 0;         // number of its bytes that still matter
    size_t n_released_ = 0, n_rewind_ = 0, n_rewinds_ = 0;
};

}  // namespace tessera::sample
