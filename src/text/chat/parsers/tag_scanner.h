#pragma once
// Finds tags in a stream of bytes, whichever way it is cut.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::chat {

/// Holds back what may become a tag. Of several tags that begin at one place the shortest counts; none may be
/// empty.
class TagScanner {
  public:
    /// The tags looked for from here on; what is held back is looked at anew with the next byte.
    void set_tags(std::vector<std::string_view> tags) { tags_ = std::move(tags); }

    /// One more byte: calls on_text(byte) for each that is no part of a tag, on_tag(number) for a whole tag.
    /// Both may call set_tags.
    template <class OnText, class OnTag>
    void push(char byte, OnText on_text, OnTag on_tag) {
        held_ += byte;
        settle(on_text, on_tag);
    }

    /// What is held back is text after all.
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
