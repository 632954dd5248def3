// Tensor binding. Dimension n_vocab is the one that no key gives: it is the embedding table's first
// dimension.
#include "src/model/bind.h"

#include <algorithm>
#include <cmath>

#include "common/strings.h"
#include "ggml-like/gguf/packed.h"

namespace tessera {

int64_t Binder::size_of(Dim dim) const {
    const Hparams& h = model_.hparams_;
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
        case Dim::Expert:
            return h.moe.n_expert;
        case Dim::Vocab:
            return h.n_vocab;
        case Dim::RotHalf:
            return h.rope.n_rot / 2;
        case Dim::Head:
            return h.head_dim;
    }
    return 0;
}

Result<void> Binder::check_shape(const gguf::TensorInfo& tensor, const Dim (&dims)[3]) const {
    int n_dims = 0;
    std::string expected = "[";
    bool same = true;
    for (const Dim dim : dims) {
        if (dim == Dim::None) break;
        expected += strf("%s%lld", n_dims ? ", " : "", static_cast<long long>(size_of(dim)));
        same = same && n_dims < tensor.n_dims && tensor.shape[n_dims] == size_of(dim);
        ++n_dims;
    }
    if (same && n_dims == tensor.n_dims) return {};
    return fail(ErrorCode::Malformed, "tensor '%s': expected shape %s], found %s",
                printable(tensor.name).c_str(), expected.c_str(), tensor.shape_string().c_str());
}

Result<void> Binder::bind_weight(const gguf::TensorInfo& tensor, Weight& weight) {
    const TypeInfo& info = type_info(tensor.type);
    if (info.role != TypeRole::Weight)
        return fail(ErrorCode::Malformed, "tensor '%s': expected a weight type, found %s",
                    printable(tensor.name).c_str(), std::string(info.name).c_str());
    const kernels::PackedKernels& packed = model_.kernels_->packed[static_cast<uint32_t>(tensor.type)];
    if (tensor.layout == Layout::Packed && !packed.matmul)
        return fail(ErrorCode::Unsupported,
                    "tensor '%s' (%s): packed, but the instruction set '%s' has no packed kernel for this "
                    "type; unpack the file",
                    printable(tensor.name).c_str(), std::string(info.name).c_str(), model_.kernels_->name);
    weight.type = tensor.type;
    weight.layout = tensor.layout;
    weight.n_in = tensor.n_cols();
    weight.n_out = tensor.shape[tensor.n_dims - 2];
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
    info.dequantize(tensor.data.data(), values.data(), tensor.n_elements());
    vector = {values.data(), tensor.n_elements()};
    return {};
}

template <class Owner, class Row>
Result<void> Binder::bind(const Row& row, const std::string& name, Owner& owner) {
    const bool is_moe = model_.hparams_.moe.n_expert > 0;
    const gguf::TensorInfo* tensor = model_.file_.find_tensor(name);
    const bool wanted = row.need == Need::Always || (row.need == Need::Dense && !is_moe) ||
                        (row.need == Need::Expert && is_moe);
    if (!tensor && !wanted) return {};
    if (row.need == Need::Expert && !is_moe)
        return fail(ErrorCode::Malformed, "tensor '%s': found, but key '%s.expert_count' is 0 or absent",
                    name.c_str(), model_.hparams_.arch.c_str());
    if (!tensor)
        return fail(ErrorCode::Malformed, "tensor '%s': expected by architecture '%s', not in the file",
                    name.c_str(), model_.hparams_.arch.c_str());
    TSR_TRY_VOID(check_shape(*tensor, row.shape));
    if (auto* weight = std::get_if<0>(&row.at)) return bind_weight(*tensor, owner.*(*weight));
    return bind_vector(*tensor, owner.*std::get<1>(row.at));
}

Result<void> Binder::bind_all() {
    const ArchSpec& arch = *model_.arch_;
    Weights& w = model_.weights_;
    const gguf::TensorInfo* embd = model_.file_.find_tensor("token_embd.weight");
    if (embd && embd->n_dims == 2) model_.hparams_.n_vocab = embd->shape[0];
    for (const ModelTensor& row : arch.model_tensors) TSR_TRY_VOID(bind(row, std::string(row.name), w));
    if (!w.output) w.output = w.token_embd;
    w.layers.resize(static_cast<size_t>(model_.hparams_.n_layer));
    for (size_t i = 0; i < w.layers.size(); ++i)
        for (const std::span<const LayerTensor> group : arch.layer_tensors)
            for (const LayerTensor& row : group)
                TSR_TRY_VOID(bind(row, strf("blk.%zu.%s", i, std::string(row.name).c_str()), w.layers[i]));
    for (int64_t i = 0; i < w.rope_freqs.n; ++i)
        if (!(std::abs(w.rope_freqs.data[i]) > 1e-6f) || !std::isfinite(w.rope_freqs.data[i]))
            return fail(ErrorCode::Malformed,
                        "tensor 'rope_freqs.weight': expected finite divisors, found %g at %lld",
                        static_cast<double>(w.rope_freqs.data[i]), static_cast<long long>(i));
    return {};
}

}  // namespace tessera
