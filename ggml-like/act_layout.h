#pragma once
// Memory layout of an activation buffer: its floats, then its int8 image, each array on cache lines of its
// own. Every owner of activation memory uses these functions.
#include "ggml-like/op_types.h"

namespace tessera {

/// Sets the pointers of a described buffer to arrays for `rows` rows. `memory` has the interface of
/// Arena::take(): it hands out memory, or only counts bytes.
template <class Memory>
void allocate_act(ActBuffer& act, int64_t rows, Memory& memory) {
    const auto n = static_cast<size_t>(rows * act.dim);
    if (act.needs_f32) act.f32 = memory.template take<float>(n).data();
    if (!act.needs_int8) return;
    act.q = memory.template take<int8_t>(n).data();
    act.d = memory.template take<float>(n / 32).data();
    act.s = memory.template take<float>(n / 32).data();
    act.sum16 = memory.template take<int16_t>(n / 16).data();
    act.sum8 = memory.template take<int16_t>(n / 8).data();
}

/// Sets the pointers of routes to arrays for n_tok tokens.
template <class Memory>
void allocate_routes(MoeRoutes& routes, int64_t n_tok, Memory& memory) {
    const auto n = static_cast<size_t>(n_tok * routes.n_used);
    routes.expert = memory.template take<int32_t>(n).data();
    routes.weight = memory.template take<float>(n).data();
    routes.row_of_slot = memory.template take<int32_t>(n).data();
    routes.token_of_row = memory.template take<int32_t>(n).data();
    routes.expert_offset = memory.template take<int32_t>(static_cast<size_t>(routes.n_expert + 1)).data();
    routes.active_experts = memory.template take<int32_t>(static_cast<size_t>(routes.n_expert)).data();
}

}  // namespace tessera
