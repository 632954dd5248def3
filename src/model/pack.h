#pragma once
// Reorders matmul weights into the kernels' packed layout at load: what and where to is decided first, so
// that the memory is known before it is taken.
#include <cstddef>
#include <span>
#include <vector>

#include "src/model/model.h"

namespace tessera {

/// The weights that are computed with in packed order, in the order of the forward pass: every matrix of the
/// layers, then the head. An embedding table of its own is only looked up.
std::vector<Weight*> weights_to_pack(Weights& weights);
std::vector<const Weight*> weights_to_pack(const Weights& weights);

class Packer {
  public:
    explicit Packer(Model& model) : model_(model) {}

    /// Gives every matrix its place in the packed memory; without `pack` none. Counts what stays in the
    /// mapping. Those that `unused` names, in the order of weights_to_pack(), are not multiplied with: they
    /// stay in the file, and count only where they are looked up.
    void plan_all(bool pack, const std::vector<bool>& unused);
    /// Packs what was planned, in parallel, out of the file. Errors: no memory; a file that cannot be read.
    Result<void> pack_all(ThreadPool& pool, const ByteProgress& progress);

  private:
    void plan(Weight& weight, bool pack);
    /// Each expert's up behind its gate, where both are to be packed: one product may then read both.
    void interleave(const Weight& gate, const Weight& up);
    /// rooms: for what each thread reads, of equal size.
    Result<void> pack(const Model::PackJob& job, ThreadPool& pool, std::span<std::byte> rooms);

    Model& model_;
};

}  // namespace tessera
