// Converts tensor by tensor in pieces of whole rows, which are decoded, encoded and measured in parallel,
// then written, and their input pages released. Types come from quantize_policy.cpp, encoders from
// quants/encode through the kernel table.
#include "src/convert/quantize_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/writer.h"
#include "src/model/input_pieces.h"

namespace tessera::convert {

namespace {

/// Weights of a piece and of a unit of work: as many rows as fit, and at least one.
constexpr int64_t kPieceWeights = int64_t{4} << 20, kQuantizeUnitWeights = int64_t{64} << 10;
constexpr uint32_t kQuantizationVersion = 2;

/// Declares everything but the tensors' data.
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

/// Whether all are finite and the type does not make them infinite.
bool is_representable(std::span<const float> x, Type type) {
    const float most = type == Type::F16 ? 65519.99f : std::numeric_limits<float>::max();
    bool fits = true;
    for (const float value : x) fits &= std::fabs(value) <= most;
    return fits;
}

class Quantizer {
  public:
    Quantizer(const gguf::File& in, std::span<const PlannedTensor> plan, const QuantizeContext& context,
              gguf::Writer& writer)
        : in_(in),
          plan_(plan),
          context_(context),
          writer_(writer),
          pieces_(in, context.pool, context.progress) {
        scratch_.resize(static_cast<size_t>(context.pool.n_threads()));
    }

    Result<std::vector<TensorError>> run();

  private:
    struct Scratch {
        std::vector<float> x, y, importance;
        std::vector<std::byte> rows;
    };
    /// A piece of one tensor: rows of one type, with importances by matrix.
    struct Rows {
        size_t index;  // index of the tensor
        int64_t first, count, per_unit;
    };
    Result<void> copy(size_t index);
    Result<TensorError> convert(size_t index);
    void convert_unit(const Rows& rows, int64_t unit, Scratch& scratch);
    const std::byte* read(size_t index, int64_t first, int64_t count, Scratch& scratch) const;
    Result<void> done(const Rows& rows);
    Result<void> write_pending();

    const gguf::File& in_;
    const std::span<const PlannedTensor> plan_;
    const QuantizeContext& context_;
    gguf::Writer& writer_;
    InputPieces pieces_;
    std::vector<Scratch> scratch_;
    std::vector<std::byte> buffer_;  // output of the current piece
    std::vector<std::byte>
        pending_;  // output of the previous piece, written while the current one is computed
    size_t n_pending_ = 0;
    std::vector<TensorError> unit_errors_;
};

Result<void> Quantizer::write_pending() {
    const size_t n = std::exchange(n_pending_, 0);
    return n ? writer_.write({pending_.data(), n}) : Result<void>();
}

const std::byte* Quantizer::read(size_t index, int64_t first, int64_t count, Scratch& scratch) const {
    if (context_.source) return context_.source->rows(index, first, count, scratch.rows);
    const gguf::TensorInfo& from = *plan_[index].from;
    return from.data.data() + type_info(from.type).row_bytes(from.n_cols()) * first;
}

/// Called after the rows are read for the last time.
Result<void> Quantizer::done(const Rows& rows) {
    const gguf::TensorInfo& from = *plan_[rows.index].from;
    const auto row_bytes = static_cast<size_t>(type_info(from.type).row_bytes(from.n_cols()));
    if (context_.source) context_.source->release(rows.index, rows.first, rows.count);
    return pieces_.done(from.data.subspan(static_cast<size_t>(rows.first) * row_bytes,
                                          static_cast<size_t>(rows.count) * row_bytes));
}

Result<void> Quantizer::copy(size_t index) {
    const gguf::TensorInfo& from = *plan_[index].from;
    TSR_TRY_VOID(write_pending());
    if (!context_.source) return pieces_.copy(from.data, writer_);
    const int64_t row_bytes = type_info(from.type).row_bytes(from.n_cols());
    const int64_t n_rows = from.n_elements() / from.n_cols();
    const int64_t per_piece =
        std::max<int64_t>(1, static_cast<int64_t>(InputPieces::kPieceBytes) / row_bytes);
    for (int64_t first = 0; first < n_rows; first += per_piece) {
        const Rows rows{index, first, std::min(per_piece, n_rows - first), per_piece};
        const std::byte* piece = read(index, first, rows.count, scratch_[0]);
        TSR_TRY_VOID(writer_.write({piece, static_cast<size_t>(rows.count * row_bytes)}));
        TSR_TRY_VOID(done(rows));
    }
    return {};
}

void Quantizer::convert_unit(const Rows& rows, int64_t unit, Scratch& scratch) {
    const PlannedTensor& tensor = plan_[rows.index];
    const gguf::TensorInfo& from = *tensor.from;
    const TypeInfo &from_type = type_info(from.type), &to_type = type_info(tensor.to);
    const int64_t n_cols = from.n_cols();
    const int64_t first = rows.first + unit * rows.per_unit;
    const int64_t last = std::min(first + rows.per_unit, rows.first + rows.count);
    const auto n = static_cast<size_t>((last - first) * n_cols);
    if (scratch.x.size() < n) scratch.x.resize(n);
    from_type.dequantize(read(rows.index, first, last - first, scratch), scratch.x.data(),
                         static_cast<int64_t>(n));
    const std::span<const float> importance = tensor.importance;
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
    if (context_.strict)
        unit_errors_[static_cast<size_t>(unit)].is_finite =
            is_representable({scratch.x.data(), n}, to_type.type);
    if (!context_.measures) return;
    if (scratch.y.size() < n) scratch.y.resize(n);
    to_type.dequantize(out, scratch.y.data(), static_cast<int64_t>(n));
    unit_errors_[static_cast<size_t>(unit)] =
        measure_error({scratch.x.data(), n}, {scratch.y.data(), n}, weights);
}

Result<TensorError> Quantizer::convert(size_t index) {
    const PlannedTensor& tensor = plan_[index];
    const gguf::TensorInfo& from = *tensor.from;
    const int64_t n_cols = from.n_cols(), n_rows = from.n_elements() / n_cols;
    const auto to_bytes = static_cast<size_t>(type_info(tensor.to).row_bytes(n_cols));
    const int64_t per_unit = std::max<int64_t>(1, kQuantizeUnitWeights / n_cols);
    const int64_t per_piece = std::max(per_unit, kPieceWeights / n_cols / per_unit * per_unit);
    TensorError sum;
    for (int64_t first = 0; first < n_rows; first += per_piece) {
        const Rows rows{index, first, std::min(per_piece, n_rows - first), per_unit};
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
        TSR_TRY_VOID(done(rows));
        TSR_TRY_VOID(written);
        if (context_.strict && !sum.is_finite)
            return fail(
                ErrorCode::Malformed,
                "%s: tensor '%s': expected weights that %s can represent, found one that is NaN or beyond "
                "its range; nothing was written",
                printable(in_.path(), 400).c_str(), printable(from.name).c_str(),
                std::string(type_info(tensor.to).name).c_str());
        std::swap(buffer_, pending_);
        n_pending_ = static_cast<size_t>(rows.count) * to_bytes;
    }
    return sum;
}

Result<std::vector<TensorError>> Quantizer::run() {
    std::vector<TensorError> errors(plan_.size());
    for (size_t i = 0; i < plan_.size(); i++) {
        if (!plan_[i].is_converted()) {
            TSR_TRY_VOID(copy(i));
            continue;
        }
        TSR_TRY(errors[i], convert(i));
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
    // Never started, so that no file appears.
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
