#pragma once
// Result<T> and Error: the return type of every fallible function of tessera. Our code never throws.
#include <cstdarg>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace tessera {

/// The kind of a failure, for callers; people read the message.
enum class ErrorCode {
    InvalidArgument,  ///< a flag, option or field is ill-typed or out of range
    NotFound,         ///< a file, key, tensor or name does not exist
    Malformed,        ///< a file or text breaks its format
    Unsupported,      ///< well-formed, but not supported
    OutOfMemory,      ///< a named buffer did not fit
    Io,               ///< the system refused a read, write or map
    Cancelled,        ///< the caller's abort flag was seen
    Busy,             ///< a queue is full; a retry may succeed
    Internal,         ///< a bug of tessera
};

/// Stable lower-case name of a code, e.g. "malformed".
const char* error_code_name(ErrorCode code);

/// The message names the thing, the expectation, the finding, and where it helps a hint.
struct Error {
    ErrorCode code = ErrorCode::Internal;
    std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

/// printf into a std::string; the compiler checks the arguments.
std::string strf(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string vstrf(const char* format, va_list args) __attribute__((format(printf, 1, 0)));

/// `return fail(ErrorCode::Malformed, "key '%s': expected u32, found %s", ...)` from any Result<T>.
tl::unexpected<Error> fail(ErrorCode code, const char* format, ...) __attribute__((format(printf, 2, 3)));

/// Prefixes an error with its context, e.g. the file's path, and passes it on.
tl::unexpected<Error> fail_in(const std::string& context, Error error);

/// Ends the process with a message. For bugs only; no input may reach it.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace tessera

#define TSR_CHECK(condition) ((condition) ? (void)0 : ::tessera::check_failed(#condition, __FILE__, __LINE__))

#define TSR_CONCAT_(a, b) a##b
#define TSR_CONCAT(a, b) TSR_CONCAT_(a, b)

/// `TSR_TRY(value, expression)`: declares `value` from a Result, or returns its error from this function.
#define TSR_TRY(decl, expression)                                                                     \
    auto TSR_CONCAT(tsr_try_, __LINE__) = (expression);                                               \
    if (!TSR_CONCAT(tsr_try_, __LINE__))                                                              \
        return ::tl::unexpected<::tessera::Error>(std::move(TSR_CONCAT(tsr_try_, __LINE__).error())); \
    decl = std::move(*TSR_CONCAT(tsr_try_, __LINE__))

/// The same for Result<void>.
#define TSR_TRY_VOID(expression)                                                                       \
    do {                                                                                               \
        auto tsr_try_void = (expression);                                                              \
        if (!tsr_try_void) return ::tl::unexpected<::tessera::Error>(std::move(tsr_try_void.error())); \
    } while (0)
