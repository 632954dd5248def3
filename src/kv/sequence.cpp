// Page tables and recurrent state of one sequence. Pages may be shared with other sequences and the prefix
// cache: full pages are never written again, and a partly filled page is copied before the first write. Slots
// of state are never written again once they are committed, unless nothing else owns them.
#include "src/kv/sequence.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tessera::kv {

namespace {

/// The last page border before the last token of a prompt that ends at `end`.
int64_t prompt_border(int64_t end) { return (end - 1) / kKvPage * kKvPage; }

}  // namespace

Sequence::Sequence(PagePool& pool, StatePool* states)
    : pool_(&pool),
      states_(states && states->layout().slot_bytes > 0 ? states : nullptr),
      tables_(static_cast<size_t>(pool.layout().n_layer_groups)) {
    for (auto& table : tables_) table.reserve(static_cast<size_t>(pool.n_pages()) / tables_.size() + 1);
    if (!states_) return;
    checkpoints_.reserve(static_cast<size_t>(states_->n_slots()));
    set_state(states_->initial());
}

Sequence::~Sequence() {
    rewind(0);
    if (states_) states_->release(state_);
}

void Sequence::share_prefix(const PageTables& pages, int64_t n_tok, float* state) {
    const Layout& layout = pool_->layout();
    TSR_CHECK(n_blocks() == 0 && n_tok <= static_cast<int64_t>(pages.front().size()) * kKvPage);
    for (size_t group = 0; group < tables_.size(); ++group)
        for (std::byte* page : pages[group]) {
            if (page) pool_->share(page);
            tables_[group].push_back(page);
        }
    n_tok_ = n_tok;
    if (states_ && n_tok > 0) {
        set_state(state);
        checkpoint();
    }
    if (layout.n_window_groups() == 0) return;
    const auto& windowed = tables_.back();
    while (first_held_ < n_blocks() && !windowed[static_cast<size_t>(first_held_)]) ++first_held_;
}

/// Number of pages that the next token is written to and that have other owners.
int64_t Sequence::n_shared_pages() const {
    const auto at = static_cast<size_t>(n_tok_ / kKvPage);
    if (static_cast<int64_t>(at) >= n_blocks()) return 0;
    return std::count_if(tables_.begin(), tables_.end(),
                         [&](const auto& table) { return pool_->n_owners(table[at]) > 1; });
}

int64_t Sequence::pages_for(int64_t n) const {
    if (n <= 0) return 0;
    const Layout& layout = pool_->layout();
    const int64_t n_new = std::max<int64_t>(0, blocks_of(n_tok_ + n) - n_blocks());
    const int64_t n_windowed =
        std::clamp<int64_t>(layout.window_blocks - (n_blocks() - first_held_), 0, n_new);
    return layout.n_full_groups * n_new + layout.n_window_groups() * n_windowed + n_shared_pages();
}

int64_t Sequence::pass_tokens(int64_t n) const {
    if (!states_ || n <= 1) return n;
    const int64_t end = n_tok_ + n;
    const int64_t spaced = (n_tok_ / kCheckpointSpacing + 1) * kCheckpointSpacing;
    const int64_t border = prompt_border(end);
    const int64_t stop = spaced < end ? spaced : border > n_tok_ ? border : end;
    return stop - n_tok_;
}

/// Allocates the slot that the next pass writes.
bool Sequence::reserve_state() {
    if (!states_ || next_state_) return true;
    while (states_->n_free() == 0 && drop_checkpoint()) continue;
    next_state_ = states_->take();
    return next_state_ != nullptr;
}

