// llama: Llama 1-3, Mistral and Mistral-Nemo, Mixtral, SmolLM2, TinyLlama, Yi and their many children.
// Pre-norm RMS, SwiGLU, grouped queries, adjacent-pair rotary (converters permute q and k rows for it),
// optional biases, optional experts (Mixtral), embeddings tied or not. mistral3 is the same with YaRN and
// queries that grow with their position, smollm3 with every fourth layer not rotating; both are told by their
// keys or a field. Source: arXiv 2302.13971, 2310.06825, 2401.04088; the cards of Ministral 3 and SmolLM3.
#include "src/arch/rows.h"
#include "src/arch/specs.h"

namespace tessera::arch {

const ArchSpec kLlama = {
    .name = "llama",
    .rope = RopeKind::Norm,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
    .fused_tensors = kFusedTensors,
};

const ArchSpec kMistral3 = {
    .name = "mistral3",
    .rope = RopeKind::Norm,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
    .fused_tensors = kFusedTensors,
};

const ArchSpec kSmolLm3 = {
    .name = "smollm3",
    .rope = RopeKind::Norm,
    .no_rope_period = 4,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
