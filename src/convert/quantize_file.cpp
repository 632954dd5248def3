// Converts tensor by tensor, a piece of whole rows at a time: decoded, encoded and measured in parallel,
// written, and the piece's pages of the input let go. Types come from quantize_policy.cpp, the encoders from
// quants/encode by way of the kernel table.
#include "src/convert/quantize_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/writer.h"

namespace tessera::convert {

namespace {

/// Weights of one piece and of one unit of work in it: rows up to this many, and at least one.
constexpr int64_t kPieceWeights = int64_t{4} << 20, kUnitWeights = int64_t{64} << 10;
constexpr uint32_t kQuantizationVersion = 2;

/// Everything but the tensors' data.
void declare(const gguf::File& in, const Mixture& mixture, std::span<const PlannedTensor> plan,
             const Importance* importance, gguf::Writer& writer) {
    for (const gguf::KeyValue& entry : in.keys())
        if (!gguf::is_split_key(entry.key)) writer.set_value(entry.key, entry.value);
    writer.set_u32("general.quantization_version", kQuantizationVersion);
    writer.set_u32("general.file_type", mixture.file_type);
    if (importance) {
        const Importance::Source& source = importance->source();
        writer.set_string("quantize.imatrix.file", source.file);
        writer.set_string("quantize.imatrix.dataset", source.datasets);
        writer.set_u32("quantize.imatrix.entries_count", static_cast<uint32_t>(importance->size()));
        writer.set_u32("quantize.imatrix.chunks_count", static_cast<uint32_t>(source.n_chunks));
    }
    for (const PlannedTensor& tensor : plan) {
        const std::span shape(tensor.from->shape, static_cast<size_t>(tensor.from->n_dims));
        writer.add_tensor(tensor.from->name, shape, static_cast<uint32_t>(tensor.to), tensor.n_bytes);
    }
}

class Quantizer {
  public:
    Quantizer(const gguf::File& in, std::span<const PlannedTensor> plan, const QuantizeContext& context,
              gguf::Writer& writer)
        : in_(in), plan_(plan), context_(context), writer_(writer) {
        for (const PlannedTensor& tensor : plan) total_ += tensor.from->data.size();
        scratch_.resize(static_cast<size_t>(context.pool.n_threads()));
    }

    Result<std::vector<TensorError>> run();

  private:
    struct Scratch {
        std::vector<float> x, y, importance;
    };
    /// A piece of one tensor: rows of equal types, importances by their matrix.
    struct Rows {
        const PlannedTensor& tensor;
        int64_t first, count, per_unit;
    };
    Result<void> copy(const PlannedTensor& tensor);
    Result<TensorError> convert(const PlannedTensor& tensor);
    void convert_unit(const Rows& rows, int64_t unit, Scratch& scratch);
    Result<void> done(std::span<const std::byte> piece);
    Result<void> write_pending();

