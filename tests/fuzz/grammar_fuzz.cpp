// Any grammar, expression or schema is refused or makes a grammar whose masks lead on: every allowed token is
// accepted, and there is always one until the end. Input: a byte with the kind, a byte of random seed, the
// rest is the text.
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "src/grammar/matcher.h"

namespace {

using namespace tessera;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

std::shared_ptr<const grammar::TokenTrie> make_trie() {
    std::vector<grammar::TokenText> tokens;
    for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte))});
    for (const char* text :
         {"ab", "aa", "{\"", "\":", "\",\"", "\"}", "}}", "[[", "true", "12", "0.5", "é", "<tool"})
        tokens.push_back({text});
    tokens.push_back({"<|special|>", grammar::TokenText::Kind::Special});
    tokens.push_back({"</s>", grammar::TokenText::Kind::End});
    return *grammar::TokenTrie::create(tokens);
}

Result<std::shared_ptr<const grammar::Grammar>> compile(uint8_t kind, std::string_view text) {
    using grammar::Grammar;
    switch (kind % 4) {
        case 0:
            return Grammar::from_gbnf(text);
        case 1:
            return Grammar::from_regex(text);
        case 2:
            return Grammar::from_json_schema(text);
        default: {
            grammar::ToolGrammar tools;
            const size_t half = text.size() / 2;
            tools.tools = {{"tool", std::string(text.substr(half))}};
            tools.triggers = {std::string(text.substr(0, half))};
            tools.parallel = kind & 4;
            if (kind & 8) {
                using Text = grammar::ArgumentNotation::Text;
                constexpr Text kTexts[] = {Text::Json, Text::Plain, Text::Marked};
                tools.name_end = tools.call_end = "|";
                tools.forbidden = "a<no";
                tools.arguments = {.key_begin = "<k=",
                                   .key_end = ">",
                                   .value_end = "</k>",
                                   .separator = ",",
                                   .text_key_end = "",
                                   .text = kTexts[(kind >> 4) % 3],
                                   .quote = "<q>",
                                   .not_in_text = {"</k>", "<q>"},
                                   .strips_lines = (kind & 64) != 0};
            }
            return Grammar::from_tools(tools);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2 || size > 4096) return 0;
    const auto compiled = compile(data[0], {reinterpret_cast<const char*>(data) + 2, size - 2});
    if (!compiled) {
        require(!compiled.error().message.empty(), "errors have a message");
        return 0;
    }
    static const auto trie = make_trie();
    const auto cache = grammar::MaskCache::create(*compiled, trie);
    if (!cache) return 0;
    grammar::Matcher matcher(*cache);
    std::minstd_rand random(data[1]);
    std::vector<uint64_t> words(trie->mask_words());
    for (int step = 0; step < 24; step++) {
        matcher.mask(words);
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < trie->n_tokens(); id++)
            if (words[static_cast<size_t>(id) / 64] >> (id % 64) & 1) allowed.push_back(id);
        require(!allowed.empty(), "there is always a next token");
        const int32_t token = allowed[random() % allowed.size()];
        const auto accepted = matcher.accept(token);
        if (!accepted && accepted.error().code == ErrorCode::Unsupported) return 0;
        require(accepted.has_value(), "allowed tokens are accepted");
        if (trie->kind(token) == grammar::TokenText::Kind::End) return 0;
        if (step % 7 == 6) matcher.rollback(1);
    }
    return 0;
}
