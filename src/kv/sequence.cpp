// Page table of one sequence.
#include "src/kv/sequence.h"

namespace tessera::kv {

bool Sequence::reserve(int64_t n) {
    const int64_t need = (n_tok_ + n + kKvPage - 1) / kKvPage - static_cast<int64_t>(pages_.size());
    if (need > pool_->n_free()) return false;
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
