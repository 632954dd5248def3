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
    template <class Value>
    Result<void> bind(const std::string& name, std::span<const int64_t> shape, Presence presence,
                      Value& value);
    Result<void> bind_layer(size_t i);
    Result<void> bind_fused(const FusedTensor& fused, const std::string& name, const LayerSpec& spec,
                            LayerWeights& layer);
    Result<void> read(const gguf::TensorInfo& tensor, Weight& weight);
    Result<void> read(const gguf::TensorInfo& tensor, Vector& vector);
    Result<void> check_absent(const std::string& name, const LayerMember& at, const LayerSpec& layer) const;
    Result<void> check_ffn(const LayerWeights& layer, size_t i) const;
    Result<void> check_divisors(const Vector& divisors, const char* name) const;
    Result<void> check_rope_factors() const;
    std::vector<int64_t> resolved(std::span<const Dim> dims, const LayerSpec& layer) const;
    Result<void> check_shape(const gguf::TensorInfo& tensor, std::span<const int64_t> expected) const;

    Model& model_;
};

}  // namespace tessera
