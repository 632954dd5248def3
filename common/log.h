#pragma once
// One callback sink with levels. The library is silent until a program sets a sink.
#include <functional>
#include <string_view>

namespace tessera::log {

enum class Level { Debug, Info, Warn, Error };

using Sink = std::function<void(Level, std::string_view message)>;

/// Replaces the sink; an empty one discards messages. Thread-safe; no lock is held while the sink is called.
void set_sink(Sink sink);

void debug(const char* format, ...) __attribute__((format(printf, 1, 2)));
void info(const char* format, ...) __attribute__((format(printf, 1, 2)));
void warn(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace tessera::log
