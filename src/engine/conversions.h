#pragma once
// From one model file to another, by their paths: what src/convert and src/model/packed_file.h do, with all
// that they need opened and checked.
#include <span>
#include <string>
#include <vector>

#include "common/expected.h"
#include "common/progress.h"
#include "common/threads.h"
#include "src/convert/hf_model.h"
#include "src/convert/quantize_policy.h"

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

struct ConvertJob {
    std::string type;  ///< of convert::all_mixtures(); empty: BF16 or F16, as the folder has
    std::string pre;   ///< pre-tokenizer; empty: the recognised one
    std::vector<std::string> overrides;  ///< "PATTERN=TYPE"
    bool pure = false;
    bool allow_requantize = false;  ///< gives MXFP4 matrices the type as well
    bool packed = false;            ///< writes a packed container
};

/// Writes a Hugging Face folder as one GGUF file, which appears when it is complete. `packing` is told of
/// the second step of a packed one. Errors: `out` is a file of the folder, what src/convert says.
Result<void> convert_folder(const std::string& folder, const std::string& out, const ConvertJob& job,
                            ThreadPool& pool, const ByteProgress& progress, const ByteProgress& packing);
/// Its last step, for who has planned already.
Result<void> write_converted(const convert::HfModel& model, const std::string& out, bool packed,
                             const convert::Mixture& mixture, std::span<const convert::PlannedTensor> plan,
                             ThreadPool& pool, const ByteProgress& progress, const ByteProgress& packing);

/// Stock file to packed container, or back.
Result<void> repack(const std::string& in, const std::string& out, bool packs, ThreadPool& pool,
                    const ByteProgress& progress);

}  // namespace tessera::engine
