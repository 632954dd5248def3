#pragma once
// An architecture as data: what its file is called, which tensors it has, and which of the forward pass's
// switches it sets. The specs are in src/arch, a file for each family; everything that differs between models
// is a field here.
#include <span>
#include <string_view>
#include <variant>

#include "ggml-like/backend.h"
#include "src/model/weights.h"

namespace tessera {

/// Symbolic dimensions of tensors, resolved from Hparams.
enum class Dim : uint8_t { None, Embd, Q, Kv, Ff, FfExpert, Expert, Vocab, RotHalf, Head };

/// When a tensor must be there.
enum class Need : uint8_t { Always, Optional, Dense, Expert };

/// One tensor of a block ("blk.N." + name) or of the whole model, and where it is bound.
struct LayerTensor {
    std::string_view name;
    std::variant<Weight LayerWeights::*, Vector LayerWeights::*> at;
    Dim shape[3];  // outermost first; None = unused
    Need need;
};
struct ModelTensor {
    std::string_view name;
    std::variant<Weight Weights::*, Vector Weights::*> at;
    Dim shape[3];
    Need need;
};

struct ArchSpec {
    std::string_view name;  // general.architecture
    RopeKind rope = RopeKind::Norm;
    Activation activation = Activation::Silu;
    RouterKind router = RouterKind::SoftmaxTopK;
    std::span<const ModelTensor> model_tensors;
    std::span<const std::span<const LayerTensor>> layer_tensors;  // in groups
};

/// Every architecture we run.
std::span<const ArchSpec* const> all_architectures();

/// The spec of `general.architecture`; the error lists those we run.
Result<const ArchSpec*> find_architecture(std::string_view name);

}  // namespace tessera
