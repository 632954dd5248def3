#pragma once
// Writes a model file with its tensors converted to other types. Streams the data: memory is some MiB for any
// file size.
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/threads.h"
#include "quants/kernels/table.h"
#include "src/convert/quantize_policy.h"
#include "src/convert/row_source.h"

namespace tessera::convert {

/// Resources of a quantization. The bytes written depend on none of them.
struct QuantizeContext {
    ThreadPool& pool;  ///< its abort flag ends the work with Cancelled
    const kernels::KernelTable& kernels;
    const Importance* importance = nullptr;  ///< used for the plan; recorded in the keys
    bool measures = false;  ///< whether errors are computed, which takes a second pass over the weights
    /// Called with the bytes read and their total; may be empty.
    ByteProgress progress = {};
    /// Treats a NaN weight, or one that F16 would make infinite, as an error.
    bool strict = false;
    /// Source of the tensors' rows; null: the file itself.
    const RowSource* source = nullptr;
};

struct TensorError {
    double square = 0, norm = 0;                    ///< sum (y - x)^2, sum x^2
    double weighted_square = 0, weighted_norm = 0;  ///< the same weighted by the importance
    double largest = 0;                             ///< |y - x|
    bool is_finite = true;                          ///< if errors were computed: no weight is infinite or NaN

    void add(const TensorError& part);
};
/// The error of y relative to x, of equal length; `importance` has one factor per element, or is null.
TensorError measure_error(std::span<const float> x, std::span<const float> y, const float* importance);

/// Exact size of the file that quantize_file() will write. Errors: those of gguf::Writer.
Result<uint64_t> quantized_size(const gguf::File& in, const Mixture& mixture,
                                std::span<const PlannedTensor> plan, const Importance* importance = nullptr);

/// Writes `in` with the types of the plan to `out`, which appears only when it is complete. Keys are kept,
/// except those of a split; general.file_type is the mixture's, and quantize.imatrix.* record the importance
/// matrix as llama.cpp does. Returns one entry per tensor, zeros if it was not converted or measured.
Result<std::vector<TensorError>> quantize_file(const gguf::File& in, const std::string& out,
                                               const Mixture& mixture, std::span<const PlannedTensor> plan,
                                               const QuantizeContext& context);

}  // namespace tessera::convert
