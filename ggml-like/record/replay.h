#pragma once
// Executes a program on a backend, in an arena of its own with the program's layout. The results have the
// same bits as those of forward().
#include "common/arena.h"
#include "common/expected.h"
#include "ggml-like/backend.h"
#include "ggml-like/record/program.h"

namespace tessera::record {

class Replay {
  public:
    /// `program` must outlive this. Allocates all memory that runs need. Errors: out of memory.
    static Result<Replay> create(const Program& program);

    /// Computes 1 .. n_tok tokens of one sequence, with ids in [0, n_vocab), at positions from n_past.
    /// `pages` [n_layer_groups] has the pages indexed by position / kKvPage, with room for the tokens. Fewer
    /// tokens than n_tok are padded: padding rows are computed, but not stored in the KV cache and not
    /// visible to other rows. The backend must be sized for n_tok tokens of this model. Allocates nothing.
    void run(Backend& backend, std::span<const int32_t> tokens, int64_t n_past,
             std::span<std::byte* const* const> pages);

    /// Executes operations first .. last only, for n_valid tokens at n_past. Values that they read and do not
    /// write must be in the buffers of act(), from the caller or from earlier operations.
    void run_range(Backend& backend, int32_t first, int32_t last, int64_t n_valid, int64_t n_past,
                   std::span<std::byte* const* const> pages);

    /// The buffer of a value, which must not be routes. After a run only the program's output is certain to
    /// be intact.
    ActBuffer& act(ValueId value) { return acts_[static_cast<size_t>((*program_)[value].slot.at)]; }

  private:
    struct Runner;
    explicit Replay(const Program& program) : program_(&program) {}

    const Program* program_;
    Buffer arena_;
    std::vector<ActBuffer> acts_;    // [n_slots]
    std::vector<MoeRoutes> routes_;  // [n_slots]
    std::vector<int32_t> tokens_;    // [n_tok] with padding
};

}  // namespace tessera::record
