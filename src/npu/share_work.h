#pragma once
// Work of the compiler that threads may share. A unit writes what is its own alone, so that their number
// changes no bit.
#include "common/expected.h"
#include "common/threads.h"

namespace tessera::npu {

/// Calls fn(unit) for every unit in [0, n_units), one after the other where there is no pool. Cancelled where
/// the pool's abort flag was seen; not all units have run then.
template <class Fn>
Result<void> share_work(ThreadPool* pool, int64_t n_units, const Fn& fn) {
    if (!pool) {
        for (int64_t unit = 0; unit < n_units; ++unit) fn(unit);
        return {};
    }
    pool->run(n_units, [&fn](int64_t unit, int) { fn(unit); });
    if (pool->aborted()) return fail(ErrorCode::Cancelled, "compiling for the NPU was cancelled");
    return {};
}

}  // namespace tessera::npu
