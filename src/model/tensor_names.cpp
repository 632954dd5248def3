// Parameters do not store their tensor's name, so it is derived from the tables of the architecture;
// parameters without a tensor in the file are parts of a fused tensor.
#include "src/model/tensor_names.h"

namespace tessera {

TensorNames tensor_names(const Model& model) {
    TensorNames names;
    const ArchSpec& arch = model.arch();
    // Of a tensor that the file has.
    const auto add = [&](const auto& value, TensorRows tensor) {
        if (model.file().find_tensor(tensor.name)) names.try_emplace(value.data, std::move(tensor));
    };
    for (const ModelTensor& row : arch.model_tensors)
        std::visit(
            [&](auto member) {
                add(model.weights().*member, {std::string(row.name), 0, -1});
            },
            row.at);
    for (size_t i = 0; i < model.weights().layers.size(); ++i) {
        const LayerWeights& layer = model.weights().layers[i];
        const auto add_rows = [&](const LayerMember& at, std::string_view tensor, int64_t row0) {
            visit_member(layer, at, [&](const auto& value) {
                add(value,
                    {strf("blk.%zu.%s", i, std::string(tensor).c_str()), row0, static_cast<int32_t>(i)});
            });
        };
        for (const FusedTensor& fused : arch.fused_tensors) {
            int64_t row0 = 0;
            for (const FusedTensor::Part& part : fused.parts) {
                if (part.rows == Dim::None) break;
                add_rows(part.at, fused.name, row0);
                row0 += size_of(part.rows, model.hparams(), model.hparams().layers[i]);
            }
        }
        for (const std::span<const LayerTensor> group : arch.layer_tensors)
            for (const LayerTensor& row : group) add_rows(row.at, row.name, 0);
    }
    return names;
}

}  // namespace tessera
