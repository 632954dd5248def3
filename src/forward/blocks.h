#pragma once
// The blocks of a layer, one file a kind. forward.cpp calls them in order; each reads the residual stream and
// adds its output to it.
#include "src/forward/forward.h"

namespace tessera {

/// One layer of a pass: its description, weights and buffers. Valid during the pass.
struct LayerPass {
    Backend& be;
    const Model& m;
    size_t layer;
    Activations& a;
    int64_t n_tok;  // rows of the residual stream

    const Hparams& hparams() const { return m.hparams(); }
    const LayerSpec& spec() const { return m.hparams().layers[layer]; }
    const LayerWeights& weights() const { return m.weights().layers[layer]; }
};

/// A buffer whose width depends on the layer, set for this one; it has memory for the widest layer.
inline ActBuffer& of_width(ActBuffer& act, int64_t dim) {
    act.dim = dim;
    return act;
}

// residual.cpp

/// y <- the norm of the architecture of n_tok rows of x.
void norm_rows(Backend& be, const Model& m, const ActBuffer& x, int64_t n_tok, const Vector& norm,
               const Vector& bias, ActBuffer& y);
/// normed <- norm(residual), or a copy of it where the architecture has no pre-norm.
void pre_norm(const LayerPass& p, const Vector& norm, const Vector& bias);
/// The buffer that the products of a sublayer's output are added to: the residual stream, or sublayer_out,
/// which is to be overwritten by the first product, where a post-norm follows.
ActBuffer& sublayer_output(const LayerPass& p, const Vector& post_norm);
/// residual <- residual + norm(sublayer_out) where there is a post-norm.
void add_post_norm(const LayerPass& p, const Vector& post_norm);
/// residual <- residual + scale (W y + bias), or residual + norm(scale (W y + bias)).
void residual_add(const LayerPass& p, const ActBuffer& y, const Weight& w, const Vector& bias,
                  const Vector& post_norm);

/// attention_block.cpp. `outputs`: null, or the rows that continue behind the last layer; returns the rows of
/// the residual stream after the block, 0 if nothing is computed behind the layer's keys and values.
int64_t attention_block(LayerPass p, const AttnWeights& w, const KvLayer& cache,
                        std::span<const Segment> segments, const std::span<const int32_t>* outputs);

/// dense_ffn_block.cpp
void ffn_block(const LayerPass& p, const DenseFfn& w);
/// moe_block.cpp
void ffn_block(const LayerPass& p, const MoeFfn& w);

}  // namespace tessera
