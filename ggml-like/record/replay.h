#pragma once
// Runs a program on a backend, from an arena of its own that is laid out by the program's plan. The results
// are those of forward(), bit by bit.
#include "common/arena.h"
#include "common/expected.h"
#include "ggml-like/record/program.h"

namespace tessera::record {

class Replay {
  public:
    /// `program` outlives this. Takes all memory that runs need. Errors: no memory.
    static Result<Replay> create(const Program& program);

    /// 1 .. n_tok tokens of a sequence, with ids the model has, at positions n_past ... `pages` has for each
    /// layer group of the cache the pages by position / kKvPage, with room for the tokens. Where they are
    /// fewer than n_tok the rest is padding: computed all the same, and neither stored in the cache nor seen
    /// by others. The backend is sized for n_tok tokens of this model. Takes no memory.
    void run(Backend& backend, std::span<const int32_t> tokens, int64_t n_past,
             std::span<std::byte* const* const> pages);

    /// Operations from first up to last alone: n_valid tokens at n_past, of which what the operations read
    /// was put where act() says, or left there by others.
    void run_range(Backend& backend, int32_t first, int32_t last, int64_t n_valid, int64_t n_past,
                   std::span<std::byte* const* const> pages);

    /// Where a value lies; after a run that of the program's output is still there, the others may be
    /// overwritten. Not for routes.
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
