// Tensor binding. No key has n_vocab; it is the first dimension of the embedding table.
#include "src/model/bind.h"

#include <algorithm>
#include <cmath>

#include "common/strings.h"
#include "ggml-like/gguf/packed.h"

namespace tessera {

int64_t size_of(Dim dim, const Hparams& h, const LayerSpec& layer) {
    switch (dim) {
        case Dim::None:
            return 0;
        case Dim::Embd:
            return h.n_embd;
        case Dim::Vocab:
            return h.n_vocab;
        case Dim::RotHalf:
            return h.rope.n_rot / 2;
        case Dim::Expert:
            return h.moe.n_expert;
        case Dim::Q:
            return layer.n_q();
        case Dim::K:
            return layer.n_k();
        case Dim::V:
            return layer.n_v();
        case Dim::Attn:
            return layer.n_attn();
        case Dim::Head:
            return layer.k_dim;
        case Dim::Heads:
            return layer.n_head;
        case Dim::Ff:
            return layer.n_ff;
        case Dim::FfShared:
            return layer.n_ff_shared;
    }
    return 0;
}

namespace {

/// A layer of this kind without parameters.
LayerWeights empty_layer(const LayerSpec& spec) {
    LayerWeights layer;
    switch (spec.mixer) {
        case MixerKind::Attention:
            layer.mixer.emplace<AttnWeights>();
            break;
    }
    switch (spec.ffn) {
        case FfnKind::Dense:
            layer.ffn.emplace<DenseFfn>();
            break;
        case FfnKind::Moe:
            layer.ffn.emplace<MoeFfn>();
            break;
    }
    return layer;
}

/// Why a layer has no tensor of this kind.
std::string reason_of_absence(const LayerMember& at, const LayerSpec& layer, const std::string& arch) {
    const bool is_of_ffn = std::visit(
        []<class Part, class Value>(Value Part::*) { return kIsAlternative<Part, FfnWeights>; }, at);
    if (!is_of_ffn) return "has another kind of mixer";
    if (has_member(layer, at))
        return strf("has no shared expert (key '%s.expert_shared_feed_forward_length')", arch.c_str());
    return strf(
        "%s (keys '%s.expert_count', '%s.leading_dense_block_count', '%s.expert_feed_forward_length')",
        layer.ffn == FfnKind::Moe ? "has experts" : "is dense", arch.c_str(), arch.c_str(), arch.c_str());
}

}  // namespace

bool has_member(const LayerSpec& layer, const LayerMember& at) {
    const LayerWeights weights = empty_layer(layer);
    bool has = false;
    visit_member(weights, at, [&](const auto&) { has = true; });
    return has;
}

Presence LayerTensor::presence_in(const LayerSpec& layer) const {
    return has_member(layer, at) ? presence(layer) : Presence::Absent;
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

Result<void> Binder::read(const gguf::TensorInfo& tensor, Weight& weight) {
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

Result<void> Binder::read(const gguf::TensorInfo& tensor, Vector& vector) {
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

std::vector<int64_t> Binder::resolved(std::span<const Dim> dims, const LayerSpec& layer) const {
    std::vector<int64_t> shape;
    for (const Dim dim : dims)
        if (dim != Dim::None) shape.push_back(size_of(dim, model_.hparams_, layer));
    return shape;
}

template <class Value>
Result<void> Binder::bind(const std::string& name, std::span<const int64_t> shape, Presence presence,
                          Value& value) {
    const gguf::TensorInfo* tensor = model_.file_.find_tensor(name);
    if (value) {
        if (!tensor) return {};
        return fail(ErrorCode::Malformed,
                    "tensor '%s': expected either it or the fused tensor that contains it, found both",
                    name.c_str());
    }
    if (!tensor && presence == Presence::Optional) return {};
    if (!tensor)
        return fail(ErrorCode::Malformed, "tensor '%s': expected by architecture '%s', not in the file",
                    name.c_str(), model_.hparams_.arch.c_str());
    TSR_TRY_VOID(check_shape(*tensor, shape));
    return read(*tensor, value);
}

Result<void> Binder::check_absent(const std::string& name, const LayerMember& at,
                                  const LayerSpec& layer) const {
    if (!model_.file_.find_tensor(name)) return {};
    return fail(ErrorCode::Malformed, "tensor '%s': expected none, as this layer %s, found one", name.c_str(),
                reason_of_absence(at, layer, model_.hparams_.arch).c_str());
}

Result<void> Binder::bind_fused(const FusedTensor& fused, const std::string& name, const LayerSpec& spec,
                                LayerWeights& layer) {
    if (!has_member(spec, fused.parts[0].at)) return check_absent(name, fused.parts[0].at, spec);
    const gguf::TensorInfo* tensor = model_.file_.find_tensor(name);
    if (!tensor) return {};
    const auto n_rows_of = [&](const FusedTensor::Part& part) {
        return size_of(part.rows, model_.hparams_, spec);
    };
    int64_t n_rows = 0;
    for (const FusedTensor::Part& part : fused.parts) n_rows += n_rows_of(part);
    std::vector<int64_t> expected;
    if (fused.stack != Dim::None) expected.push_back(size_of(fused.stack, model_.hparams_, spec));
    expected.push_back(n_rows);
    if (fused.n_in != Dim::None) expected.push_back(size_of(fused.n_in, model_.hparams_, spec));
    TSR_TRY_VOID(check_shape(*tensor, expected));
    Weight whole;
    Vector values;
    TSR_TRY_VOID(fused.n_in != Dim::None ? read(*tensor, whole) : read(*tensor, values));
    int64_t row = 0;
    for (const FusedTensor::Part& part : fused.parts) {
        if (part.rows == Dim::None) break;
        if (row % kernels::kGroupRows != 0)
            return fail(ErrorCode::Unsupported,
                        "tensor '%s': expected parts of a multiple of %d rows, found one that starts at %lld",
                        name.c_str(), kernels::kGroupRows, static_cast<long long>(row));
        const int64_t n = n_rows_of(part);
        visit_member(layer, part.at, [&]<class Value>(Value& value) {
            if constexpr (std::is_same_v<Value, Weight>) {
                value = whole;
                value.n_out = n;
                value.data = whole.row(row);
            } else {
                value = {values.data + row, n};
            }
        });
        row += n;
    }
    return {};
}

Result<void> Binder::bind_layer(size_t i) {
    const ArchSpec& arch = *model_.arch_;
    const LayerSpec& spec = model_.hparams_.layers[i];
    LayerWeights& layer = model_.weights_.layers[i] = empty_layer(spec);
    const auto name = [i](std::string_view tensor) {
        return strf("blk.%zu.%s", i, std::string(tensor).c_str());
    };
    for (const FusedTensor& fused : arch.fused_tensors)
        TSR_TRY_VOID(bind_fused(fused, name(fused.name), spec, layer));
    for (const std::span<const LayerTensor> group : arch.layer_tensors)
        for (const LayerTensor& row : group) {
            const Presence presence = row.presence_in(spec);
            Result<void> bound;
            if (presence == Presence::Absent)
                bound = check_absent(name(row.name), row.at, spec);
            else
                visit_member(layer, row.at, [&](auto& value) {
                    bound = bind(name(row.name), resolved(row.shape, spec), presence, value);
                });
            TSR_TRY_VOID(std::move(bound));
        }
    return check_ffn(layer, i);
}

/// An architecture may lack the tensors of a kind of layer that the keys of a file describe.
Result<void> Binder::check_ffn(const LayerWeights& layer, size_t i) const {
    const auto* dense = std::get_if<DenseFfn>(&layer.ffn);
    const auto* moe = std::get_if<MoeFfn>(&layer.ffn);
    if (dense ? static_cast<bool>(dense->down) : static_cast<bool>(moe->down_exps)) return {};
    return fail(ErrorCode::Unsupported,
                "key '%s.expert_count': architecture '%s' has no %s layers, expected none, found layer %zu",
                model_.hparams_.arch.c_str(), model_.hparams_.arch.c_str(), dense ? "dense" : "expert", i);
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
    for (const ModelTensor& row : arch.model_tensors)
        TSR_TRY_VOID(std::visit(
            [&](auto member) {
                return bind(std::string(row.name), resolved(row.shape, {}), row.presence, w.*member);
            },
            row.at));
    if (!w.output) w.output = w.token_embd;
    w.layers.resize(static_cast<size_t>(model_.hparams_.n_layer));
    for (size_t i = 0; i < w.layers.size(); ++i) TSR_TRY_VOID(bind_layer(i));
    return check_rope_factors();
}

}  // namespace tessera
