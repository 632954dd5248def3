// The mutex is held while a trie or cache is built, so that it is built once.
#include "src/engine/constraints.h"

#include <algorithm>

namespace tessera::engine {

Result<std::shared_ptr<grammar::MaskCache>> Constraints::masks(
    std::shared_ptr<const grammar::Grammar> grammar) {
    const std::lock_guard lock(mutex_);
    const auto cached = std::find_if(entries_.begin(), entries_.end(),
                                     [&grammar](const Entry& entry) { return entry.grammar == grammar; });
    if (cached != entries_.end()) {
        entries_.splice(entries_.begin(), entries_, cached);
        return entries_.front().masks;
    }
    if (!trie_) {
        TSR_TRY(trie_, grammar::TokenTrie::create(*tokenizer_));
    }
    TSR_TRY(auto masks, grammar::MaskCache::create(grammar, trie_));
    entries_.push_front({std::move(grammar), masks});
    if (entries_.size() > kMost) entries_.pop_back();
    return masks;
}

}  // namespace tessera::engine
