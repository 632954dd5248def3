// Page table of one sequence. Pages may be shared with other sequences and the prefix tree: whole ones are
// never written again, a partly filled one is copied before the first write.
#include "src/kv/sequence.h"

#include <algorithm>
#include <cstring>

namespace tessera::kv {

void Sequence::adopt(std::span<std::byte* const> pages, int64_t n_tok) {
    TSR_CHECK(pages_.empty() && n_tok <= static_cast<int64_t>(pages.size()) * kKvPage);
    for (std::byte* page : pages) {
        pool_->share(page);
        pages_.push_back(page);
    }
    n_tok_ = n_tok;
}

bool Sequence::writes_shared_page() const {
    const auto at = static_cast<size_t>(n_tok_ / kKvPage);
    return at < pages_.size() && pool_->n_owners(pages_[at]) > 1;
}

int64_t Sequence::pages_for(int64_t n) const {
    if (n <= 0) return 0;
    const int64_t n_pages = (n_tok_ + n + kKvPage - 1) / kKvPage;
    return std::max<int64_t>(0, n_pages - static_cast<int64_t>(pages_.size())) + writes_shared_page();
}

bool Sequence::reserve(int64_t n) {
    int64_t need = pages_for(n);
    if (need > pool_->n_free()) return false;
    if (n > 0 && writes_shared_page()) {
        std::byte*& page = pages_[static_cast<size_t>(n_tok_ / kKvPage)];
        std::byte* copy = pool_->take();
        std::memcpy(copy, page, pool_->layout().page_bytes);
        pool_->give_back(page);
        page = copy;
        --need;
    }
    for (int64_t i = 0; i < need; ++i) pages_.push_back(pool_->take());
    return true;
}

void Sequence::advance(int64_t n) {
    TSR_CHECK(n >= 0 && n_tok_ + n <= static_cast<int64_t>(pages_.size()) * kKvPage);
    n_tok_ += n;
}

void Sequence::truncate(int64_t n) {
    TSR_CHECK(n >= 0);
    if (n < n_tok_) n_tok_ = n;
    const size_t keep = static_cast<size_t>((n_tok_ + kKvPage - 1) / kKvPage);
    while (pages_.size() > keep) {
        pool_->give_back(pages_.back());
        pages_.pop_back();
    }
}

}  // namespace tessera::kv