bool Sequence::reserve(int64_t n) {
    if (n <= 0) return true;
    const int64_t n_new = std::max<int64_t>(0, blocks_of(n_tok_ + n) - n_blocks());
    const int64_t n_shared = n_shared_pages();
    if (n_new * pool_->layout().n_layer_groups + n_shared > pool_->n_free()) return false;
    if (!reserve_state()) return false;
    for (auto& table : tables_) {
        if (n_shared > 0) {
            std::byte*& page = table[static_cast<size_t>(n_tok_ / kKvPage)];
            if (pool_->n_owners(page) > 1) {
                std::byte* copy = pool_->take();
                std::memcpy(copy, page, pool_->layout().page_bytes);
                pool_->release(page);
                page = copy;
            }
        }
        for (int64_t i = 0; i < n_new; ++i) table.push_back(pool_->take());
    }
    return true;
}

void Sequence::advance(int64_t n, int64_t n_left) {
    TSR_CHECK(n >= 0 && n_tok_ + n <= n_blocks() * kKvPage);
    n_tok_ += n;
    if (!states_ || n == 0) return;
    // The next pass writes the slot of the state before this one, unless something else keeps it.
    std::swap(state_, next_state_);
    if (states_->n_owners(next_state_) > 1) {
        states_->release(next_state_);
        next_state_ = nullptr;
    }
    const bool ends_prompt = n > 1 && n_left == 0;
    const bool before_end = n_left > 0 && n_tok_ == prompt_border(n_tok_ + n_left);
    if (ends_prompt || before_end || n_tok_ % kCheckpointSpacing == 0) checkpoint();
}

void Sequence::evict_out_of_window() {
    const Layout& layout = pool_->layout();
    if (layout.n_window_groups() == 0) return;
    for (const int64_t keep = layout.first_block(n_tok_) - 1; first_held_ < keep; ++first_held_)
        for (auto group = static_cast<size_t>(layout.n_full_groups); group < tables_.size(); ++group) {
            std::byte*& page = tables_[group][static_cast<size_t>(first_held_)];
            pool_->release(page);
            page = nullptr;
        }
}

void Sequence::checkpoint() {
    if (!states_ || n_tok_ == 0) return;
    if (!checkpoints_.empty() && checkpoints_.back().n_tok == n_tok_) return;
    states_->share(state_);
    checkpoints_.push_back({n_tok_, state_});
}

bool Sequence::drop_checkpoint() {
    auto least = checkpoints_.end();
    int64_t before = 0, least_lost = 0;
    for (auto at = checkpoints_.begin(); at != checkpoints_.end() && at->n_tok < n_tok_; ++at) {
        const int64_t lost = at->n_tok - before;
        if (least == checkpoints_.end() || lost < least_lost) {
            least = at;
            least_lost = lost;
        }
        before = at->n_tok;
    }
    if (least == checkpoints_.end()) return false;
    states_->release(least->state);
    checkpoints_.erase(least);
    return true;
}

/// Becomes an owner of `state`, the state after the last token.
void Sequence::set_state(float* state) {
    states_->share(state);
    if (state_) states_->release(state_);
    state_ = state;
}

/// Goes back to n, or with recurrent layers to the last checkpoint at or before n.
void Sequence::go_back(int64_t n) {
    n_tok_ = n;
    if (!states_) return;
    while (!checkpoints_.empty() && checkpoints_.back().n_tok > n) {
        states_->release(checkpoints_.back().state);
        checkpoints_.pop_back();
    }
    n_tok_ = checkpoints_.empty() ? 0 : checkpoints_.back().n_tok;
    set_state(checkpoints_.empty() ? states_->initial() : checkpoints_.back().state);
    if (n > 0 || !next_state_) return;
    states_->release(next_state_);
    next_state_ = nullptr;
}

int64_t Sequence::rewind(int64_t n) {
    TSR_CHECK(n >= 0);
    if (n < n_tok_ || n == 0) go_back(n);
    if (first_held_ > pool_->layout().first_block(n_tok_)) go_back(0);
    const auto keep = static_cast<size_t>(blocks_of(n_tok_));
    for (auto& table : tables_)
        while (table.size() > keep) {
            if (table.back()) pool_->release(table.back());
            table.pop_back();
        }
    first_held_ = std::min(first_held_, n_blocks());
    return n_tok_;
}

}  // namespace tessera::kv
