// Runs one automaton for all strings over the bytes of the text. The longest partial match is held back;
// every match lies within it. Next: banned_strings.cpp (single tokens).
#include "src/sample/string_ban.h"

#include <algorithm>

namespace tessera::sample {

StringBan::StringBan(std::span<const std::string> strings, const text::Tokenizer& tokenizer)
    : matcher_(strings), tokenizer_(&tokenizer) {
    for (const std::string& string : strings) n_tail_ = std::max(n_tail_, string.size() - 1);
}

std::string_view StringBan::bytes_of(int32_t id) const {
    const text::Vocab& vocab = tokenizer_->vocab();
    return vocab.contains(id) && vocab.is_hidden(id) ? std::string_view() : tokenizer_->token_bytes(id);
}

Result<void> StringBan::push(int32_t id) {
    released_.clear();
    banned_.clear();
    n_rewind_ = 0;
    const size_t begin = ends_.empty() ? 0 : ends_.back();
    const std::string_view bytes = bytes_of(id);
    held_.push_back(id);
    ends_.push_back(begin + bytes.size());
    for (size_t i = 0; i < bytes.size(); i++) {
        const size_t length = matcher_.push(static_cast<uint8_t>(bytes[i]));
        if (length == 0) continue;
        const size_t end = begin + i + 1;
        const size_t start = end > length ? end - length : 0;
        const auto first = std::upper_bound(ends_.begin(), ends_.end(), start);
        if (++n_rewinds_ > kMaxRewinds)
            return fail(ErrorCode::Unsupported,
                        "banned_strings: %zu attempts in a row ended in a banned string", kMaxRewinds);
        rewind(static_cast<size_t>(first - ends_.begin()));
        break;
    }
    if (n_rewind_ == 0) release(ends_.back() - std::min(ends_.back(), matcher_.n_pending()));
    const size_t next = n_released_ + held_.size();
    std::erase_if(bans_, [&](const Ban& ban) { return ban.position < n_released_; });
    for (const Ban& ban : bans_) {
        if (ban.position == next) banned_.push_back(ban.id);
    }
    return {};
}

/// Drops all held tokens but the first `kept`, and bans the first dropped one at its position.
void StringBan::rewind(size_t kept) {
    n_rewind_ = held_.size() - kept;
    const size_t position = n_released_ + kept;
    // Bans at later positions belong to text that was discarded.
    std::erase_if(bans_, [&](const Ban& ban) { return ban.position > position; });
    bans_.push_back({position, held_[kept]});
    held_.resize(kept);
    ends_.resize(kept);
    matcher_.reset();
    matcher_.push_all(tail_);
    for (const int32_t id : held_) matcher_.push_all(bytes_of(id));
}

/// Releases the tokens that end within the first n_bytes held.
void StringBan::release(size_t n_bytes) {
    const auto n = std::upper_bound(ends_.begin(), ends_.end(), n_bytes) - ends_.begin();
    if (n == 0) return;
    n_rewinds_ = 0;
    n_released_ += static_cast<size_t>(n);
    released_.assign(held_.begin(), held_.begin() + n);
    for (const int32_t id : released_) tail_ += bytes_of(id);
    if (tail_.size() > n_tail_) tail_.erase(0, tail_.size() - n_tail_);
    held_.erase(held_.begin(), held_.begin() + n);
    const size_t cut = ends_[static_cast<size_t>(n - 1)];
    ends_.erase(ends_.begin(), ends_.begin() + n);
    for (size_t& end : ends_) end -= cut;
}

}  // namespace tessera::sample
