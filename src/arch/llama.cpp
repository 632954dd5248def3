// llama: Llama 1-3, Mistral and Mistral-Nemo, Mixtral, SmolLM2, TinyLlama, Yi and their many children.
// RMS pre-norm, SwiGLU, GQA, RoPE on adjacent pairs (converters permute the rows of q and k for it), optional
// biases, optional experts (Mixtral), optionally tied embeddings. mistral3 adds YaRN and attention
// temperature scaling, from keys of the file; smollm3 has no RoPE in every fourth layer. Source: arXiv
// 2302.13971, 2310.06825, 2401.04088; the cards of Ministral 3 and SmolLM3.
#include "src/arch/rows.h"

namespace tessera::arch {

extern const ArchSpec kLlama = {
    .name = "llama",
    .rope = RopeKind::Norm,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kMistral3 = {
    .name = "mistral3",
    .rope = RopeKind::Norm,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kSmolLm3 = {
    .name = "smollm3",
    .rope = RopeKind::Norm,
    .no_rope_period = 4,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
