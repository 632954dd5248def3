#pragma once
// Reorders matmul weights into the kernels' packed layout at load. The layout of the packed memory is planned
// first, so that its size is known before it is allocated.
#include <cstddef>
#include <span>
#include <vector>

#include "src/model/model.h"

namespace tessera {

/// The weights that are multiplied in packed order, in the order of the forward pass: every matrix of the
/// layers, then the head. An embedding table that is not also the head is only looked up.
std::vector<Weight*> weights_to_pack(Weights& weights);
std::vector<const Weight*> weights_to_pack(const Weights& weights);

class Packer {
  public:
    explicit Packer(Model& model) : model_(model) {}

    /// Gives every matrix its place in the packed memory; without `pack` none. Counts the bytes that stay in
    /// the mapping. Matrices that `unused` marks, in the order of weights_to_pack(), are not multiplied with:
    /// they stay in the file, and count only where they are looked up.
    void plan_all(bool pack, const std::vector<bool>& unused);
    /// Reads the planned matrices from the file and packs them, in parallel. Errors: no memory; a file that
    /// cannot be read.
    Result<void> pack_all(ThreadPool& pool, const ByteProgress& progress);

  private:
    void plan(Weight& weight, bool pack);
    /// rooms: a read buffer for each thread, all of equal size.
    Result<void> pack(const Model::PackJob& job, ThreadPool& pool, std::span<std::byte> rooms);

    Model& model_;
};

}  // namespace tessera
