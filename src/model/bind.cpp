// Tensor binding. No key has n_vocab; it is the first dimension of the embedding table.
#include "src/model/bind.h"

#include <algorithm>
#include <cmath>

#include "common/strings.h"
#include "ggml-like/gguf/packed.h"

namespace tessera {

int64_t size_of(Dim dim, const Hparams& h) {
    switch (dim) {
        case Dim::None:
            return 0;
        case Dim::Embd:
            return h.n_embd;
        case Dim::Q:
            return h.q_dim();
        case Dim::Kv:
            return h.kv_dim();
        case Dim::Ff:
            return h.n_ff;
        case Dim::FfExpert:
            return h.moe.n_ff;
        case Dim::FfShared:
            return h.moe.n_ff_shared;
        case Dim::Expert:
            return h.moe.n_expert;
        case Dim::Vocab:
            return h.n_vocab;
        case Dim::RotHalf:
            return h.rope.n_rot / 2;
        case Dim::Head:
            return h.head_dim;
        case Dim::Heads:
            return h.n_head;
    }
    return 0;
}

Result<void> Binder::check_shape(const gguf::TensorInfo& tensor, std::span<const int64_t> expected) const {
    // Leading dimensions of 1 are ignored.
    int first = 0;
    while (tensor.n_dims - first > static_cast<int>(expected.size()) && tensor.shape[first] == 1) ++first;
    const std::span<const int64_t> found(tensor.shape + first, static_cast<size_t>(tensor.n_dims - first));
    if (std::equal(expected.begin(), expected.end(), found.begin(), found.end())) return {};
    std::string text;
    for (const int64_t n : expected)
        text += strf("%s%lld", text.empty() ? "" : ", ", static_cast<long long>(n));
    return fail(ErrorCode::Malformed, "tensor '%s': expected shape [%s], found %s",
                printable(tensor.name).c_str(), text.c_str(), tensor.shape_string().c_str());
}

Result<void> Binder::bind_weight(const gguf::TensorInfo& tensor, Weight& weight) {
    const TypeInfo& info = type_info(tensor.type);
    if (info.role != TypeRole::Weight)
        return fail(ErrorCode::Malformed, "tensor '%s': expected a weight type, found %s",
                    printable(tensor.name).c_str(), std::string(info.name).c_str());
    const kernels::PackedKernels& packed = model_.kernels_->packed[static_cast<uint32_t>(tensor.type)];
    if (tensor.layout == Layout::Packed && !packed.unpack)
        return fail(ErrorCode::Unsupported,
                    "tensor '%s' (%s): packed, but the instruction set '%s' has no packed kernel for this "
                    "type; unpack the file",
                    printable(tensor.name).c_str(), std::string(info.name).c_str(), model_.kernels_->name);
    weight.type = tensor.type;
    weight.layout = tensor.layout;
    weight.n_in = tensor.n_cols();
    weight.n_out = tensor.n_dims > 1 ? tensor.shape[tensor.n_dims - 2] : 1;
    weight.n_expert = tensor.n_dims == 3 ? tensor.shape[0] : 0;
    weight.data = tensor.data.data();
    weight.row_bytes = static_cast<size_t>(info.row_bytes(weight.n_in));
    weight.expert_bytes = tensor.data.size() / static_cast<size_t>(std::max<int64_t>(1, weight.n_expert));
    return {};
}

Result<void> Binder::bind_vector(const gguf::TensorInfo& tensor, Vector& vector) {
    const TypeInfo& info = type_info(tensor.type);
    if (info.role != TypeRole::Weight || tensor.layout != Layout::Rows)
        return fail(ErrorCode::Malformed, "tensor '%s': expected float values, found type %s",
                    printable(tensor.name).c_str(), gguf::stored_name({tensor.type, tensor.layout}).c_str());
    std::vector<float>& values = model_.floats_.emplace_back(static_cast<size_t>(tensor.n_elements()));
    // Read instead of mapped: each access through the mapping would keep a page of up to 2 MiB resident.
    std::vector<std::byte> room(tensor.data.size());
    TSR_TRY(const std::byte* data, model_.file_.read(tensor.data, room.data()));
    info.dequantize(data, values.data(), tensor.n_elements());
    vector = {values.data(), tensor.n_elements()};
    return {};
}

namespace {

bool is_bound(const LayerWeights& layer, const LayerMember& at) {
    return std::visit([&](auto member) { return static_cast<bool>(layer.*member); }, at);
}
/// Tensors of the whole model are never fused.
bool is_bound(const Weights&, const std::variant<Weight Weights::*, Vector Weights::*>&) { return false; }

}  // namespace

template <class Owner, class Row>
Result<void> Binder::bind(const Row& row, const std::string& name, Owner& owner) {
    const MoeHparams& moe = model_.hparams_.moe;
    const char* arch = model_.hparams_.arch.c_str();
    const gguf::TensorInfo* tensor = model_.file_.find_tensor(name);
    if (is_bound(owner, row.at)) {
        if (!tensor) return {};
        return fail(ErrorCode::Malformed,
                    "tensor '%s': expected either it or the fused tensor that contains it, found both",
                    name.c_str());
    }
    const bool wanted = row.need == Need::Always || (row.need == Need::Dense && moe.n_expert == 0) ||
                        (row.need == Need::Expert && moe.n_expert > 0) ||
                        (row.need == Need::Shared && moe.n_ff_shared > 0);
    if (!tensor && !wanted) return {};
    if (!wanted && (row.need == Need::Expert || row.need == Need::Shared))
        return fail(ErrorCode::Malformed,
                    "tensor '%s': expected none, as key '%s.%s' is 0 or absent, found one", name.c_str(),
                    arch, row.need == Need::Expert ? "expert_count" : "expert_shared_feed_forward_length");
    if (!tensor)
        return fail(ErrorCode::Malformed, "tensor '%s': expected by architecture '%s', not in the file",
                    name.c_str(), arch);
    std::vector<int64_t> expected;
    for (const Dim dim : row.shape)
        if (dim != Dim::None) expected.push_back(size_of(dim));
    TSR_TRY_VOID(check_shape(*tensor, expected));
    if (auto* weight = std::get_if<0>(&row.at)) return bind_weight(*tensor, owner.*(*weight));
    return bind_vector(*tensor, owner.*std::get<1>(row.at));
}

Result<void> Binder::bind_fused(const FusedTensor& fused, const std::string& name, LayerWeights& layer) {
    const gguf::TensorInfo* tensor = model_.file_.find_tensor(name);
    if (!tensor) return {};
    int64_t n_rows = 0;
    for (const FusedTensor::Part& part : fused.parts) n_rows += size_of(part.rows);
    std::vector<int64_t> expected;
    if (fused.stack != Dim::None) expected.push_back(size_of(fused.stack));
    expected.push_back(n_rows);
    if (fused.n_in != Dim::None) expected.push_back(size_of(fused.n_in));
    TSR_TRY_VOID(check_shape(*tensor, expected));
    Weight whole;
    Vector values;
    TSR_TRY_VOID(fused.n_in != Dim::None ? bind_weight(*tensor, whole) : bind_vector(*tensor, values));
    int64_t row = 0;
    for (const FusedTensor::Part& part : fused.parts) {
        if (part.rows == Dim::None) break;
        if (row % kernels::kGroupRows != 0)
            return fail(ErrorCode::Unsupported,
                        "tensor '%s': expected parts of a multiple of %d rows, found one that starts at %lld",
                        name.c_str(), kernels::kGroupRows, static_cast<long long>(row));
        const int64_t n = size_of(part.rows);
        if (auto* weight = std::get_if<0>(&part.at)) {
            layer.*(*weight) = whole;
            (layer.*(*weight)).n_out = n;
            (layer.*(*weight)).data = whole.row(row);
        } else {
            layer.*std::get<1>(part.at) = {values.data + row, n};
        }
        row += n;
    }
    return {};
}

Result<void> Binder::bind_layer(size_t i) {
    const ArchSpec& arch = *model_.arch_;
    LayerWeights& layer = model_.weights_.layers[i];
    const auto name = [i](std::string_view tensor) {
        return strf("blk.%zu.%s", i, std::string(tensor).c_str());
    };
    for (const FusedTensor& fused : arch.fused_tensors)
        TSR_TRY_VOID(bind_fused(fused, name(fused.name), layer));
    for (const std::span<const LayerTensor> group : arch.layer_tensors)
        for (const LayerTensor& row : group) TSR_TRY_VOID(bind(row, name(row.name), layer));
    return check_sublayers(layer, i);
}

Result<void> check_sublayers(const LayerWeights& layer, size_t i) {
    if (!layer.router || !layer.ffn_post_norm) return {};
    return fail(
        ErrorCode::Unsupported,
        "tensor 'blk.%zu.post_ffw_norm.weight': expected no norm behind a mixture of experts, found one", i);
}

Result<void> Binder::check_divisors(const Vector& divisors, const char* name) const {
    for (int64_t i = 0; i < divisors.n; ++i)
        if (!(std::abs(divisors.data[i]) > 1e-6f) || !std::isfinite(divisors.data[i]))
            return fail(ErrorCode::Malformed, "tensor '%s': expected finite divisors, found %g at %lld", name,
                        static_cast<double>(divisors.data[i]), static_cast<long long>(i));
    return {};
}

Result<void> Binder::check_rope_factors() const {
    const Weights& w = model_.weights_;
    TSR_TRY_VOID(check_divisors(w.rope_freqs, "rope_freqs.weight"));
    TSR_TRY_VOID(check_divisors(w.rope_short, "rope_factors_short.weight"));
    TSR_TRY_VOID(check_divisors(w.rope_long, "rope_factors_long.weight"));
    const bool wanted = model_.hparams_.rope.scaling == RopeScaling::LongRope;
    if (static_cast<bool>(w.rope_short) == static_cast<bool>(w.rope_long) && (w.rope_long || !wanted))
        return {};
    return fail(ErrorCode::Malformed, "tensor '%s': expected for the scaling longrope, not in the file",
                w.rope_long ? "rope_factors_short.weight" : "rope_factors_long.weight");
}

Result<void> Binder::bind_all() {
    const ArchSpec& arch = *model_.arch_;
    Weights& w = model_.weights_;
    const gguf::TensorInfo* embd = model_.file_.find_tensor("token_embd.weight");
    if (embd && embd->n_dims == 2) model_.hparams_.n_vocab = embd->shape[0];
    for (const ModelTensor& row : arch.model_tensors) TSR_TRY_VOID(bind(row, std::string(row.name), w));
    if (!w.output) w.output = w.token_embd;
    w.layers.resize(static_cast<size_t>(model_.hparams_.n_layer));
    for (size_t i = 0; i < w.layers.size(); ++i) TSR_TRY_VOID(bind_layer(i));
    return check_rope_factors();
}

}  // namespace tessera
