// qwen2, qwen3, qwen3moe. Like llama, but pairs of a head's halves rotate; Qwen2 and 2.5 have q, k and v
// biases, Qwen3 a norm of each q and k head before rotation, and its experts are chosen by softmax over all,
// then renormalised. Source: arXiv 2407.10671 (Qwen2), 2505.09388 (Qwen3).
#include "src/arch/rows.h"
#include "src/arch/specs.h"

namespace tessera::arch {

const ArchSpec kQwen2 = {
    .name = "qwen2",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kPlainLayer,
};

const ArchSpec kQwen3 = {
    .name = "qwen3",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kHeadNormLayer,
};

const ArchSpec kQwen3Moe = {
    .name = "qwen3moe",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kHeadNormLayer,
};

}  // namespace tessera::arch
