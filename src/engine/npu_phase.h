#pragma once
// The phases, prefill and decode, that an NPU computes.
#include <cstdint>
#include <string_view>

#include "common/expected.h"

namespace tessera::engine {

/// Phase of a token: Prefill for prompt tokens, Decode for generated tokens (sampled, or forced by a
/// grammar). It depends only on the token's position in the text, not on the split into passes.
enum class Phase : uint8_t { Prefill, Decode };

/// The user's choice. Auto: by estimated times (npu/phase_cost.h).
enum class NpuPhase : uint8_t { Prefill, Decode, Both, Auto };

/// Parses "prefill", "decode", "both" or "auto"; errors list these.
Result<NpuPhase> npu_phase_from_name(std::string_view name);
std::string_view npu_phase_name(NpuPhase phase);

}  // namespace tessera::engine
