// Searches for stop strings in a stream. The pending text is always shorter than the longest stop string plus
// the last chunk, so a naive search is fast enough.
#include "src/text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace tessera::text {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

/// Length of the longest suffix of pending_ that is the beginning of some stop string.
size_t StopStrings::held_back() const {
    size_t most = 0;
    const std::string_view text = pending_;
    for (const std::string& stop : stops_)
        for (size_t n = std::min(stop.size() - 1, text.size()); n > most; --n)
            if (text.ends_with(std::string_view(stop).substr(0, n))) most = n;
    return most;
}

std::string_view StopStrings::push(std::string_view text) {
    pending_.erase(0, n_returned_);
    n_returned_ = 0;
    if (hit_ >= 0) return {};
    pending_ += text;
    size_t end = std::string::npos;
    for (size_t i = 0; i < stops_.size(); ++i) {
        const size_t at = pending_.find(stops_[i]);
        if (at >= end) continue;
        end = at;
        hit_ = static_cast<int>(i);
    }
    n_returned_ = hit_ >= 0 ? end : pending_.size() - held_back();
    return std::string_view(pending_).substr(0, n_returned_);
}

std::string_view StopStrings::flush() {
    pending_.erase(0, n_returned_);
    n_returned_ = hit_ >= 0 ? 0 : pending_.size();
    return std::string_view(pending_).substr(0, n_returned_);
}

}  // namespace tessera::text
