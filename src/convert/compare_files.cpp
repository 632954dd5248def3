// Tensors are compared one after the other by all threads in units of whole rows. Sums are added in the order
// of the units, so that results do not depend on the threads. Digests take one unit per tensor, and one for
// the whole file.
#include "src/convert/compare_files.h"

#include <algorithm>
#include <cstring>

#include "common/digest.h"
#include "common/strings.h"

namespace tessera::convert {

namespace {

constexpr int64_t kCompareUnitWeights = int64_t{64} << 10;

bool same_value(const gguf::Value& a, const gguf::Value& b) {
    if (a.type() != b.type()) return false;
    if (a.is_array()) {
        if (a.element_type() != b.element_type() || a.size() != b.size()) return false;
        if (a.element_type() == gguf::ValueType::String) {
            for (uint64_t i = 0; i < a.size(); ++i)
                if (a.at(i).as_string() != b.at(i).as_string()) return false;
            return true;
        }
    }
    return std::ranges::equal(a.raw(), b.raw());
}

bool same_shape(const gguf::TensorInfo& a, const gguf::TensorInfo& b) {
    return std::equal(a.shape, a.shape + a.n_dims, b.shape, b.shape + b.n_dims);
}

/// Whether both tensors have rows of weights with the same shape.
bool is_comparable(const gguf::TensorInfo& a, const gguf::TensorInfo& b) {
    return same_shape(a, b) && type_info(a.type).dequantize && type_info(b.type).dequantize;
}

Result<TensorError> measure(const gguf::TensorInfo& a, const gguf::TensorInfo& b, ThreadPool& pool) {
    const TypeInfo &a_type = type_info(a.type), &b_type = type_info(b.type);
    const int64_t n_cols = a.n_cols(), n_rows = a.n_elements() / n_cols;
    const int64_t per_unit = std::max<int64_t>(1, kCompareUnitWeights / n_cols);
    const int64_t n_units = (n_rows + per_unit - 1) / per_unit;
    struct Scratch {
        std::vector<float> x, y;
    };
    std::vector<Scratch> scratch(static_cast<size_t>(pool.n_threads()));
    std::vector<TensorError> parts(static_cast<size_t>(n_units));
    pool.run(n_units, [&](int64_t unit, int worker) {
        Scratch& s = scratch[static_cast<size_t>(worker)];
        const int64_t first = unit * per_unit, n = (std::min(first + per_unit, n_rows) - first) * n_cols;
        s.x.resize(static_cast<size_t>(n));
        s.y.resize(static_cast<size_t>(n));
        a_type.dequantize(a.data.data() + a_type.row_bytes(n_cols) * first, s.x.data(), n);
        b_type.dequantize(b.data.data() + b_type.row_bytes(n_cols) * first, s.y.data(), n);
        parts[static_cast<size_t>(unit)] = measure_error(s.x, s.y, nullptr);
    });
    if (pool.aborted()) return fail(ErrorCode::Cancelled, "the comparison was cancelled");
    TensorError sum;
    for (const TensorError& part : parts) sum.add(part);
    return sum;
}

void compare_keys(const gguf::File& a, const gguf::File& b, FileDifference& out) {
    for (const gguf::KeyValue& entry : a.keys()) {
        const gguf::Value* other = b.find(entry.key);
        if (other && same_value(entry.value, *other))
            ++out.n_same_keys;
        else
            out.keys.push_back({entry.key, &entry.value, other});
    }
    for (const gguf::KeyValue& entry : b.keys())
        if (!a.find(entry.key)) out.keys.push_back({entry.key, nullptr, &entry.value});
}

Digests digests_of(std::span<const gguf::TensorInfo> tensors, const gguf::File& file, const ThreadPool& pool,
                   const ByteProgress& progress) {
    uint64_t done = 0, total = 0;
    for (const gguf::TensorInfo& tensor : tensors) total += tensor.data.size();
    constexpr size_t kPieceBytes = size_t{1} << 20;
    Sha256 sha;
    Xxh64 xxh;
    for (const gguf::TensorInfo& tensor : tensors)
        for (size_t at = 0; at < tensor.data.size() && !pool.aborted(); at += kPieceBytes) {
            const auto piece = tensor.data.subspan(at, std::min(kPieceBytes, tensor.data.size() - at));
            sha.add(piece);
            xxh.add(piece);
            file.release(piece);
            done += piece.size();
            if (progress) progress(done, total);
        }
    return {to_hex(sha.value()), to_hex(xxh.value())};
}

}  // namespace

bool FileDifference::is_none() const {
    return keys.empty() && std::ranges::all_of(tensors, [](const auto& t) { return t.same_bytes; });
}

Result<FileDifference> compare_files(const gguf::File& a, const gguf::File& b, ThreadPool& pool,
                                     const ByteProgress& progress) {
    for (const gguf::File* file : {&a, &b})
        if (file->is_packed())
            return fail(ErrorCode::Unsupported,
                        "%s: expected rows in their order, found a packed container; "
                        "unpack it first",
                        printable(file->path(), 400).c_str());
    FileDifference out;
    compare_keys(a, b, out);
    uint64_t done = 0, total = 0;
    for (const gguf::TensorInfo& tensor : a.tensors()) total += tensor.data.size();
    for (const gguf::TensorInfo& tensor : a.tensors()) {
        TensorDifference row{.name = tensor.name, .a = &tensor, .b = b.find_tensor(tensor.name)};
        if (row.b) {
            row.same_bytes = row.b->type == tensor.type && same_shape(tensor, *row.b) &&
                             std::ranges::equal(tensor.data, row.b->data);
            row.is_measured = is_comparable(tensor, *row.b);
            if (row.is_measured && !row.same_bytes) {
                TSR_TRY(row.error, measure(tensor, *row.b, pool));
            }
            b.release(row.b->data);
        }
        a.release(tensor.data);
        done += tensor.data.size();
        if (progress) progress(done, total);
        out.tensors.push_back(row);
    }
    for (const gguf::TensorInfo& tensor : b.tensors())
        if (!a.find_tensor(tensor.name)) out.tensors.push_back({.name = tensor.name, .b = &tensor});
    return out;
}

Result<FileDigests> digest_file(const gguf::File& file, ThreadPool& pool, const ByteProgress& progress) {
    const auto tensors = file.tensors();
    FileDigests out;
    out.tensors.resize(tensors.size());
    pool.run(static_cast<int64_t>(tensors.size()) + 1, [&](int64_t unit, int) {
        if (unit == 0)
            out.all =
                digests_of(tensors, file, pool, progress);  // the longest unit, so its progress is shown
        else
            out.tensors[static_cast<size_t>(unit - 1)] =
                digests_of(tensors.subspan(static_cast<size_t>(unit - 1), 1), file, pool, {});
    });
    if (pool.aborted()) return fail(ErrorCode::Cancelled, "the digests were cancelled");
    return out;
}

}  // namespace tessera::convert
