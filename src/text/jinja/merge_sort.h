#pragma once
// A stable sort that stays in bounds for any comparison function: templates may compare NaN, or values that
// cannot be compared. std::sort guarantees that only for strict weak orders.
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::jinja {

/// O(n log n) calls of less(a, b).
template <class T, class Less>
void merge_sort(std::vector<T>& rows, Less less) {
    std::vector<T> merged;
    for (size_t width = 1; width < rows.size(); width *= 2) {
        merged.clear();
        merged.reserve(rows.size());
        for (size_t begin = 0; begin < rows.size(); begin += 2 * width) {
            const size_t middle = begin + width < rows.size() ? begin + width : rows.size();
            const size_t end = middle + width < rows.size() ? middle + width : rows.size();
            for (size_t left = begin, right = middle; left < middle || right < end;) {
                const bool take_right = left == middle || (right < end && less(rows[right], rows[left]));
                merged.push_back(std::move(rows[take_right ? right++ : left++]));
            }
        }
        rows.swap(merged);
    }
}

}  // namespace tessera::jinja
