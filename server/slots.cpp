// A table behind a mutex: the engine's thread writes it for each token, and /slots reads it. A preempted
// completion keeps its number, so there can be more slots than running completions.
#include "server/slots.h"

#include <algorithm>

namespace tessera::server {

size_t Slots::enter(const State& state) {
    const std::lock_guard lock(mutex_);
    auto free = std::find_if(states_.begin(), states_.end(), [](const auto& one) { return !one; });
    if (free == states_.end()) free = states_.emplace(states_.end());
    *free = state;
    (*free)->task = ++n_begun_;
    return static_cast<size_t>(free - states_.begin());
}

void Slots::read(size_t slot, int64_t n_read) {
    const std::lock_guard lock(mutex_);
    states_[slot]->n_read = n_read;
}

void Slots::wrote(size_t slot) {
    const std::lock_guard lock(mutex_);
    states_[slot]->n_decoded++;
}

void Slots::leave(size_t slot) {
    const std::lock_guard lock(mutex_);
    states_[slot].reset();
    while (!states_.empty() && !states_.back()) states_.pop_back();
}

std::vector<std::optional<Slots::State>> Slots::list(size_t n) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::optional<State>> out = states_;
    out.resize(std::max(n, out.size()));
    return out;
}

}  // namespace tessera::server
