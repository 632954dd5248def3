#pragma once
// Quantiles of samples.
#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

/// The value below which `share` (0..1) of the values lies, interpolated linearly; 0 without values. `sorted`
/// is in ascending order.
template <class T>
double quantile(const std::vector<T>& sorted, double share) {
    if (sorted.empty()) return 0;
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    const double part = at - static_cast<double>(below);
    return (1 - part) * static_cast<double>(sorted[below]) + part * static_cast<double>(sorted[above]);
}

}  // namespace tessera
