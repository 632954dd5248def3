// gemma, gemma2, gemma3. Embeddings scaled by sqrt(n_embd), GELU, tied embeddings; norm weights in files are
// 1 + w. Gemma 2 and 3 have post-norms. Gemma 2 has soft-caps on attention scores and logits, and a sliding
// window in every other layer. Gemma 3 has QK-norm per head instead, and full attention in every sixth layer;
// the windowed layers have an unscaled RoPE base of 10000. The 27B models of both scale scores by 1 /
// sqrt(n_embd / n_head), which no key says; they are recognized by their number of layers. Source: arXiv
// 2403.08295, 2408.00118, 2503.19786.
#include <cmath>

#include "src/arch/rows.h"
#include "src/model/hparams.h"

namespace tessera::arch {

namespace {

constexpr std::span<const LayerTensor> kGemma2Layer[] = {kPreNormRows, kAttentionRows, kPostNormRows,
                                                         kDenseRows};
constexpr std::span<const LayerTensor> kGemma3Layer[] = {kPreNormRows, kAttentionRows, kHeadNormRows,
                                                         kPostNormRows, kDenseRows};

template <int64_t n_layer_27b>
void scale_of_27b(Hparams& h) {
    if (h.n_layer != n_layer_27b || h.has_attn_scale) return;
    for (LayerSpec& layer : h.layers)
        layer.attn_scale = 1 / std::sqrt(static_cast<float>(h.n_embd) / static_cast<float>(layer.n_head));
}

}  // namespace

extern const ArchSpec kGemma = {
    .name = "gemma",
    .rope = RopeKind::Neox,
    .activation = Activation::Gelu,
    .scale_embeddings_sqrt_dim = true,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kGemma2 = {
    .name = "gemma2",
    .rope = RopeKind::Neox,
    .activation = Activation::Gelu,
    .scale_embeddings_sqrt_dim = true,
    .window_period = 2,
    .default_window = 4096,
    .attn_softcap = 50,
    .final_softcap = 30,
    .finish = scale_of_27b<46>,
    .model_tensors = kModelRows,
    .layer_tensors = kGemma2Layer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kGemma3 = {
    .name = "gemma3",
    .rope = RopeKind::Neox,
    .activation = Activation::Gelu,
    .scale_embeddings_sqrt_dim = true,
    .window_period = 6,
    .plain_local_rope = true,
    .local_rope_base = 10000,
    .finish = scale_of_27b<62>,
    .model_tensors = kModelRows,
    .layer_tensors = kGemma3Layer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
