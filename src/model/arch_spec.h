#pragma once
// An architecture as data: what its file is called, which tensors it has, and which of the forward pass's
// switches it sets. The specs are in src/arch, a file for each family; everything that differs between models
// is a field here, a number of the file (Hparams), or a tensor that is absent.
#include <span>
#include <string_view>
#include <variant>

#include "ggml-like/backend.h"
#include "src/model/weights.h"

namespace tessera {

struct Hparams;

/// Symbolic dimensions of tensors, resolved from Hparams.
enum class Dim : uint8_t {
    None,
    Embd,
    Q,
    Kv,
    Ff,
    FfExpert,
    FfShared,
    Expert,
    Vocab,
    RotHalf,
    Head,   // elements of a head
    Heads,  // number of query heads
};

/// 0 for None.
int64_t size_of(Dim dim, const Hparams& h);

/// When a tensor must be there: in models without experts, with experts, with a shared expert.
enum class Need : uint8_t { Always, Optional, Dense, Expert, Shared };

using LayerMember = std::variant<Weight LayerWeights::*, Vector LayerWeights::*>;

/// One tensor of a block ("blk.N." + name) or of the whole model, and where it is bound.
struct LayerTensor {
    std::string_view name;
    LayerMember at;
    Dim shape[3];  // outermost first; None = unused
    Need need;
};
struct ModelTensor {
    std::string_view name;
    std::variant<Weight Weights::*, Vector Weights::*> at;
    Dim shape[3];
    Need need;
};

/// A tensor whose rows are those of several, one after the other. Where a file has it, they are bound as
/// parts of it, and the forward pass does not know.
struct FusedTensor {
    std::string_view name;
    struct Part {
        LayerMember at;
        Dim rows;  // None = unused
    };
    Part parts[3];
    Dim stack = Dim::None;  // Expert: a stack of such matrices
    Dim n_in = Dim::None;   // None: a vector
};

struct ArchSpec {
    std::string_view name;  // general.architecture
    RopeKind rope = RopeKind::Norm;
    Activation activation = Activation::Silu;
    RouterKind router = RouterKind::SoftmaxOfChosen;

    /// Embeddings are multiplied by sqrt(n_embd).
    bool scale_embeddings_sqrt_dim = false;
    /// The file's embedding_scale, residual_scale and logit_scale (a divisor) count, and
    /// rope.scaling.finetuned = false means no rotation at all.
    bool has_multipliers = false;

    /// Of every `window_period` layers the last one sees all keys, the others a window; 0 = all see all.
    int64_t window_period = 0;
    int64_t default_window = 0;  // where the file has no sliding_window; 0 = all see all
    /// Layers with a window rotate without any scaling, by local_rope_base (0 = the base of the others).
    bool plain_local_rope = false;
    double local_rope_base = 0;
    /// Every so many layers one does not rotate; 0 = all do.
    int64_t no_rope_period = 0;

    float attn_softcap = 0, final_softcap = 0;  // where the file does not say; 0 = off

    /// What no field can say, after all keys are read.
    void (*finish)(Hparams& h) = nullptr;

    std::span<const ModelTensor> model_tensors;
    std::span<const std::span<const LayerTensor>> layer_tensors;  // in groups
    std::span<const FusedTensor> fused_tensors;
};

/// Every architecture we run.
std::span<const ArchSpec* const> all_architectures();

/// The spec of `general.architecture`. The error lists those we run, and says of others that are known that
/// they are not run yet.
Result<const ArchSpec*> find_architecture(std::string_view name);

}  // namespace tessera
