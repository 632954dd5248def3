#pragma once
// An architecture as data: its name in files, its tensors, and the variants of the forward pass that it uses.
// The specs are in src/arch, one file per family. Every difference between models is a field here, a number
// in the file (Hparams) or an absent tensor.
#include <span>
#include <string_view>
#include <variant>

#include "ggml-like/backend.h"
#include "src/model/layer_spec.h"
#include "src/model/weights.h"

namespace tessera {

struct Hparams;

/// Symbolic dimensions of tensors, resolved from Hparams and, where layers may differ, from LayerSpec.
enum class Dim : uint8_t {
    None,
    Embd,
    Vocab,
    RotHalf,
    Expert,
    // Of a layer:
    Q,     // rows of all query heads
    K,     // rows of all key heads
    V,     // rows of all value heads
    Attn,  // columns of attention's output, one value head for each query head
    Head,  // elements of a query or key head
    Heads,
    Ff,  // of the feed-forward network, or of one expert
    FfShared,
};

/// The size of a dimension; 0 for None.
int64_t size_of(Dim dim, const Hparams& h, const LayerSpec& layer);

/// Whether a tensor has to be in the file, may be there, or must not be.
enum class Presence : uint8_t { Required, Optional, Absent };

/// The presence of a tensor in a layer.
using LayerPredicate = Presence (*)(const LayerSpec& layer);

/// A parameter of a layer or of a part of it. Layers without that part do not have the parameter.
using LayerMember = std::variant<Vector LayerWeights::*, Weight AttnWeights::*, Vector AttnWeights::*,
                                 Weight DenseFfn::*, Vector DenseFfn::*, Weight MoeFfn::*, Vector MoeFfn::*>;

/// fn(Weight& or Vector&) for the parameter `at` of a layer; nothing if the layer does not have it.
template <class Layer, class Fn>
void visit_member(Layer& layer, const LayerMember& at, Fn&& fn) {
    const auto visit = [&]<class Part, class Value>(Value Part::*member) {
        if (auto* part = LayerWeights::part<Part>(layer)) fn(part->*member);
    };
    std::visit(visit, at);
}

/// A tensor of a layer ("blk.N." + name) or of the whole model, and the member it is bound to.
struct LayerTensor {
    std::string_view name;
    LayerMember at;
    Dim shape[3];  // outermost first; None = unused
    LayerPredicate presence;

    /// Absent too if the layer does not have the parameter.
    Presence presence_in(const LayerSpec& layer) const;
};
struct ModelTensor {
    std::string_view name;
    std::variant<Weight Weights::*, Vector Weights::*> at;
    Dim shape[3];
    Presence presence;
};

/// A tensor whose rows are the concatenated rows of several parameters of one part of a layer. If a file has
/// it, they are bound to parts of it; the forward pass does not see the difference.
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

/// Whether layers of this kind have the parameter.
bool has_member(const LayerSpec& layer, const LayerMember& at);

struct ArchSpec {
    std::string_view name;  // general.architecture
    RopeKind rope = RopeKind::Norm;
    Activation activation = Activation::Silu;
    RouterKind router = RouterKind::SoftmaxOverSelected;
    bool layer_norm = false;  // norms subtract the mean and may have biases; otherwise they are RMS norms

    /// Embeddings are multiplied by sqrt(n_embd).
    bool scale_embeddings_sqrt_dim = false;
    /// The file's embedding_scale, residual_scale and logit_scale (a divisor) apply, and
    /// rope.scaling.finetuned = false means no RoPE.
    bool has_multipliers = false;

    /// Every `window_period`-th layer has full attention, the others a sliding window; 0 = full attention in
    /// all layers.
    int64_t window_period = 0;
    int64_t default_window = 0;  // if the file has no sliding_window; 0 = full attention
    /// Windowed layers use unscaled RoPE with the base local_rope_base (0 = the base of the other layers).
    bool plain_local_rope = false;
    double local_rope_base = 0;
    /// Every `no_rope_period`-th layer has no RoPE; 0 = all layers have it.
    int64_t no_rope_period = 0;

    float attn_softcap = 0, final_softcap = 0;  // if the file does not have the keys; 0 = off

    /// Adjustments that no field can express, after all keys are read.
    void (*finish)(Hparams& h) = nullptr;

    const char* norm_eps_key() const {
        return layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
    }

    std::span<const ModelTensor> model_tensors;
    std::span<const std::span<const LayerTensor>> layer_tensors;  // in groups
    std::span<const FusedTensor> fused_tensors;
};

/// The supported architectures.
std::span<const ArchSpec* const> all_architectures();

/// The spec of `general.architecture`. The error lists the supported architectures.
Result<const ArchSpec*> find_architecture(std::string_view name);

}  // namespace tessera
