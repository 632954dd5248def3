#pragma once
// Which tokens of a text an NPU computes.
#include <cstdint>
#include <string_view>

#include "common/expected.h"

namespace tessera::engine {

/// Of a token: whether the text was given it, or it was written (drawn, or forced by a grammar). It is a
/// matter of the token's position in the text alone, not of how passes are cut.
enum class Phase : uint8_t { Prefill, Decode };

/// What the user wants. Auto: what a model of times makes of it (npu/phase_cost.h).
enum class NpuPhase : uint8_t { Prefill, Decode, Both, Auto };

/// By "prefill", "decode", "both", "auto"; the error lists them.
Result<NpuPhase> npu_phase_from_name(std::string_view name);
std::string_view npu_phase_name(NpuPhase phase);

}  // namespace tessera::engine
