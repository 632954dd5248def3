#pragma once
// Token ids to text, one at a time, for printing while a model writes.
#include <cstdint>
#include <string>
#include <string_view>

#include "src/text/tokenizer.h"

namespace tessera::text {

/// One stream of text. What push() and flush() return, put together, is Tokenizer::decode of the same ids.
/// The Tokenizer must outlive it. Used by one thread at a time; copying copies the stream's state.
class Detokenizer {
  public:
    explicit Detokenizer(const Tokenizer& tokenizer, DecodeOptions options = {});

    /// The text that is certain now: always whole UTF-8 characters, with U+FFFD for bytes that can form none;
    /// empty while a character is incomplete. Valid until the next call. An id outside the vocabulary adds
    /// nothing.
    std::string_view push(int32_t id);

    /// Ends the stream: an incomplete character comes out as U+FFFD. The next push() starts a new text.
    std::string_view flush();

  private:
    void emit_complete();
    void emit_rest();

    const Tokenizer* tokenizer_;
    DecodeOptions options_;
    bool drop_space_;      // a space that comes next was put there by encoding
    std::string pending_;  // the start of a character
    std::string out_;
};

}  // namespace tessera::text
