#pragma once
// Binds the file's tensors to Weights by the ArchSpec's table.
#include "src/model/model.h"

namespace tessera {

class Binder {
  public:
    explicit Binder(Model& model) : model_(model) {}

    /// Checks presence, shape and type of every tensor of the spec.
    Result<void> bind_all();

  private:
    template <class Owner, class Row>
    Result<void> bind(const Row& row, const std::string& name, Owner& owner);
    Result<void> bind_layer(size_t i);
    Result<void> bind_fused(const FusedTensor& fused, const std::string& name, LayerWeights& layer);
    Result<void> bind_weight(const gguf::TensorInfo& tensor, Weight& weight);
    Result<void> bind_vector(const gguf::TensorInfo& tensor, Vector& vector);
    Result<void> check_divisors(const Vector& divisors, const char* name) const;
    Result<void> check_rope_factors() const;
    int64_t size_of(Dim dim) const { return tessera::size_of(dim, model_.hparams_); }
    Result<void> check_shape(const gguf::TensorInfo& tensor, std::span<const int64_t> expected) const;

    Model& model_;
};

/// Refuses combinations of tensors that the forward pass does not compute: a post-norm behind a mixture of
/// experts, whose outputs are added to the residual stream one by one. Errors name the tensor of layer i.
Result<void> check_sublayers(const LayerWeights& layer, size_t i);

}  // namespace tessera
