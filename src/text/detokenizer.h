#pragma once
// Streaming conversion of token ids to text.
#include <cstdint>
#include <string>
#include <string_view>

#include "src/text/tokenizer.h"

namespace tessera::text {

/// One stream of text. The concatenated results of push() and flush() equal Tokenizer::decode of the same
/// ids. The Tokenizer must outlive it. Not thread-safe; a copy has the same state.
class Detokenizer {
  public:
    explicit Detokenizer(const Tokenizer& tokenizer, DecodeOptions options = {});

    /// The text that is complete so far: whole UTF-8 characters, with U+FFFD for invalid bytes; empty while a
    /// character is incomplete. Valid until the next call. An id outside the vocabulary adds nothing.
    std::string_view push(int32_t id);

    /// Ends the stream: an incomplete character becomes U+FFFD. The next push() starts a new text.
    std::string_view flush();

  private:
    void emit_complete();
    void emit_rest();

    const Tokenizer* tokenizer_;
    DecodeOptions options_;
    bool drop_space_;      // the next space was added by encoding
    std::string pending_;  // the bytes of an incomplete character
    std::string out_;
};

}  // namespace tessera::text
