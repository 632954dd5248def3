// Builds the trie: sorts tokens by their bytes and lays the nodes out depth first. The tokenizer gives each
// token's bytes. Next: mask_cache.cpp, which walks the trie.
#include "src/grammar/token_trie.h"

#include <algorithm>
#include <numeric>

namespace tessera::grammar {

namespace {

constexpr size_t kMaxTokens = 1u << 24;
constexpr size_t kMaxTokenBytes = 0xFFFF;

TokenText describe(const text::Tokenizer& tokenizer, int32_t id) {
    const text::Vocab& vocab = tokenizer.vocab();
    const std::string spelling(vocab.text(id));
    if (vocab.is_end(id)) return {spelling, TokenText::Kind::End};
    switch (vocab.type(id)) {
        case text::TokenType::Control:
            return {spelling, TokenText::Kind::Special};
        case text::TokenType::Unknown:
        case text::TokenType::Unused:
            return {spelling, TokenText::Kind::Never};
        case text::TokenType::Byte:
        case text::TokenType::UserDefined:
        case text::TokenType::Normal:
            break;
    }
    return {std::string(tokenizer.token_bytes(id))};
}

}  // namespace

Result<std::shared_ptr<const TokenTrie>> TokenTrie::create(const text::Tokenizer& tokenizer) {
    const int32_t n = tokenizer.vocab().size();
    std::vector<TokenText> tokens;
    tokens.reserve(static_cast<size_t>(n));
    for (int32_t id = 0; id < n; id++) tokens.push_back(describe(tokenizer, id));
    return create(tokens);
}

Result<std::shared_ptr<const TokenTrie>> TokenTrie::create(std::span<const TokenText> tokens) {
    if (tokens.size() > kMaxTokens)
        return fail(ErrorCode::Unsupported, "the vocabulary has %zu tokens; grammars work with up to %zu",
                    tokens.size(), kMaxTokens);
    std::shared_ptr<TokenTrie> trie(new TokenTrie());
    std::vector<int32_t> sorted;
    for (size_t i = 0; i < tokens.size(); i++) {
        const TokenText& token = tokens[i];
        if (token.bytes.size() > kMaxTokenBytes)
            return fail(ErrorCode::Unsupported, "token %zu has %zu bytes; grammars work with up to %zu", i,
                        token.bytes.size(), kMaxTokenBytes);
        const auto id = static_cast<int32_t>(i);
        trie->offsets_.push_back(static_cast<uint32_t>(trie->bytes_.size()));
        trie->bytes_ += token.bytes;
        // A token without bytes could be chosen forever without progress.
        const bool is_text = token.kind == TokenText::Kind::Text;
        trie->kinds_.push_back(is_text && token.bytes.empty() ? TokenText::Kind::Never : token.kind);
        switch (trie->kinds_.back()) {
            case TokenText::Kind::Text:
                sorted.push_back(id);
                break;
            case TokenText::Kind::Special:
                trie->special_.push_back(id);
                break;
            case TokenText::Kind::End:
                trie->ends_.push_back(id);
                break;
            case TokenText::Kind::Never:
                break;
        }
        if (is_text) trie->max_bytes_ = std::max(trie->max_bytes_, static_cast<uint32_t>(token.bytes.size()));
    }
    trie->offsets_.push_back(static_cast<uint32_t>(trie->bytes_.size()));
    std::sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) {
        const int order = trie->bytes(a).compare(trie->bytes(b));
        return order != 0 ? order < 0 : a < b;
    });
    trie->build(sorted);
    return trie;
}

void TokenTrie::build(std::span<const int32_t> sorted) {
    std::vector<uint32_t> path = {0};  // path from the root to the node added last
    nodes_.push_back({0, 0, 0, 0});
    std::string_view last;
    for (const int32_t id : sorted) {
        const std::string_view text = bytes(id);
        size_t common = 0;
        while (common < last.size() && common < text.size() && last[common] == text[common]) common++;
        while (path.size() > common + 1) {
            nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
            path.pop_back();
        }
        for (size_t i = common; i < text.size(); i++) {
            path.push_back(static_cast<uint32_t>(nodes_.size()));
            nodes_.push_back({0, static_cast<uint32_t>(node_tokens_.size()), static_cast<uint16_t>(i + 1),
                              static_cast<uint8_t>(text[i])});
        }
        node_tokens_.push_back(id);
        last = text;
    }
    for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({0, static_cast<uint32_t>(node_tokens_.size()), 0, 0});
}

std::string_view TokenTrie::bytes(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

}  // namespace tessera::grammar
