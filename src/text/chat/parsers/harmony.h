#pragma once
// gpt-oss's format: messages with a header of role, channel and recipient, between marks.
#include "src/text/chat/parsers/output_parser.h"

namespace tessera::chat {

std::unique_ptr<OutputParser> make_harmony_parser(ParserOptions options);

}  // namespace tessera::chat
