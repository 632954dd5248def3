#pragma once
// How an activation lies in memory: its floats, then its int8 image, each piece on its own cache lines. One
// rule for whoever owns the memory.
#include "ggml-like/backend.h"

namespace tessera {

/// Pieces for `rows` rows of an activation that is described already. `memory` has Arena's take(): it hands
/// them out, or counts them.
template <class Memory>
void place_act(Act& act, int64_t rows, Memory& memory) {
    const auto n = static_cast<size_t>(rows * act.dim);
    if (act.wants_f32 || !act.is_copy) act.f32 = memory.template take<float>(n).data();
    if (!act.wants_int8) return;
    act.q = memory.template take<int8_t>(n).data();
    act.d = memory.template take<float>(n / 32).data();
    act.s = memory.template take<float>(n / 32).data();
    act.sum16 = memory.template take<int16_t>(n / 16).data();
    act.sum8 = memory.template take<int16_t>(n / 8).data();
}

/// The same for the routes of n_tok tokens.
template <class Memory>
void place_routes(MoeRoutes& routes, int64_t n_tok, Memory& memory) {
    const auto n = static_cast<size_t>(n_tok * routes.n_used);
    routes.expert = memory.template take<int32_t>(n).data();
    routes.weight = memory.template take<float>(n).data();
    routes.slot = memory.template take<int32_t>(n).data();
    routes.token = memory.template take<int32_t>(n).data();
    routes.first = memory.template take<int32_t>(static_cast<size_t>(routes.n_expert + 1)).data();
    routes.chosen = memory.template take<int32_t>(static_cast<size_t>(routes.n_expert)).data();
}

}  // namespace tessera
