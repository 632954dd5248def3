// Searches for tags in the bytes of tokens, since a tag is one special token in some vocabularies and several
// text tokens in others. completion.cpp calls this and inserts the closing text.
#include "src/engine/reasoning.h"

#include <algorithm>

namespace tessera::engine {

namespace {

/// Length of the longest suffix of the text that is a proper prefix of the tag.
size_t begun(std::string_view text, std::string_view mark) {
    size_t n = std::min(text.size(), mark.size() - 1);
    while (n > 0 && !mark.starts_with(text.substr(text.size() - n))) --n;
    return n;
}

}  // namespace

void ReasoningWatch::push(std::string_view bytes) {
    tail_ += bytes;
    bool was_inside = is_inside_;
    for (;;) {
        const std::string& mark = is_inside_ ? limit_.end : limit_.begin;
        const size_t at = tail_.find(mark);
        if (at == std::string::npos) break;
        tail_.erase(0, at + mark.size());
        is_inside_ = !is_inside_;
        is_closed_ = was_inside = false;
    }
    if (was_inside) ++n_tokens_;
    tail_.erase(0, tail_.size() - begun(tail_, is_inside_ ? limit_.end : limit_.begin));
}

bool ReasoningWatch::is_spent() const {
    if (!is_inside_ || is_closed_ || n_tokens_ < limit_.max_tokens) return false;
    // Bounded, since a model may repeat the first half of the tag without end.
    const auto patience = static_cast<int64_t>(limit_.end.size());
    return tail_.empty() || n_tokens_ >= limit_.max_tokens + patience;
}

}  // namespace tessera::engine
