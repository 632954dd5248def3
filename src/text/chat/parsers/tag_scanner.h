#pragma once
// Finds tags in a stream of bytes, independent of how it is split.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::chat {

/// Holds back text that may become a tag. Of several tags that begin at the same position the shortest
/// matches; none may be empty.
class TagScanner {
  public:
    /// Sets the tags to search from here on; text held back is scanned again with the next byte.
    void set_tags(std::vector<std::string_view> tags) { tags_ = std::move(tags); }

    /// Takes one more byte: calls on_text(byte) for each byte outside of tags, and on_tag(index) for a whole
    /// tag. Both may call set_tags.
    template <class OnText, class OnTag>
    void push(char byte, OnText on_text, OnTag on_tag) {
        held_ += byte;
        settle(on_text, on_tag);
    }

    /// Passes all text held back to on_text.
    template <class OnText>
    void flush(OnText on_text) {
        const std::string rest = std::exchange(held_, {});
        for (const char c : rest) on_text(c);
    }

  private:
    template <class OnText, class OnTag>
    void settle(OnText on_text, OnTag on_tag) {
        while (!held_.empty()) {
            bool may_grow = false;
            for (size_t i = 0; i < tags_.size(); i++) {
                if (tags_[i] == held_) {
                    held_.clear();
                    on_tag(i);
                    return;
                }
                may_grow |= tags_[i].starts_with(held_);
            }
            if (may_grow) return;
            const char first = held_[0];
            held_.erase(0, 1);
            on_text(first);
        }
    }

    std::vector<std::string_view> tags_;
    std::string held_;
};

}  // namespace tessera::chat
