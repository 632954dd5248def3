// Builds the automaton level by level from the sorted strings: nodes of one depth are adjacent, and a node's
// failure link, which is shallower, exists before it is needed.
#include "src/sample/byte_matcher.h"

#include <algorithm>

namespace tessera::sample {

ByteMatcher::ByteMatcher(std::span<const std::string> strings) {
    std::vector<std::string_view> sorted(strings.begin(), strings.end());
    std::sort(sorted.begin(), sorted.end());
    struct Range {
        size_t begin, end;  // range in `sorted` of the strings that begin with the node's bytes
    };
    std::vector<Range> ranges = {{0, sorted.size()}};
    nodes_.emplace_back();
    for (uint32_t at = 0; at < nodes_.size(); at++) {
        const uint32_t depth = nodes_[at].depth;
        nodes_[at].first = static_cast<uint32_t>(edges_.size());
        for (size_t i = ranges[at].begin; i < ranges[at].end;) {
            if (sorted[i].size() == depth) {
                i++;
                continue;
            }
            const char c = sorted[i][depth];
            size_t end = i;
            while (end < ranges[at].end && sorted[end][depth] == c) end++;
            Node child;
            child.depth = depth + 1;
            // The root's failure link is the root itself, and so is that of nodes of one byte.
            child.fail = at == 0 ? 0 : next(nodes_[at].fail, static_cast<uint8_t>(c));
            const uint32_t inherited = nodes_[child.fail].match;
            const bool whole = sorted[i].size() == child.depth;
            child.match = inherited ? inherited : whole ? child.depth : 0;
            edges_.push_back({static_cast<uint8_t>(c), static_cast<uint32_t>(nodes_.size())});
            nodes_[at].n++;
            nodes_.push_back(child);
            ranges.push_back({i, end});
            i = end;
        }
    }
}

const ByteMatcher::Edge* ByteMatcher::edge(uint32_t node, uint8_t byte) const {
    const Edge* const begin = edges_.data() + nodes_[node].first;
    const Edge* const end = begin + nodes_[node].n;
    const Edge* const found =
        std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
    return found != end && found->byte == byte ? found : nullptr;
}

uint32_t ByteMatcher::next(uint32_t node, uint8_t byte) const {
    for (;;) {
        if (const Edge* found = edge(node, byte)) return found->node;
        if (node == 0) return 0;
        node = nodes_[node].fail;
    }
}

size_t ByteMatcher::push(uint8_t byte) {
    state_ = next(state_, byte);
    return nodes_[state_].match;
}

bool ByteMatcher::push_all(std::string_view bytes) {
    bool found = false;
    for (const char c : bytes) found |= push(static_cast<uint8_t>(c)) > 0;
    return found;
}

}  // namespace tessera::sample
