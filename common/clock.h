#pragma once
// The steady clock as a number, for whoever measures or waits.
#include <chrono>

namespace tessera {

/// Seconds since some moment in the past; never goes back. Any thread.
inline double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
