#pragma once
#include <cstddef>

namespace tessera::jinja {

/// Limits of one render, which ends with an error beyond them.
struct Limits {
    /// Expressions, statements and units of work on data; some 10^7 a second.
    size_t max_steps = 20'000'000;
    /// Bytes of output.
    size_t max_output_bytes = size_t{64} << 20;
    /// Bytes held by values at one time.
    size_t max_live_bytes = size_t{256} << 20;
    /// Nesting of statements, expressions and macro calls. A level takes less than 2 KiB of stack.
    size_t max_depth = 500;
};

}  // namespace tessera::jinja
