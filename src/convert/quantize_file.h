#pragma once
// Writes a model file with its tensors in other types. Reads and writes in a stream: memory is some MiB,
// whatever the file's size.
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/threads.h"
#include "quants/kernels/table.h"
#include "src/convert/quantize_policy.h"
#include "src/convert/row_source.h"

namespace tessera::convert {

/// What quantizing works with. The bytes written do not depend on any of it.
struct QuantizeContext {
    ThreadPool& pool;  ///< its abort flag ends the work with Cancelled
    const kernels::KernelTable& kernels;
    const Importance* importance = nullptr;  ///< that the plan was made with; named in the keys
    bool measures = false;  ///< whether errors are computed, which takes a second pass over the weights
    /// Called with the bytes read and in all; may be empty.
    ByteProgress progress = {};
    /// A weight that is no number, or that F16 would make infinite, is an error.
    bool strict = false;
    /// Gives the tensors' rows; null: the file itself.
    const RowSource* source = nullptr;
};

struct TensorError {
    double square = 0, norm = 0;                    ///< sum (y - x)^2, sum x^2
    double weighted_square = 0, weighted_norm = 0;  ///< the same times the importance
    double largest = 0;                             ///< |y - x|
    bool is_finite = true;  ///< no weight is infinite or NaN, where errors were computed

    void add(const TensorError& part);
};
/// That of y against x, which are as long; `importance` is of each element, or null.
TensorError measure_error(std::span<const float> x, std::span<const float> y, const float* importance);

/// Size of the file that quantize_file() will write, to the byte. Errors: as gguf::Writer's.
Result<uint64_t> quantized_size(const gguf::File& in, const Mixture& mixture,
                                std::span<const PlannedTensor> plan, const Importance* importance = nullptr);

/// Writes `in` with the types of the plan to `out`, which appears only when it is complete; keys are kept but
/// for those of a split, and general.file_type is the mixture's; quantize.imatrix.* say
/// which importance matrix was used, as llama.cpp's do. Returns one entry a tensor, zeros where
/// nothing was converted or measured.
Result<std::vector<TensorError>> quantize_file(const gguf::File& in, const std::string& out,
                                               const Mixture& mixture, std::span<const PlannedTensor> plan,
                                               const QuantizeContext& context);

}  // namespace tessera::convert
