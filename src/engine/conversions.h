#pragma once
// From one model file to another, by their paths: what src/convert and src/model/packed_file.h do, with all
// that they need opened and checked.
#include <string>
#include <vector>

#include "common/expected.h"
#include "common/progress.h"
#include "common/threads.h"

namespace tessera::engine {

struct QuantizeJob {
    std::string type;                         ///< of convert::all_mixtures()
    std::string importance;                   ///< a file; empty: none
    std::string output_type, embedding_type;  ///< empty: as `type` says
    std::vector<std::string> overrides;       ///< "PATTERN=TYPE"
    bool pure = false, allow_requantize = false;
};

/// Writes `in` with its weights in other types to `out`, which appears when it is complete. The pool's abort
/// flag ends it with Cancelled. Errors: a name that is none, `out` is `in`, what src/convert says.
Result<void> quantize(const std::string& in, const std::string& out, const QuantizeJob& job, ThreadPool& pool,
                      const ByteProgress& progress);
/// Size of the file that it would write, to the byte.
Result<uint64_t> quantized_size(const std::string& in, const QuantizeJob& job);

/// Stock file to packed container, or back.
Result<void> repack(const std::string& in, const std::string& out, bool packs, ThreadPool& pool,
                    const ByteProgress& progress);

}  // namespace tessera::engine
