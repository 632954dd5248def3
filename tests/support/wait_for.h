#pragma once
// Waiting for a condition with a deadline, and whether threads sleep.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <unistd.h>

namespace tessera::test {

/// Whether the condition held before the deadline, which only a failing test reaches.
template <class Condition>
bool wait_for(const Condition& condition, std::chrono::seconds deadline = std::chrono::seconds(30)) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/// Whether a thread of this process is blocked: state S in /proc/self/task/ID/stat, behind the name in
/// parentheses.
inline bool sleeps(const std::string& thread_id) {
    std::string line;
    std::getline(std::ifstream("/proc/self/task/" + thread_id + "/stat"), line);
    const size_t name_end = line.rfind(')');
    return name_end != std::string::npos && line.compare(name_end + 1, 2, " S") == 0;
}

/// Whether all threads of this process but the calling one are blocked.
inline bool all_others_sleep() {
    const std::string own = std::to_string(gettid());
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        const std::string id = task.path().filename();
        if (id != own && !sleeps(id)) return false;
    }
    return true;
}

}  // namespace tessera::test
