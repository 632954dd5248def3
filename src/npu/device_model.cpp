// Offsets of the sessions' memories, which follow from their sizes and therefore are not stored in files.
// Sizes are not validated here; model_check.cpp does that.
#include "src/npu/device_model.h"

#include "src/npu/constants.h"

namespace tessera::npu {

void place_sessions(DeviceModel& model) {
    uint64_t constants = 0, arena = 0, cache = 0;
    const auto place = [](Extent& part, uint64_t& end) {
        constexpr uint64_t kUnit = Constants::kAlignment;
        part.at = part.bytes == 0 ? end : (end + kUnit - 1) / kUnit * kUnit;
        end = part.at + static_cast<uint64_t>(part.bytes);
    };
    for (DeviceSession& session : model.sessions) {
        place(session.constants, constants);
        place(session.arena, arena);
        place(session.cache, cache);
    }
    model.arena_bytes = static_cast<int64_t>(arena);
    model.cache_bytes = static_cast<int64_t>(cache);
}

}  // namespace tessera::npu
