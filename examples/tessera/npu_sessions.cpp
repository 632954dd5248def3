// The sessions of a compiled model as text, for npu compile and npu inspect.
#include "examples/tessera/npu_sessions.h"

#include "common/strings.h"

namespace tessera {

std::string npu_sessions_text(const npu::DeviceModel& model, const npu::HtpDevice& device) {
    const auto bytes = [](int64_t n) { return format_bytes(static_cast<uint64_t>(n)); };
    std::string out;
    for (size_t i = 0; i < model.sessions.size(); ++i) {
        const npu::DeviceSession& session = model.sessions[i];
        out += strf("session %zu of %zu: %s of %s: constants %s, activations %s, keys and values %s\n", i + 1,
                    model.sessions.size(), bytes(session.bytes()).c_str(),
                    bytes(device.session_bytes).c_str(), bytes(session.constants.bytes).c_str(),
                    bytes(session.arena.bytes).c_str(), bytes(session.cache.bytes).c_str());
    }
    return out;
}

}  // namespace tessera
