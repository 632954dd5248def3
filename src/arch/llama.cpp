// llama: Llama 1-3, Mistral and Mistral-Nemo, Mixtral, SmolLM2, TinyLlama, Yi and their many children.
// Pre-norm RMS, SwiGLU, grouped queries, adjacent-pair rotary (converters permute q and k rows for it),
// optional biases, optional experts (Mixtral), embeddings tied or not. Source: arXiv 2302.13971, 2310.06825,
// 2401.04088.
#include "src/arch/rows.h"
#include "src/arch/specs.h"

namespace tessera::arch {

const ArchSpec kLlama = {
    .name = "llama",
    .rope = RopeKind::Norm,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
};

}  // namespace tessera::arch
