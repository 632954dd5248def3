// Names of the phases, for options and the C interface. scheduler.cpp implements them for completions,
// session.h for sessions.
#include "src/engine/npu_phase.h"

#include "common/strings.h"

namespace tessera::engine {

namespace {

constexpr std::string_view kNames[] = {"prefill", "decode", "both", "auto"};

}  // namespace

Result<NpuPhase> npu_phase_from_name(std::string_view name) {
    for (const NpuPhase phase : {NpuPhase::Prefill, NpuPhase::Decode, NpuPhase::Both, NpuPhase::Auto})
        if (npu_phase_name(phase) == name) return phase;
    return fail(ErrorCode::InvalidArgument, "npu phase: expected prefill, decode, both or auto, found '%s'",
                printable(name).c_str());
}

std::string_view npu_phase_name(NpuPhase phase) { return kNames[static_cast<size_t>(phase)]; }

}  // namespace tessera::engine
