// The rooflines of NEON with the dot product instructions, which are those of NEON except for dot products of
// bytes. Method: quants/arch/neon/probe.cpp.
#include <arm_neon.h>

#include "quants/arch/neon/probe.h"
#include "quants/arch/neon/probe_words.h"

namespace tessera::kernels {

namespace {

struct ByteLink : WordLink {
    static constexpr int kMacs = 16;
    TSR_INLINE void step(Acc& acc, int8x16_t& w, int8x16_t x) {
        __asm__ volatile("" : "+w"(w));
        acc = vdotq_s32(acc, w, x);
    }
};

}  // namespace

constinit const ProbeTable kDotprodProbe = {.name = "dotprod",
                                            .read = neon::kReads,
                                            .int8 = chain_of<ByteLink>(),
                                            .fma = {neon::fma_chain, neon::kFmaMacsPerRound}};

}  // namespace tessera::kernels
