// Chains of one instruction over operands in registers. The instruction sets define a link of the chain; see
// arch/avx2/probe.cpp. Included by ISA units; no std headers here.
//
// A Link has: Acc, an accumulator; kChains of them, enough to hide the latency of a link times the links
// started per cycle; kMacs, multiply-accumulates of one link; zero(); first() and second(), the operands;
// step(acc, w, x), which hides from the compiler that w (or acc) did not change, so that it neither drops nor
// merges links; and hide(acc), which keeps the result.
#include "quants/kernels/inline.h"
#include "quants/kernels/probe.h"

namespace tessera::kernels {

namespace {

template <class Link>
void run_chains(int64_t n_rounds) {
    typename Link::Acc acc[Link::kChains];
    TSR_UNROLL
    for (int i = 0; i < Link::kChains; i++) acc[i] = Link::zero();
    auto w = Link::first();
    const auto x = Link::second();
    for (int64_t round = 0; round < n_rounds; round++) {
        TSR_UNROLL
        for (int i = 0; i < Link::kChains; i++) Link::step(acc[i], w, x);
    }
    TSR_UNROLL
    for (int i = 0; i < Link::kChains; i++) Link::hide(acc[i]);
}

template <class Link>
constexpr ProbeChain chain_of() {
    return {run_chains<Link>, Link::kChains * Link::kMacs};
}

}  // namespace

}  // namespace tessera::kernels
