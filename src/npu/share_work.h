#pragma once
// Parallel work of the compiler. Each unit writes only its own data, so the number of threads changes no bit.
#include "common/expected.h"
#include "common/threads.h"

namespace tessera::npu {

/// Calls fn(unit) for every unit in [0, n_units), sequentially without a pool. Cancelled if the pool's abort
/// flag is set; some units have not run in that case.
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
