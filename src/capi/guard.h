#pragma once
// Between the C interface and the engine: results become statuses, exceptions of third-party code are caught,
// and structs of other library versions are read and written up to the smaller size.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string_view>

#include "common/expected.h"
#include "include/tessera.h"

namespace tessera::capi {

inline tsr_status status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::InvalidArgument:
            return TSR_INVALID_ARGUMENT;
        case ErrorCode::NotFound:
            return TSR_NOT_FOUND;
        case ErrorCode::Malformed:
            return TSR_MALFORMED;
        case ErrorCode::Unsupported:
            return TSR_UNSUPPORTED;
        case ErrorCode::OutOfMemory:
            return TSR_OUT_OF_MEMORY;
        case ErrorCode::Io:
            return TSR_IO;
        case ErrorCode::Cancelled:
            return TSR_CANCELLED;
        case ErrorCode::Busy:
            return TSR_BUSY;
        case ErrorCode::Internal:
            return TSR_INTERNAL;
    }
    return TSR_INTERNAL;
}

inline tsr_status report(tsr_error* error, tsr_status status, const char* message) {
    if (!error) return status;
    error->status = status;
    std::snprintf(error->message, sizeof error->message, "%s", message);
    return status;
}

/// Runs the body of an interface function and turns its result into a status.
template <class Fn>
tsr_status guarded(tsr_error* error, Fn&& fn) noexcept {
    try {
        const Result<void> done = fn();
        if (!done) return report(error, status_of(done.error().code), done.error().message.c_str());
        return report(error, TSR_OK, "");
    } catch (const std::bad_alloc&) {
        return report(error, TSR_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception& thrown) {
        return report(error, TSR_INTERNAL, thrown.what());
    } catch (...) {
        return report(error, TSR_INTERNAL, "unknown exception");
    }
}

inline Result<void> need(const void* pointer, const char* name) {
    if (pointer) return {};
    return fail(ErrorCode::InvalidArgument, "%s: expected a pointer, found NULL", name);
}

/// n elements at `pointer`, which may be null when n is 0.
template <class T>
Result<std::span<const T>> need_span(const T* pointer, size_t n, const char* name) {
    if (!pointer && n > 0)
        return fail(ErrorCode::InvalidArgument, "%s: expected %zu elements, found NULL", name, n);
    return std::span<const T>(pointer, n);
}

inline Result<std::string_view> need_text(const char* text, size_t n, const char* name) {
    TSR_TRY(const auto bytes, need_span(text, n, name));
    return std::string_view(bytes.data(), bytes.size());
}

/// The caller's options, with zeros for fields beyond the caller's size. Null: all defaults.
template <class T>
Result<T> read_options(const T* options, const char* name) {
    T out{};
    out.size = sizeof(T);
    if (!options) return out;
    if (options->size < sizeof(size_t) || options->size > size_t{1} << 16)
        return fail(ErrorCode::InvalidArgument, "%s: expected its size in the first field, found %zu", name,
                    options->size);
    std::memcpy(&out, options, std::min(options->size, sizeof(T)));
    out.size = sizeof(T);
    return out;
}

/// Copies into the caller's struct, up to its size; the size field is left unchanged.
template <class T>
Result<void> write_struct(const T& from, T* to, const char* name) {
    TSR_TRY_VOID(need(to, name));
    if (to->size < sizeof(size_t) || to->size > size_t{1} << 16)
        return fail(ErrorCode::InvalidArgument, "%s: expected its size in the first field, found %zu", name,
                    to->size);
    const size_t n = std::min(to->size, sizeof(T));
    std::memcpy(reinterpret_cast<char*>(to) + sizeof(size_t),
                reinterpret_cast<const char*>(&from) + sizeof(size_t), n - sizeof(size_t));
    return {};
}

/// A copy, released by tsr_text_free.
Result<void> write_text(std::string_view from, tsr_text* to);

}  // namespace tessera::capi
