// The weights that a thread reads first in a phase are the ones that it reads first in the next pass.
#include "ggml-like/cpu/phase_starts.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using cpu::PhaseStarts;

constexpr int kThreads = 2, kPhases = 3;
std::byte g_memory[kThreads * (kPhases + 1)];
/// The bytes that thread `worker` reads in a phase.
Streams reads(int worker, int phase) { return {g_memory + worker * (kPhases + 1) + phase, 64, 4}; }

TEST(PhaseStarts, ThePassBeforeTellsWhatIsNext) {
    PhaseStarts starts(kThreads);
    for (int pass = 0; pass < 3; pass++) {
        starts.begin_pass();
        for (int phase = 1; phase <= kPhases; phase++) {
            starts.begin_phase();
            for (int worker = 0; worker < kThreads; worker++) {
                const Streams next = starts.next(worker, reads(worker, phase));
                if (pass == 0) {
                    EXPECT_EQ(next.n, 0);
                } else {
                    EXPECT_EQ(next.first, reads(worker, phase % kPhases + 1).first);
                    EXPECT_EQ(next.apart, 64);
                    EXPECT_EQ(next.n, 4);
                }
                // Once a phase, whatever else is read there.
                EXPECT_EQ(starts.next(worker, reads(worker, 0)).n, 0);
            }
        }
    }
}

TEST(PhaseStarts, APhaseWithoutReadsHasNoPrediction) {
    PhaseStarts starts(1);
    for (int pass = 0; pass < 2; pass++) {
        starts.begin_pass();
        for (int phase = 1; phase <= 3; phase++) {
            starts.begin_phase();
            if (phase == 2) continue;
            EXPECT_EQ(starts.next(0, reads(0, phase)).n, pass == 1 && phase == 3 ? 4 : 0);
        }
    }
}

TEST(PhaseStarts, PhasesWithoutNumberGoWithout) {
    PhaseStarts starts(1);
    for (int pass = 0; pass < 2; pass++) {
        starts.begin_pass();
        for (int phase = 1; phase < 5000; phase++) {
            starts.begin_phase();
            const Streams next = starts.next(0, reads(0, 1));
            EXPECT_EQ(next.n, pass == 1 && phase < 1022 ? 4 : 0) << phase;
        }
    }
}

}  // namespace
}  // namespace tessera
