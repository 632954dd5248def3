#pragma once
// One sequence of tokens in the KV cache: page tables that grow and are cut back, and the state of recurrent
// layers, if the model has any.
#include <cstdint>
#include <span>
#include <vector>

#include "src/kv/page_pool.h"
#include "src/kv/state_pool.h"

namespace tessera::kv {

/// Distance of checkpoints within a long text, in positions: a rewind recomputes fewer tokens than two
/// default batches, and a slot costs about as much memory as the keys and values of that distance.
inline constexpr int64_t kCheckpointSpacing = 1024;

/// Where sequences get their memory from.
struct Pools {
    PagePool& pages;
    StatePool* states = nullptr;  // null if the model has no recurrent layers
};

/// Holds references to pages and slots of pools, which must outlive it. Not thread-safe.
///
/// With recurrent layers the computation can continue only from a position whose state is held: the last one,
/// a checkpoint, or 0. A pass reads state_in() and writes state_out(); advance() commits it.
class Sequence {
  public:
    /// `states` is null if the model has no recurrent layers.
    explicit Sequence(PagePool& pool, StatePool* states = nullptr);
    ~Sequence();
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

    int64_t n_tok() const { return n_tok_; }
    /// [n_blocks] pages of a layer group; null before the window.
    std::byte* const* pages(int32_t group = 0) const { return tables_[static_cast<size_t>(group)].data(); }
    PageTables& page_tables() { return tables_; }
    /// Segment::state_in and Segment::state_out of the next pass, for which tokens have been reserved.
    const float* state_in() const { return state_; }
    float* state_out() const { return next_state_; }
    /// Ascending by position.
    std::span<Checkpoint> checkpoints() { return checkpoints_; }
    std::span<const Checkpoint> checkpoints() const { return checkpoints_; }

    /// Starts an empty sequence with pages that hold its first n_tok tokens already, and with the state after
    /// them, null without recurrent layers or tokens; becomes another owner of each.
    void share_prefix(const PageTables& pages, int64_t n_tok, float* state = nullptr);
    /// The page that the next token is written to, in the first layer group; null if it begins a new page.
    const std::byte* open_page() const {
        const auto at = static_cast<size_t>(n_tok_ / kKvPage);
        return at < tables_.front().size() ? tables_.front()[at] : nullptr;
    }
    /// Free pages needed for n more tokens, if evict_out_of_window() is called after each pass.
    int64_t pages_for(int64_t n) const;
    /// Free slots of state needed for the next pass, of n tokens: 0 or 1.
    int64_t slots_for(int64_t n) const { return states_ && n > 0 && !next_state_ ? 1 : 0; }
    /// The number of the next n tokens that the next pass computes at most: all without recurrent layers,
    /// otherwise those up to the next position where advance() takes a checkpoint.
    int64_t pass_tokens(int64_t n) const;
    /// Allocates pages and a slot of state for n more tokens; false, with no token lost, if the pools have
    /// too few. A page that the tokens are written to is replaced by a copy if it has other owners.
    /// Checkpoints are dropped if there is no free slot.
    bool reserve(int64_t n);
    /// Appends n tokens that were computed in the reserved pages; n_left more tokens of the same prompt
    /// follow. Takes a checkpoint at multiples of kCheckpointSpacing, at the end of a prompt of several
    /// tokens, and at the last page border before its last token, so that the same prompt, whose last token
    /// is always recomputed, can continue there.
    void advance(int64_t n, int64_t n_left = 0);
    /// Releases the pages of windowed groups that no later token attends to.
    void evict_out_of_window();

    /// Removes all tokens at positions n and above, and more if the computation cannot continue at n: it goes
    /// back to the last checkpoint before n if there are recurrent layers, and to 0 if the window before that
    /// position has been evicted. Returns n_tok(), at most n; the caller recomputes the tokens up to n.
    /// rewind(0) releases all pages and slots.
    int64_t rewind(int64_t n);
    /// Keeps the state after the last token as a checkpoint. Does nothing without recurrent layers or tokens.
    void checkpoint();
    /// Drops the checkpoint whose loss costs least: the one with the fewest tokens since the checkpoint
    /// before it, except for that of the last token. False if there is none.
    bool drop_checkpoint();

  private:
    int64_t n_blocks() const { return static_cast<int64_t>(tables_.front().size()); }
    int64_t n_shared_pages() const;
    bool reserve_state();
    void set_state(float* state);
    void go_back(int64_t n);

    PagePool* pool_;
    StatePool* states_;
    PageTables tables_;
    int64_t n_tok_ = 0;
    int64_t first_held_ = 0;       // first block with pages in windowed groups
    float* state_ = nullptr;       // after the last token
    float* next_state_ = nullptr;  // of the pass in flight; no other owners
    std::vector<Checkpoint> checkpoints_;
};

}  // namespace tessera::kv
