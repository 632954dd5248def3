// Parameters do not store their tensor's name, so it is derived from the tables of the architecture;
// parameters without a tensor in the file are parts of a fused tensor.
#include "src/model/tensor_names.h"

namespace tessera {

namespace {

/// Adds the name of the tensor that member `at` of `owner` is bound to, if the file has it.
template <class Owner, class Member>
void add(TensorNames& names, const Model& model, const Owner& owner, const Member& at, TensorRows tensor) {
    if (!model.file().find_tensor(tensor.name)) return;
    std::visit([&](auto member) { names.try_emplace((owner.*member).data, std::move(tensor)); }, at);
}

}  // namespace

TensorNames tensor_names(const Model& model) {
    TensorNames names;
    const ArchSpec& arch = model.arch();
    for (const ModelTensor& row : arch.model_tensors)
        add(names, model, model.weights(), row.at, {std::string(row.name), 0, -1});
    for (size_t i = 0; i < model.weights().layers.size(); ++i) {
        const LayerWeights& layer = model.weights().layers[i];
        const auto name = [i](std::string_view tensor, int64_t row0) {
            return TensorRows{strf("blk.%zu.%s", i, std::string(tensor).c_str()), row0,
                              static_cast<int32_t>(i)};
        };
        for (const FusedTensor& fused : arch.fused_tensors) {
            int64_t row0 = 0;
            for (const FusedTensor::Part& part : fused.parts) {
                if (part.rows == Dim::None) break;
                add(names, model, layer, part.at, name(fused.name, row0));
                row0 += size_of(part.rows, model.hparams());
            }
        }
        for (const std::span<const LayerTensor> group : arch.layer_tensors)
            for (const LayerTensor& row : group) add(names, model, layer, row.at, name(row.name, 0));
    }
    return names;
}

}  // namespace tessera
