// exaone4: EXAONE 4.0. Norms behind the sublayers instead of before them, and QK-norm of each head. The 32B
// model, of 64 layers, has a sliding window in three of four layers, and no RoPE in the others; the 1.2B
// model has neither. Source: arXiv 2507.11407.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr std::span<const LayerTensor> kExaone4Layer[] = {kAttentionRows, kHeadNormRows, kPostNormRows,
                                                          kDenseRows};

/// Files do not say whether the layers differ: the number of layers does.
void equal_layers_unless_64(Hparams& h) {
    if (h.n_layer == 64) return;
    for (LayerSpec& layer : h.layers) {
        layer.window = 0;
        layer.rope = LayerRope::Global;
    }
}

}  // namespace

extern const ArchSpec kExaone4 = {
    .name = "exaone4",
    .rope = RopeKind::Neox,
    .window_period = 4,
    .default_window = 4096,
    .no_rope_period = 4,
    .finish = equal_layers_unless_64,
    .model_tensors = kModelRows,
    .layer_tensors = kExaone4Layer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
