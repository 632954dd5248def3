// seed_oss: Seed-OSS 36B. Like qwen2 with heads of any size. In files the pre-norm of the feed-forward
// sublayer is called post_attention_norm. Source: the model card of Seed-OSS-36B.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr LayerTensor kNormRows[] = {
    {"attn_norm.weight", &LayerWeights::attn_norm, {Dim::Embd}, required},
    {"post_attention_norm.weight", &LayerWeights::ffn_norm, {Dim::Embd}, required},
};
constexpr std::span<const LayerTensor> kSeedOssLayer[] = {kNormRows, kAttentionRows, kQkvBiasRows,
                                                          kDenseRows};

}  // namespace

extern const ArchSpec kSeedOss = {
    .name = "seed_oss",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kSeedOssLayer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
