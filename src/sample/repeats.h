#pragma once
// The recent tokens of a text, and earlier occurrences of its end. Private to this folder.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::sample {

/// A sliding window over the text. After construction nothing allocates.
class Repeats {
  public:
    /// Window of n_window tokens, at least 1.
    explicit Repeats(size_t n_window) : n_window_(n_window), tokens_(2 * n_window), lengths_(n_window) {}

    void push(int32_t id) {
        if (end_ == tokens_.size()) {  // once in n_window pushes
            std::copy(tokens_.end() - static_cast<ptrdiff_t>(n_window_), tokens_.end(), tokens_.begin());
            end_ = n_window_;
        }
        tokens_[end_++] = id;
    }
    void clear() { end_ = 0; }
    size_t size() const { return std::min(end_, n_window_); }

    /// Calls found(id, length) for every earlier position: the `length` tokens before it equal the last ones
    /// of the text (counted up to `longest`, may be 0), and id is the token at that position. O(size()), by
    /// the Z algorithm (Gusfield, "Algorithms on strings, trees, and sequences", 1997) on the text read
    /// backwards.
    template <class Found>
    void find(size_t longest, Found found) {
        const size_t n = size();
        if (n == 0) return;
        const int32_t* const last = tokens_.data() + end_ - 1;
        const auto token = [last](size_t i) { return *(last - i); };  // 0 is the newest
        // [left, right) is the match with the newest tokens that ends furthest back so far.
        size_t left = 0, right = 0;
        for (size_t i = 1; i < n; i++) {
            size_t length = i < right ? std::min<size_t>(right - i, lengths_[i - left]) : 0;
            if (i + length >= right) {
                while (i + length < n && token(length) == token(i + length)) length++;
                left = i;
                right = i + length;
            }
            lengths_[i] = static_cast<uint32_t>(length);
            found(token(i - 1), std::min(length, longest));
        }
        found(token(n - 1), size_t{0});
    }

  private:
    size_t n_window_;
    std::vector<int32_t> tokens_;    // [2 * n_window], of which [end - size, end) are the window
    std::vector<uint32_t> lengths_;  // [n_window] scratch of find()
    size_t end_ = 0;
};

}  // namespace tessera::sample
