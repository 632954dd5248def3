// The file format of importance matrices. Sums are accumulated as doubles and stored as floats, as in
// llama.cpp; reading and writing a file keeps its bytes.
#include "src/convert/imatrix_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/strings.h"
#include "ggml-like/gguf/writer.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
constexpr std::string_view kDatasetsKey = "imatrix.datasets", kChunkCountKey = "imatrix.chunk_count",
                           kChunkSizeKey = "imatrix.chunk_size";

Result<std::vector<double>> read_floats(const gguf::File& file, const gguf::TensorInfo& tensor) {
    const std::string at = printable(file.path(), 400) + ": tensor '" + printable(tensor.name) + "'";
    if (tensor.type != Type::F32)
        return fail(ErrorCode::Malformed, "%s: expected type f32, found %s", at.c_str(),
                    std::string(type_info(tensor.type).name).c_str());
    std::vector<float> values(static_cast<size_t>(tensor.n_elements()));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    for (const float value : values)
        if (!std::isfinite(value) || value < 0)
            return fail(ErrorCode::Malformed, "%s: expected numbers of at least 0, found %g", at.c_str(),
                        static_cast<double>(value));
    return std::vector<double>(values.begin(), values.end());
}

Result<void> read_keys(const gguf::File& file, Imatrix& out) {
    TSR_TRY(out.n_chunks, file.get_int_or(kChunkCountKey, 0, 0, UINT32_MAX));
    TSR_TRY(out.chunk_size, file.get_int_or(kChunkSizeKey, 0, 0, UINT32_MAX));
    if (!file.find(kDatasetsKey)) return {};
    TSR_TRY(const gguf::Value names, file.get_array(kDatasetsKey, gguf::ValueType::String));
    for (uint64_t i = 0; i < names.size(); ++i)
        out.datasets.emplace_back(names.at(i).as_string().value_or(""));
    return {};
}

/// Writes one array of a tensor as little-endian floats.
Result<void> write_floats(gguf::Writer& writer, const std::vector<double>& values) {
    const std::vector<float> floats(values.begin(), values.end());
    return writer.write(std::as_bytes(std::span(floats)));
}

}  // namespace

Result<Imatrix> Imatrix::read(const gguf::File& file) {
    Imatrix out;
    const std::string path = printable(file.path(), 400);
    for (const gguf::TensorInfo& sums : file.tensors()) {
        if (!sums.name.ends_with(kSums)) continue;
        const std::string name(sums.name.substr(0, sums.name.size() - kSums.size()));
        const gguf::TensorInfo* counts = file.find_tensor(name + std::string(kCounts));
        if (!counts)
            return fail(ErrorCode::Malformed, "%s: tensor '%s' is missing, which belongs to '%s'",
                        path.c_str(), printable(name + std::string(kCounts)).c_str(),
                        printable(sums.name).c_str());
        const int64_t n_matrices = sums.n_elements() / sums.n_cols();
        if (counts->n_elements() != n_matrices)
            return fail(ErrorCode::Malformed,
                        "%s: tensor '%s': expected %lld counts, one per row of '%s', found %lld",
                        path.c_str(), printable(counts->name).c_str(), static_cast<long long>(n_matrices),
                        printable(sums.name).c_str(), static_cast<long long>(counts->n_elements()));
        Entry& entry = out.entries[name];
        entry.n_in = sums.n_cols();
        TSR_TRY(entry.sums, read_floats(file, sums));
        TSR_TRY(entry.counts, read_floats(file, *counts));
    }
    if (out.entries.empty())
        return fail(ErrorCode::InvalidArgument,
                    "%s: expected an importance matrix (tensors NAME.in_sum2), found none", path.c_str());
    TSR_TRY_VOID(read_keys(file, out));
    return out;
}

Result<void> Imatrix::Entry::check(const std::string& name) const {
    for (size_t i = 0; i < sums.size(); ++i)
        if (!std::isfinite(static_cast<float>(sums[i])))
            return fail(ErrorCode::Malformed,
                        "tensor '%s': expected finite inputs, found %g as the sum of squares of input %zu (a "
                        "broken model, or a type that overflows)",
                        printable(name).c_str(), sums[i], i % static_cast<size_t>(n_in));
    return {};
}

Result<void> Imatrix::add(const Imatrix& other) {
    for (const auto& [name, theirs] : other.entries) {
        const auto ours = entries.find(name);
        if (ours == entries.end()) continue;
        if (ours->second.n_in == theirs.n_in && ours->second.counts.size() == theirs.counts.size()) continue;
        return fail(ErrorCode::InvalidArgument,
                    "tensor '%s': expected %lld x %lld sums as in the other importance matrix, found %lld x "
                    "%lld (another model?)",
                    printable(name).c_str(), static_cast<long long>(ours->second.n_matrices()),
                    static_cast<long long>(ours->second.n_in), static_cast<long long>(theirs.n_matrices()),
                    static_cast<long long>(theirs.n_in));
    }
    for (const auto& [name, theirs] : other.entries) {
        const auto [at, is_new] = entries.try_emplace(name, theirs);
        if (is_new) continue;
        Entry& ours = at->second;
        for (size_t i = 0; i < ours.sums.size(); ++i) ours.sums[i] += theirs.sums[i];
        for (size_t i = 0; i < ours.counts.size(); ++i) ours.counts[i] += theirs.counts[i];
    }
    for (const std::string& name : other.datasets)
        if (std::find(datasets.begin(), datasets.end(), name) == datasets.end()) datasets.push_back(name);
    n_chunks += other.n_chunks;
    chunk_size = std::max(chunk_size, other.chunk_size);
    return {};
}

Result<void> Imatrix::write(const std::string& path) const {
    for (const auto& [name, entry] : entries) TSR_TRY_VOID(entry.check(name));
    gguf::Writer writer(path);
    writer.set_string("general.type", "imatrix");
    writer.set_strings(kDatasetsKey, datasets);
    writer.set_u32(kChunkCountKey, static_cast<uint32_t>(n_chunks));
    writer.set_u32(kChunkSizeKey, static_cast<uint32_t>(chunk_size));
    const auto f32 = static_cast<uint32_t>(Type::F32);
    for (const auto& [name, entry] : entries) {
        const int64_t sums[] = {entry.n_matrices(), entry.n_in}, counts[] = {entry.n_matrices(), 1};
        writer.add_tensor(name + std::string(kSums), sums, f32, entry.sums.size() * sizeof(float));
        writer.add_tensor(name + std::string(kCounts), counts, f32, entry.counts.size() * sizeof(float));
    }
    TSR_TRY_VOID(writer.begin_data());
    for (const auto& [name, entry] : entries) {
        TSR_TRY_VOID(write_floats(writer, entry.sums));
        TSR_TRY_VOID(write_floats(writer, entry.counts));
    }
    return writer.finish();
}

}  // namespace tessera::convert
