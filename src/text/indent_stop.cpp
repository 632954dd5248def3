// Holds back a line's indentation until it is long enough or the line turns out to be blank.
#include "src/text/indent_stop.h"

namespace tessera::text {

std::string_view IndentStop::push(std::string_view text) {
    if (least_ <= 0) return text;
    out_.clear();
    for (const char c : text) {
        if (hit_) break;
        const bool is_blank = c == ' ' || c == '\t', is_end = c == '\n' || c == '\r';
        if (in_indent_ && !is_blank && !is_end && static_cast<int64_t>(held_.size()) < least_) {
            hit_ = true;
            held_.clear();
            break;
        }
        if (in_indent_ && is_blank) {
            held_ += c;
            continue;
        }
        out_ += held_;
        out_ += c;
        held_.clear();
        in_indent_ = is_end;
    }
    return out_;
}

std::string_view IndentStop::flush() {
    out_.swap(held_);
    held_.clear();
    return out_;
}

}  // namespace tessera::text
