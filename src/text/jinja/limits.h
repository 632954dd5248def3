#pragma once
#include <cstddef>

namespace tessera::jinja {

/// What one render may use; beyond, it ends with an error.
struct Limits {
    /// Expressions, statements and units of work on data; some 10^7 a second.
    size_t max_steps = 20'000'000;
    /// Of text printed.
    size_t max_output_bytes = size_t{64} << 20;
    /// Held by values at one time.
    size_t max_live_bytes = size_t{256} << 20;
    /// Statements, expressions and macro calls inside each other. A level takes less than 2 KiB of stack.
    size_t max_depth = 500;
};

}  // namespace tessera::jinja
