// Any vocabulary that loads encodes any bytes to valid ids, streams like it decodes, and gives text back.
// Input: a byte of flags, a byte with the number of extra tokens, for each a byte of type, one of score, one
// of length and that many bytes of spelling; the rest is the text.
#include <cstdio>
#include <cstdlib>

#include "common/bytes.h"
#include "common/utf8.h"
#include "src/text/detokenizer.h"
#include "tests/text/memory_gguf.h"

namespace {

using namespace tessera;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

enum Flags : uint8_t { kHasBytes = 1, kNoPrefix = 2, kRemoveSpaces = 4, kAddEos = 8, kPhi = 16 };

void check_text(const text::Tokenizer& tokenizer, std::string_view input, bool reversible) {
    for (const bool parse_special : {false, true}) {
        const auto ids = tokenizer.encode(input, {.parse_special = parse_special});
        require(ids.has_value(), "encode succeeds");
        for (const int32_t id : *ids) require(tokenizer.vocab().contains(id), "ids are valid");
        text::Detokenizer detokenizer(tokenizer, {.show_special = parse_special});
        std::string streamed;
        for (const int32_t id : *ids) {
            const std::string_view piece = detokenizer.push(id);
            require(utf8::is_valid(piece), "pieces are whole characters");
            streamed += piece;
        }
        streamed += detokenizer.flush();
        require(streamed == tokenizer.decode(*ids, {.show_special = parse_special}),
                "streaming equals decoding");
        if (reversible && !parse_special) require(streamed == input, "text comes back");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    ByteReader in(std::as_bytes(std::span(data, size)));
    const auto flags = in.get<uint8_t>();
    test::TokenList list;
    if (flags & kHasBytes) {
        list = test::TokenList::with_bytes();
        list.add("▁", 0, 1);  // without it a space would be the bytes of its symbol
    }
    for (int left = in.get<uint8_t>() % 64; left > 0 && in.remaining() > 0; left--) {
        const int32_t type = in.get<uint8_t>() % 8;
        const float score = static_cast<float>(in.get<uint8_t>());
        list.add(std::string(in.view(std::min<size_t>(in.get<uint8_t>() % 32, in.remaining()))), score, type);
    }
    test::MemoryGguf file = list.gguf();
    file.boolean("tokenizer.ggml.add_space_prefix", !(flags & kNoPrefix));
    file.boolean("tokenizer.ggml.remove_extra_whitespaces", flags & kRemoveSpaces);
    file.boolean("tokenizer.ggml.add_eos_token", flags & kAddEos);
    if (flags & kPhi) file.text("general.name", "phi-3");
    const auto parsed = file.parse();
    if (!parsed) return 0;
    const auto tokenizer = text::Tokenizer::load(*parsed);
    if (!tokenizer) return 0;

    const std::string_view input = in.view(in.remaining());
    const bool plain = (flags & kHasBytes) && !(flags & (kRemoveSpaces | kPhi));
    check_text(**tokenizer, input, plain && utf8::is_valid(input) && input.find("▁") == input.npos);
    return 0;
}
