// Any vocabulary that loads encodes any bytes to valid ids, gives the same text streamed and decoded at once,
// and restores the text if its kind can. Input: a byte of flags, one of the kind and pre-tokenizer, one with
// the number of extra tokens, for each a byte of type, one of score, one of length and that many bytes of
// spelling; a byte with the number of merges, for each two bytes that name tokens (or, both 255, a length and
// that many bytes); the rest is the text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/bytes.h"
#include "common/log.h"
#include "common/utf8.h"
#include "src/text/byte_letters.h"
#include "src/text/detokenizer.h"
#include "src/text/pretokenizers.h"
#include "tests/text/memory_gguf.h"

namespace {

using namespace tessera;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

enum Flags : uint8_t {
    kHasBytes = 1,
    kNoPrefix = 2,
    kRemoveSpaces = 4,
    kAddEos = 8,
    kPhi = 16,
    kCharsMap = 32
};

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

test::TokenList first_tokens(uint8_t flags, std::string_view model) {
    test::TokenList list;
    if (model == "gpt2" && (flags & kHasBytes))
        for (const std::string& letter : text::byte_letters()) list.add(letter, 0, 1);
    if (model == "gpt2") return list;
    if (flags & kHasBytes) list = test::TokenList::with_bytes();
    if (!(flags & kHasBytes) && model != "llama") list.add("<unk>", 0, 2);
    if (flags & kHasBytes) list.add("▁", 0, 1);  // without it a space would be the bytes of its symbol
    return list;
}

std::vector<std::string> read_merges(ByteReader& in, const test::TokenList& list) {
    std::vector<std::string> merges;
    for (int left = in.get<uint8_t>() % 64; left > 0 && in.remaining() > 0; left--) {
        const auto first = in.get<uint8_t>(), second = in.get<uint8_t>();
        if (first == 255 && second == 255) {
            merges.emplace_back(in.view(std::min<size_t>(in.get<uint8_t>() % 32, in.remaining())));
        } else if (!list.texts.empty()) {
            // The last tokens are the input's own.
            const size_t n = list.texts.size();
            merges.push_back(list.texts[n - 1 - first % n] + " " + list.texts[n - 1 - second % n]);
        }
    }
    return merges;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const bool is_silent = (log::set_sink({}), true);
    (void)is_silent;
    ByteReader in(std::as_bytes(std::span(data, size)));
    const auto flags = in.get<uint8_t>(), kind = in.get<uint8_t>();
    constexpr std::string_view kModels[] = {"llama", "gpt2", "t5", "bert"};
    const std::string_view model = kModels[kind % 4];
    const auto rows = text::pre_tokenizers();
    const std::string_view pre = rows[kind / 4 % rows.size()].name;

    test::TokenList list = first_tokens(flags, model);
    for (int left = in.get<uint8_t>() % 64; left > 0 && in.remaining() > 0; left--) {
        const int32_t type = in.get<uint8_t>() % 8;
        const float score = static_cast<float>(in.get<uint8_t>());
        list.add(std::string(in.view(std::min<size_t>(in.get<uint8_t>() % 32, in.remaining()))), score, type);
    }
    test::MemoryGguf file = list.gguf(model);
    if (model == "gpt2")
        file.text("tokenizer.ggml.pre", pre).texts("tokenizer.ggml.merges", read_merges(in, list));
    if (model == "bert") file.u32("tokenizer.ggml.unknown_token_id", 0);
    if (model == "t5" && (flags & kCharsMap))
        file.bytes_array("tokenizer.ggml.precompiled_charsmap",
                         in.view(std::min<size_t>(4096, in.remaining())));
    file.boolean("tokenizer.ggml.add_space_prefix", !(flags & kNoPrefix));
    file.boolean("tokenizer.ggml.remove_extra_whitespaces", flags & kRemoveSpaces);
    file.boolean("tokenizer.ggml.add_eos_token", flags & kAddEos);
    if (flags & kPhi) file.text("general.name", "phi-3");
    const auto parsed = file.parse();
    if (!parsed) return 0;
    const auto tokenizer = text::Tokenizer::load(*parsed);
    if (!tokenizer) return 0;

    const std::string_view input = in.view(in.remaining());
    const bool plain = (flags & kHasBytes) && utf8::is_valid(input);
    const bool keeps_spaces = !(flags & (kRemoveSpaces | kPhi)) && input.find("▁") == input.npos;
    check_text(**tokenizer, input, plain && (model == "gpt2" || (model == "llama" && keeps_spaces)));
    return 0;
}
