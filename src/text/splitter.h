#pragma once
// Splits text into the pieces within which byte-level BPE merges; internal to src/text.
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::text {

/// A list of regular expressions. Immutable; thread-safe with one Scratch per thread.
class Splitter {
  public:
    /// Working memory of one thread, for any Splitter.
    class Scratch {
      public:
        Scratch();
        ~Scratch();
        Scratch(const Scratch&) = delete;
        Scratch& operator=(const Scratch&) = delete;

      private:
        friend class Splitter;
        struct State;
        std::unique_ptr<State> state_;
    };

    /// PCRE2's syntax with Unicode properties; `\s` and `\S` follow Unicode's White_Space. Errors: a pattern
    /// that does not compile, with position and reason.
    static Result<Splitter> create(std::span<const std::string_view> patterns);

    Splitter(Splitter&&) noexcept;
    Splitter& operator=(Splitter&&) noexcept;
    ~Splitter();

    /// Writes the ends of the pieces of a valid UTF-8 text to `ends`, ascending. The first pattern splits the
    /// text into its matches and the text between them, the next one splits each of these, and so on; an
    /// empty match is a cut. Errors: the library ran out of memory.
    Result<void> split(std::string_view text, Scratch& scratch, std::vector<size_t>& ends) const;

  private:
    struct Pattern;
    explicit Splitter(std::vector<Pattern> patterns);

    std::vector<Pattern> patterns_;
};

/// A pattern with `\s` and `\S` written out as Unicode's White_Space: PCRE2's own also has U+180E.
std::string spell_out_spaces(std::string_view pattern);

}  // namespace tessera::text
