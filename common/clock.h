#pragma once
// The steady clock as a number, for measuring and waiting.
#include <chrono>

namespace tessera {

/// Seconds since an arbitrary start; monotonic. Any thread.
inline double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
