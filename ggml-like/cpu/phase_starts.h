#pragma once
// What a thread of few tokens will likely read first in the phase to come. It sets speed, never results.
#include <array>
#include <vector>

#include "common/threads.h"

namespace tessera::cpu {

/// Which weights each thread read first in each phase of the last pass over the model. A pass goes through
/// the same matrices as the one before it, and a thread through the same rows of them, so what it read then
/// in the next phase it likely reads now. Phases count if they multiply; those that are not told are left
/// out.
class PhaseStarts {
  public:
    explicit PhaseStarts(int n_threads) : threads_(static_cast<size_t>(n_threads)) {}

    /// By the caller of phases, between them.
    void begin_pass() {
        n_phases_ = phase_;
        phase_ = 0;
    }
    void begin_phase() { ++phase_; }

    /// By `worker`, of what it reads now. The first time in a phase this is noted and returns what it read
    /// first in the phase behind, else nothing, as where that is not known.
    Streams next(int worker, const Streams& now) {
        Thread& own = threads_[static_cast<size_t>(worker)];
        if (own.phase == phase_ || phase_ + 1 >= kPhases) return {};
        own.phase = phase_;
        own.first[phase_] = now;
        return own.first[phase_ == n_phases_ ? 1 : phase_ + 1];  // behind a pass's last the next one's first
    }

  private:
    static constexpr size_t kPhases = 1024;  // of a pass; more go without
    struct alignas(128) Thread {
        size_t phase = 0;  // the last that it read in; a pass has none of that number
        std::array<Streams, kPhases> first = {};
    };
    size_t phase_ = 0, n_phases_ = 0;  // the present one; of the pass before
    std::vector<Thread> threads_;
};

}  // namespace tessera::cpu
