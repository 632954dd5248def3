#pragma once
// Several sequences of one model that advance together, one token each per step; bench measures it as tgNxB.
#include <memory>
#include <span>
#include <vector>

#include "src/engine/session.h"

namespace tessera {

class ParallelDecode {
  public:
    /// `pool` outlives this. options.n_ctx is the context of each sequence.
    static Result<std::unique_ptr<ParallelDecode>> create(std::shared_ptr<const Model> model,
                                                          ThreadPool& pool,
                                                          const engine::SessionOptions& options,
                                                          int64_t n_seq);

    /// Appends the same tokens to every sequence, one sequence after the other. False when cancelled.
    bool fill(std::span<const int32_t> tokens);
    /// Appends `token` to every sequence in one pass and computes all their logits. False when cancelled.
    bool step(int32_t token);
    /// Forgets all tokens from position n on, in every sequence. With recurrent layers, n is the end of a
    /// fill().
    void truncate(int64_t n);

  private:
    ParallelDecode() = default;

    std::shared_ptr<const Model> model_;
    ThreadPool* pool_ = nullptr;
    std::unique_ptr<CpuBackend> backend_;
    std::unique_ptr<kv::PagePool> pages_;
    std::unique_ptr<kv::StatePool> states_;
    std::vector<std::unique_ptr<kv::Sequence>> sequences_;
    Activations activations_;
    std::vector<Segment> segments_;
    std::vector<int32_t> tokens_, outputs_;  // [n_seq]
    int64_t n_batch_ = 0, n_ctx_ = 0;
};

}  // namespace tessera
