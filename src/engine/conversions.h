#pragma once
// Conversions between model files by path: opens and checks the files for src/convert and
// src/model/packed_file.h.
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
    std::string importance;                   ///< path of an importance matrix; empty: none
    std::string output_type, embedding_type;  ///< empty: by `type`
    std::vector<std::string> overrides;       ///< "PATTERN=TYPE"
    bool pure = false, allow_requantize = false;
};

/// Quantizes `in` to `out`, which appears when it is complete. The pool's abort flag ends it with Cancelled.
/// Errors: an unknown type, `out` is `in`, those of src/convert.
Result<void> quantize(const std::string& in, const std::string& out, const QuantizeJob& job, ThreadPool& pool,
                      const ByteProgress& progress);
/// Exact size of the file that quantize() would write.
Result<uint64_t> quantized_size(const std::string& in, const QuantizeJob& job);

struct ConvertJob {
    std::string type;                    ///< of convert::all_mixtures(); empty: BF16 or F16, as in the folder
    std::string pre;                     ///< pre-tokenizer; empty: recognized by its pattern
    std::vector<std::string> overrides;  ///< "PATTERN=TYPE"
    bool pure = false;
    bool allow_requantize = false;  ///< also converts MXFP4 matrices
    bool packed = false;            ///< writes a packed container
};

/// Converts a Hugging Face folder to a GGUF file, which appears when it is complete. `packing` reports the
/// second step for a packed container. Errors: `out` is a file of the folder, those of src/convert.
Result<void> convert_folder(const std::string& folder, const std::string& out, const ConvertJob& job,
                            ThreadPool& pool, const ByteProgress& progress, const ByteProgress& packing);
/// The last step of convert(), for callers that have a plan already.
Result<void> write_converted(const convert::HfModel& model, const std::string& out, bool packed,
                             const convert::Mixture& mixture, std::span<const convert::PlannedTensor> plan,
                             ThreadPool& pool, const ByteProgress& progress, const ByteProgress& packing);

/// Converts a GGUF file to a packed container, or back.
Result<void> repack(const std::string& in, const std::string& out, bool packs, ThreadPool& pool,
                    const ByteProgress& progress);

}  // namespace tessera::engine
