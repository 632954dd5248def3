// Formatting of errors. check_failed() is the only place where the library ends the process, on its own bugs.
#include "common/expected.h"

#include <cstdio>
#include <cstdlib>

namespace tessera {

std::string vstrf(const char* format, va_list args) {
    va_list again;
    va_copy(again, args);
    const int n = std::vsnprintf(nullptr, 0, format, args);
    std::string text(n > 0 ? static_cast<size_t>(n) : 0, '\0');
    if (n > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
    va_end(again);
    return text;
}

const char* error_code_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::InvalidArgument:
            return "invalid argument";
        case ErrorCode::NotFound:
            return "not found";
        case ErrorCode::Malformed:
            return "malformed";
        case ErrorCode::Unsupported:
            return "unsupported";
        case ErrorCode::OutOfMemory:
            return "out of memory";
        case ErrorCode::Io:
            return "input/output error";
        case ErrorCode::Cancelled:
            return "cancelled";
        case ErrorCode::Busy:
            return "busy";
        case ErrorCode::Internal:
            return "internal error";
    }
    return "unknown";
}

std::string strf(const char* format, ...) {
    va_list args;
    va_start(args, format);
    std::string text = vstrf(format, args);
    va_end(args);
    return text;
}

tl::unexpected<Error> fail(ErrorCode code, const char* format, ...) {
    va_list args;
    va_start(args, format);
    Error error{code, vstrf(format, args)};
    va_end(args);
    return tl::unexpected<Error>(std::move(error));
}

tl::unexpected<Error> fail_in(const std::string& context, Error error) {
    error.message = context + ": " + error.message;
    return tl::unexpected<Error>(std::move(error));
}

void check_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "tessera: internal error: %s (%s:%d)\n", condition, file, line);
    std::abort();
}

}  // namespace tessera
