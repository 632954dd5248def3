// Packing at load. Matrices are packed one after the other in the order of the forward pass, each by all
// threads; file pages are dropped as soon as they are packed, so that peak memory is the packed copy plus a
// few MiB. Those of a packed container (packed_file.cpp makes it) are in order and stay where they
// are.
#include "src/model/pack.h"

#include <algorithm>

namespace tessera {

namespace {

/// Groups of one unit of work: about 1 MiB of a large matrix.
constexpr int64_t kUnitGroups = 64;

int64_t n_groups(const Weight& w) { return (w.n_out + kernels::kGroupRows - 1) / kernels::kGroupRows; }

template <class Matrix, class AnyWeights>
std::vector<Matrix*> matrices_of(AnyWeights& weights) {
    std::vector<Matrix*> all;
    for (auto& layer : weights.layers)
        for (Weight LayerWeights::*matrix : kLayerMatrices) all.push_back(&(layer.*matrix));
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
    // A tied table of embeddings is looked up where the head is; another one is not multiplied with.
    if (tied)
        w.token_embd = w.output;
    else
        plan(w.token_embd, false);
}

void Packer::pack(const Model::PackJob& job, ThreadPool& pool) {
    Weight& w = *job.weight;
    const kernels::PackFn pack_group = model_.kernels_->packed[static_cast<uint32_t>(w.type)].pack;
    std::byte* out = model_.packed_.data() + job.offset;
    const int64_t groups = n_groups(w);
    const int64_t units = (groups + kUnitGroups - 1) / kUnitGroups;
    const int64_t n_matrices = w.n_expert > 0 ? w.n_expert : 1;
    pool.run(n_matrices * units, [&](int64_t unit, int) {
        const int64_t e = unit / units, first = unit % units * kUnitGroups;
        const int64_t last = std::min(first + kUnitGroups, groups);
        const std::byte* in = job.from + static_cast<size_t>(e) * job.from_expert_bytes;
        std::byte* matrix = out + static_cast<size_t>(e) * job.matrix_bytes;
        for (int64_t g = first; g < last; ++g) {
            const size_t at = static_cast<size_t>(g) * kernels::kGroupRows * w.row_bytes;
            const auto rows = std::min<int64_t>(kernels::kGroupRows, w.n_out - g * kernels::kGroupRows);
            pack_group(in + at, w.row_bytes, static_cast<int>(rows), w.n_in, matrix + at);
        }
        const int64_t row0 = first * kernels::kGroupRows,
                      row1 = std::min(last * kernels::kGroupRows, w.n_out);
        model_.file_.release(
            {in + static_cast<size_t>(row0) * w.row_bytes, static_cast<size_t>(row1 - row0) * w.row_bytes});
    });
    // Once more for the pages that two units share. A part of a fused tensor ends before its last expert
    // does.
    const size_t matrix_bytes = static_cast<size_t>(w.n_out) * w.row_bytes;
    model_.file_.release(
        {job.from, static_cast<size_t>(n_matrices - 1) * job.from_expert_bytes + matrix_bytes});
    w.data = out;
}

Result<void> Packer::pack_all(ThreadPool& pool, const ByteProgress& progress) {
    Weights& w = model_.weights_;
    const bool tied = w.output.data == w.token_embd.data;
    const size_t total = model_.packed_bytes_;
    TSR_TRY(model_.packed_, Buffer::create(total, "the packed weights"));
    for (const Model::PackJob& job : model_.pack_jobs_) {
        if (progress) progress(job.offset, total);
        pack(job, pool);
    }
    if (progress && total) progress(total, total);
    if (tied) w.token_embd = w.output;
    model_.pack_jobs_ = {};
    return {};
}

}  // namespace tessera
