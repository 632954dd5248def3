// Owns the process-wide log sink. No lock is held while a message is formatted and delivered, so a sink may
// log or replace itself; a call of the old sink may therefore still run after set_sink() returned.
#include "common/log.h"

#include <cstdarg>
#include <memory>
#include <mutex>
#include <utility>

#include "common/expected.h"

namespace tessera::log {

namespace {

struct SinkSlot {
    std::mutex mutex;
    std::shared_ptr<const Sink> sink;
};

// Never destroyed: threads may log while static objects are being destroyed.
SinkSlot& slot() {
    static SinkSlot* const instance = new SinkSlot;
    return *instance;
}

void emit(Level level, const char* format, va_list args) __attribute__((format(printf, 2, 0)));

void emit(Level level, const char* format, va_list args) {
    std::shared_ptr<const Sink> sink;
    {
        const std::lock_guard lock(slot().mutex);
        sink = slot().sink;
    }
    if (sink) (*sink)(level, vstrf(format, args));
}

}  // namespace

void set_sink(Sink sink) {
    std::shared_ptr<const Sink> next = sink ? std::make_shared<const Sink>(std::move(sink)) : nullptr;
    {
        const std::lock_guard lock(slot().mutex);
        slot().sink.swap(next);
    }
}

void debug(const char* format, ...) {
    va_list args;
    va_start(args, format);
    emit(Level::Debug, format, args);
    va_end(args);
}

void info(const char* format, ...) {
    va_list args;
    va_start(args, format);
    emit(Level::Info, format, args);
    va_end(args);
}

void warn(const char* format, ...) {
    va_list args;
    va_start(args, format);
    emit(Level::Warn, format, args);
    va_end(args);
}

}  // namespace tessera::log