    const gguf::File& in_;
    const std::span<const PlannedTensor> plan_;
    const QuantizeContext& context_;
    gguf::Writer& writer_;
    std::vector<Scratch> scratch_;
    std::vector<std::byte> buffer_;   // of the piece at hand
    std::vector<std::byte> pending_;  // the piece before it, written while that one is computed
    size_t n_pending_ = 0;
    std::vector<TensorError> unit_errors_;
    uint64_t done_ = 0, total_ = 0;
};

Result<void> Quantizer::done(std::span<const std::byte> piece) {
    if (context_.pool.aborted())
        return fail(ErrorCode::Cancelled, "%s: interrupted; nothing was written",
                    printable(in_.path(), 400).c_str());
    in_.release(piece);
    done_ += piece.size();
    if (context_.progress) context_.progress(done_, total_);
    return {};
}

Result<void> Quantizer::write_pending() {
    const size_t n = std::exchange(n_pending_, 0);
    return n ? writer_.write({pending_.data(), n}) : Result<void>();
}

Result<void> Quantizer::copy(const PlannedTensor& tensor) {
    constexpr size_t kPieceBytes = size_t{8} << 20;
    const std::span<const std::byte> data = tensor.from->data;
    TSR_TRY_VOID(write_pending());
    for (size_t at = 0; at < data.size(); at += kPieceBytes) {
        const auto piece = data.subspan(at, std::min(kPieceBytes, data.size() - at));
        TSR_TRY_VOID(writer_.write(piece));
        TSR_TRY_VOID(done(piece));
    }
    return {};
}

void Quantizer::convert_unit(const Rows& rows, int64_t unit, Scratch& scratch) {
    const gguf::TensorInfo& from = *rows.tensor.from;
    const TypeInfo &from_type = type_info(from.type), &to_type = type_info(rows.tensor.to);
    const int64_t n_cols = from.n_cols();
    const int64_t first = rows.first + unit * rows.per_unit;
    const int64_t last = std::min(first + rows.per_unit, rows.first + rows.count);
    const auto n = static_cast<size_t>((last - first) * n_cols);
    if (scratch.x.size() < n) scratch.x.resize(n);
    from_type.dequantize(from.data.data() + from_type.row_bytes(n_cols) * first, scratch.x.data(),
                         static_cast<int64_t>(n));
    const std::span<const float> importance = rows.tensor.importance;
    if (!importance.empty()) {
        if (scratch.importance.size() < n) scratch.importance.resize(n);
        const int64_t per_matrix = from.n_dims > 1 ? from.shape[from.n_dims - 2] : 1;
        for (int64_t row = first; row < last; row++)
            std::copy_n(importance.begin() +
                            row / per_matrix % (static_cast<int64_t>(importance.size()) / n_cols) * n_cols,
                        n_cols, scratch.importance.begin() + (row - first) * n_cols);
    }
    const float* weights = importance.empty() ? nullptr : scratch.importance.data();
    const kernels::EncodeFn fast = context_.kernels.encode[static_cast<uint32_t>(to_type.type)];
    std::byte* out = buffer_.data() + to_type.row_bytes(n_cols) * (first - rows.first);
    (fast ? fast : to_type.quantize)(scratch.x.data(), weights, out, static_cast<int64_t>(n));
    if (!context_.measures) return;
    if (scratch.y.size() < n) scratch.y.resize(n);
    to_type.dequantize(out, scratch.y.data(), static_cast<int64_t>(n));
    unit_errors_[static_cast<size_t>(unit)] =
        measure_error({scratch.x.data(), n}, {scratch.y.data(), n}, weights);
}

Result<TensorError> Quantizer::convert(const PlannedTensor& tensor) {
    const gguf::TensorInfo& from = *tensor.from;
    const int64_t n_cols = from.n_cols(), n_rows = from.n_elements() / n_cols;
    const auto from_bytes = static_cast<size_t>(type_info(from.type).row_bytes(n_cols));
    const auto to_bytes = static_cast<size_t>(type_info(tensor.to).row_bytes(n_cols));
    const int64_t per_unit = std::max<int64_t>(1, kUnitWeights / n_cols);
    const int64_t per_piece = std::max(per_unit, kPieceWeights / n_cols / per_unit * per_unit);
    TensorError sum;
    for (int64_t first = 0; first < n_rows; first += per_piece) {
        const Rows rows{tensor, first, std::min(per_piece, n_rows - first), per_unit};
        const int64_t n_units = (rows.count + per_unit - 1) / per_unit;
        buffer_.resize(std::max(buffer_.size(), static_cast<size_t>(rows.count) * to_bytes));
        unit_errors_.assign(static_cast<size_t>(n_units), {});
        Result<void> written;
        context_.pool.run(n_units + 1, [&](int64_t unit, int worker) {
            if (unit == 0)
                written = write_pending();
            else
                convert_unit(rows, unit - 1, scratch_[static_cast<size_t>(worker)]);
        });
        for (const TensorError& error : unit_errors_) sum.add(error);
        TSR_TRY_VOID(done(from.data.subspan(static_cast<size_t>(first) * from_bytes,
                                            static_cast<size_t>(rows.count) * from_bytes)));
        TSR_TRY_VOID(written);
        std::swap(buffer_, pending_);
        n_pending_ = static_cast<size_t>(rows.count) * to_bytes;
    }
    return sum;
}

Result<std::vector<TensorError>> Quantizer::run() {
    std::vector<TensorError> errors(plan_.size());
    for (size_t i = 0; i < plan_.size(); i++) {
        if (!plan_[i].is_converted()) {
            TSR_TRY_VOID(copy(plan_[i]));
            continue;
        }
        TSR_TRY(errors[i], convert(plan_[i]));
    }
    TSR_TRY_VOID(write_pending());
    return errors;
}

}  // namespace

void TensorError::add(const TensorError& part) {
    square += part.square;
    norm += part.norm;
    weighted_square += part.weighted_square;
    weighted_norm += part.weighted_norm;
    largest = std::max(largest, part.largest);
    is_finite = is_finite && part.is_finite;
}

TensorError measure_error(std::span<const float> x, std::span<const float> y, const float* importance) {
    TensorError error;
    for (size_t i = 0; i < x.size(); i++) {
        const double value = static_cast<double>(x[i]), rest = static_cast<double>(y[i]) - value;
        const double weight = importance ? static_cast<double>(importance[i]) : 1.0;
        error.square += rest * rest;
        error.norm += value * value;
        error.weighted_square += weight * rest * rest;
        error.weighted_norm += weight * value * value;
        error.largest = std::max(error.largest, std::fabs(rest));
    }
    error.is_finite = std::isfinite(error.norm) && std::isfinite(error.square);
    return error;
}

Result<uint64_t> quantized_size(const gguf::File& in, const Mixture& mixture,
                                std::span<const PlannedTensor> plan, const Importance* importance) {
    // Never begun: no file appears.
    gguf::Writer writer(in.path() + ".quantized", static_cast<uint32_t>(in.alignment()));
    declare(in, mixture, plan, importance, writer);
    return writer.total_bytes();
}

Result<std::vector<TensorError>> quantize_file(const gguf::File& in, const std::string& out,
                                               const Mixture& mixture, std::span<const PlannedTensor> plan,
                                               const QuantizeContext& context) {
    gguf::Writer writer(out, static_cast<uint32_t>(in.alignment()));
    declare(in, mixture, plan, context.importance, writer);
    TSR_TRY_VOID(writer.begin_data());
    TSR_TRY(auto errors, Quantizer(in, plan, context, writer).run());
    TSR_TRY_VOID(writer.finish());
    return errors;
}

}  // namespace tessera::convert
