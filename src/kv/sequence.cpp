// Page tables of one sequence. Pages may be shared with other sequences and the prefix cache: full pages are
// never written again, and a partly filled page is copied before the first write.
#include "src/kv/sequence.h"

#include <algorithm>
#include <cstring>

namespace tessera::kv {

Sequence::Sequence(PagePool& pool)
    : pool_(&pool), tables_(static_cast<size_t>(pool.layout().n_layer_groups)) {
    for (auto& table : tables_) table.reserve(static_cast<size_t>(pool.n_pages()) / tables_.size() + 1);
}

void Sequence::share_prefix(const PageTables& pages, int64_t n_tok) {
    const Layout& layout = pool_->layout();
    TSR_CHECK(n_blocks() == 0 && n_tok <= static_cast<int64_t>(pages.front().size()) * kKvPage);
    for (size_t group = 0; group < tables_.size(); ++group)
        for (std::byte* page : pages[group]) {
            if (page) pool_->share(page);
            tables_[group].push_back(page);
        }
    n_tok_ = n_tok;
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

bool Sequence::reserve(int64_t n) {
    if (n <= 0) return true;
    const int64_t n_new = std::max<int64_t>(0, blocks_of(n_tok_ + n) - n_blocks());
    const int64_t n_shared = n_shared_pages();
    if (n_new * pool_->layout().n_layer_groups + n_shared > pool_->n_free()) return false;
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

void Sequence::advance(int64_t n) {
    TSR_CHECK(n >= 0 && n_tok_ + n <= n_blocks() * kKvPage);
    n_tok_ += n;
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

void Sequence::truncate(int64_t n) {
    TSR_CHECK(n >= 0);
    if (n < n_tok_) n_tok_ = n;
    if (first_held_ > pool_->layout().first_block(n_tok_)) n_tok_ = 0;
    const auto keep = static_cast<size_t>(blocks_of(n_tok_));
    for (auto& table : tables_)
        while (table.size() > keep) {
            if (table.back()) pool_->release(table.back());
            table.pop_back();
        }
    first_held_ = std::min(first_held_, n_blocks());
}

}  // namespace tessera::kv
