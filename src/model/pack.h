#pragma once
// Reorders matmul weights into the kernels' packed layout at load.
#include "src/model/model.h"

namespace tessera {

/// The weights that are computed with in packed order where their type has one, in the order of the forward
/// pass: every matrix of the layers, then the head. An embedding table of its own is only looked up.
std::vector<Weight*> weights_to_pack(Weights& weights);

class Packer {
  public:
    Packer(Model& model, ThreadPool& pool) : model_(model), pool_(pool) {}

    /// Packs every matrix whose type has an integer kernel, in parallel, releasing file pages behind.
    Result<void> pack_all(const ByteProgress& progress);

  private:
    struct Job {
        Weight* weight;
        size_t offset;        // in the packed buffer
        size_t matrix_bytes;  // packed bytes of one expert
    };
    void plan(Weight& weight);
    void pack(const Job& job);

    Model& model_;
    ThreadPool& pool_;
    std::vector<Job> jobs_;
    size_t total_ = 0;
};

}  // namespace tessera
