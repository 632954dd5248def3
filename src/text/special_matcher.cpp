// The trie of special spellings. Children are linked lists, since nodes have few of them, except the root,
// which has a table. Next: tokenizer.cpp, its only user.
#include "src/text/special_matcher.h"

#include "common/utf8.h"

namespace tessera::text {

SpecialMatcher::SpecialMatcher(const Vocab& vocab) {
    roots_.fill(-1);
    for (int32_t id = 0; id < vocab.size(); id++) {
        const TokenType type = vocab.type(id);
        const bool user_defined = type == TokenType::UserDefined;
        const std::string_view spelling = vocab.text(id);
        // A spelling that is not UTF-8 could match a part of a character.
        if ((user_defined || vocab.is_hidden(id)) && !spelling.empty() &&
            spelling.size() <= kMaxSpellingBytes && utf8::is_valid(spelling))
            insert(spelling, id, user_defined);
    }
}

int32_t SpecialMatcher::child(int32_t node, char byte) const {
    int32_t at = nodes_[static_cast<size_t>(node)].first_child;
    while (at >= 0 && nodes_[static_cast<size_t>(at)].byte != byte)
        at = nodes_[static_cast<size_t>(at)].next_sibling;
    return at;
}

void SpecialMatcher::insert(std::string_view spelling, int32_t id, bool user_defined) {
    const auto new_node = [&](char byte) {
        nodes_.push_back({.byte = byte});
        return static_cast<int32_t>(nodes_.size() - 1);
    };
    int32_t& root = roots_[static_cast<uint8_t>(spelling[0])];
    if (root < 0) root = new_node(spelling[0]);
    int32_t at = root;
    for (const char byte : spelling.substr(1)) {
        int32_t next = child(at, byte);
        if (next < 0) {
            next = new_node(byte);
            nodes_[static_cast<size_t>(next)].next_sibling = nodes_[static_cast<size_t>(at)].first_child;
            nodes_[static_cast<size_t>(at)].first_child = next;
        }
        at = next;
    }
    Node& end = nodes_[static_cast<size_t>(at)];
    if (end.id == kNoToken) end.id = id;
    if (user_defined && end.user_id == kNoToken) end.user_id = id;
}

SpecialMatcher::Match SpecialMatcher::longest_at(std::string_view text, size_t pos,
                                                 bool parse_special) const {
    Match best;
    int32_t at = roots_[static_cast<uint8_t>(text[pos])];
    for (size_t end = pos + 1; at >= 0; end++) {
        const Node& node = nodes_[static_cast<size_t>(at)];
        const int32_t id = parse_special ? node.id : node.user_id;
        if (id != kNoToken) best = {pos, end - pos, id};
        if (end == text.size()) break;
        at = child(at, text[end]);
    }
    return best;
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from, bool parse_special) const {
    for (size_t pos = from; pos < text.size(); pos++) {
        if (roots_[static_cast<uint8_t>(text[pos])] < 0) continue;
        const Match match = longest_at(text, pos, parse_special);
        if (match.n_bytes > 0) return match;
    }
    return {};
}

}  // namespace tessera::text
