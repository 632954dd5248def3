// Packing at load. Matrices are packed one after the other in the order of the forward pass, each by all
// threads, and lie in that order. They are read from the file, not through the mapping: a copy in a core's
// cache costs less than a page fault, and peak memory is the packed copy plus little. Matrices of a packed
// container (written by packed_file.cpp) are packed already and stay where they are.
#include "src/model/pack.h"

#include <algorithm>

namespace tessera {

namespace {

/// Bytes of whole groups, one at least, that are read at once and packed while they lie in L2: a unit of
/// work.
constexpr size_t kUnitBytes = size_t{256} << 10;

size_t group_bytes(const Weight& w) { return static_cast<size_t>(kernels::kGroupRows) * w.row_bytes; }
size_t unit_groups(const Weight& w) { return std::max<size_t>(kUnitBytes / group_bytes(w), 1); }

int64_t n_groups(const Weight& w) { return (w.n_out + kernels::kGroupRows - 1) / kernels::kGroupRows; }

template <class Matrix, class AnyWeights>
std::vector<Matrix*> matrices_of(AnyWeights& weights) {
    std::vector<Matrix*> all;
    for (auto& layer : weights.layers)
        LayerWeights::each_matrix(layer, [&](Matrix& matrix) { all.push_back(&matrix); });
    all.push_back(&weights.output);
    return all;
}

}  // namespace

std::vector<Weight*> weights_to_pack(Weights& weights) { return matrices_of<Weight>(weights); }
std::vector<const Weight*> weights_to_pack(const Weights& weights) {
    return matrices_of<const Weight>(weights);
}

void Packer::plan(Weight& weight, bool pack) {
    if (!weight) return;
    const size_t n_matrices = weight.n_expert > 0 ? static_cast<size_t>(weight.n_expert) : 1;
    const bool has_kernel = model_.kernels_->packed[static_cast<uint32_t>(weight.type)].pack != nullptr;
    if (!pack || weight.layout == Layout::Packed || !has_kernel) {
        model_.mapped_bytes_ += n_matrices * static_cast<size_t>(weight.n_out) * weight.row_bytes;
        return;
    }
    const size_t bytes = static_cast<size_t>(n_groups(weight)) * kernels::kGroupRows * weight.row_bytes;
    model_.pack_jobs_.push_back(
        {&weight, weight.data, weight.expert_bytes, model_.packed_bytes_, Arena::padded(bytes)});
    model_.packed_bytes_ += n_matrices * Arena::padded(bytes);
    weight.layout = Layout::Packed;
    weight.expert_bytes = Arena::padded(bytes);
}

void Packer::plan_all(bool pack, const std::vector<bool>& unused) {
    Weights& w = model_.weights_;
    const bool tied = w.output.data == w.token_embd.data;
    const std::vector<Weight*> all = weights_to_pack(w);
    for (size_t i = 0; i < all.size(); ++i) {
        const bool is_unused = !unused.empty() && unused[i];
        const bool is_looked_up = tied && all[i] == &w.output;
        if (!is_unused || is_looked_up) plan(*all[i], pack && !is_unused);
    }
    // A tied embedding table is looked up in the head's copy; another one is not multiplied with.
    if (tied)
        w.token_embd = w.output;
    else
        plan(w.token_embd, false);
}

Result<void> Packer::pack(const Model::PackJob& job, ThreadPool& pool, std::span<std::byte> rooms) {
    Weight& w = *job.weight;
    const kernels::PackFn pack_group = model_.kernels_->packed[static_cast<uint32_t>(w.type)].pack;
    std::byte* out = model_.packed_.data() + job.offset;
    const int64_t unit_rows = static_cast<int64_t>(unit_groups(w)) * kernels::kGroupRows;
    const int64_t units = (w.n_out + unit_rows - 1) / unit_rows;
    const int64_t n_matrices = w.n_expert > 0 ? w.n_expert : 1;
    const size_t n_threads = static_cast<size_t>(pool.n_threads()), room_bytes = rooms.size() / n_threads;
    std::vector<Result<void>> done(n_threads);  // of each thread
    pool.run(n_matrices * units, [&](int64_t unit, int worker) {
        Result<void>& result = done[static_cast<size_t>(worker)];
        if (!result) return;
        const auto e = static_cast<size_t>(unit / units);
        const int64_t row0 = unit % units * unit_rows, n_rows = std::min(unit_rows, w.n_out - row0);
        const size_t at = static_cast<size_t>(row0) * w.row_bytes;
        const auto read = model_.file_.read(
            {job.from + e * job.from_expert_bytes + at, static_cast<size_t>(n_rows) * w.row_bytes},
            rooms.data() + static_cast<size_t>(worker) * room_bytes);
        if (!read) {
            result = tl::unexpected(read.error());
            return;
        }
        std::byte* to = out + e * job.matrix_bytes + at;
        for (int64_t row = 0; row < n_rows; row += kernels::kGroupRows) {
            const size_t of_unit = static_cast<size_t>(row) * w.row_bytes;
            const auto rows = static_cast<int>(std::min<int64_t>(kernels::kGroupRows, n_rows - row));
            pack_group(*read + of_unit, w.row_bytes, rows, w.n_in, to + of_unit);
        }
    });
    for (Result<void>& result : done) TSR_TRY_VOID(std::move(result));
    w.data = out;
    return {};
}

Result<void> Packer::pack_all(ThreadPool& pool, const ByteProgress& progress) {
    Weights& w = model_.weights_;
    const bool tied = w.output.data == w.token_embd.data;
    const size_t total = model_.packed_bytes_;
    TSR_TRY(model_.packed_, Buffer::create(total, "the packed weights"));
    size_t room_bytes = 0;
    for (const Model::PackJob& job : model_.pack_jobs_) {
        room_bytes = std::max(room_bytes, unit_groups(*job.weight) * group_bytes(*job.weight));
    }
    TSR_TRY(Buffer rooms, Buffer::create(Arena::padded(room_bytes) * static_cast<size_t>(pool.n_threads()),
                                         "what is read of the weights"));
    for (const Model::PackJob& job : model_.pack_jobs_) {
        if (progress) progress(job.offset, total);
        TSR_TRY_VOID(pack(job, pool, {rooms.data(), rooms.size()}));
    }
    if (progress && total) progress(total, total);
    if (tied) w.token_embd = w.output;
    model_.pack_jobs_ = {};
    return {};
}

}  // namespace tessera
