#pragma once
// Small vocabularies and reading of the reference cases, for the tests of grammars.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/grammar/matcher.h"
#include "tests/support/data.h"

namespace tessera::test {

using Json = nlohmann::ordered_json;

inline Json read_cases(const std::string& relative) { return Json::parse(read_file(shared(relative))); }

/// Every byte, then the given texts; the last two tokens are <|call|>-like special text and the end.
inline std::shared_ptr<const grammar::TokenTrie> small_trie(const std::vector<std::string>& texts = {}) {
    std::vector<grammar::TokenText> tokens;
    for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte))});
    for (const std::string& text : texts) tokens.push_back({text});
    tokens.push_back({"<|special|>", grammar::TokenText::Kind::Special});
    tokens.push_back({"<|end|>", grammar::TokenText::Kind::End});
    auto trie = grammar::TokenTrie::create(tokens);
    EXPECT_TRUE(trie.has_value());
    return *trie;
}

inline grammar::Matcher matcher_for(std::shared_ptr<const grammar::Grammar> grammar,
                                    std::shared_ptr<const grammar::TokenTrie> trie = small_trie()) {
    auto cache = grammar::MaskCache::create(std::move(grammar), std::move(trie));
    EXPECT_TRUE(cache.has_value()) << (cache ? "" : cache.error().message);
    return grammar::Matcher(*cache);
}

inline std::vector<uint64_t> mask_of(grammar::Matcher& matcher) {
    std::vector<uint64_t> words(matcher.cache().trie().mask_words());
    matcher.mask(words);
    return words;
}

inline bool has(const std::vector<uint64_t>& words, int32_t id) {
    return words[static_cast<size_t>(id) / 64] >> (id % 64) & 1;
}

/// Whether the whole text is an output of the grammar.
inline bool accepts(grammar::Matcher& matcher, std::string_view text) {
    matcher.reset();
    return matcher.accept_bytes(text) && matcher.is_accepting();
}

/// Bytes of the first n code points.
inline size_t bytes_of(const std::string& text, size_t n_code_points) {
    size_t at = 0;
    for (; at < text.size() && n_code_points > 0; n_code_points--) {
        at++;
        while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) at++;
    }
    return at;
}

}  // namespace tessera::test
