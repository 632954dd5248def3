// Tracks the output byte by byte on whole stacks, and records every step for rollback. Masks come from the
// shared cache. Next: mask_cache.cpp, stacks.cpp.
#include "src/grammar/matcher.h"

#include <algorithm>

#include "common/strings.h"

namespace tessera::grammar {

Matcher::Matcher(std::shared_ptr<MaskCache> cache)
    : cache_(std::move(cache)), stacks_(cache_->grammar().automaton()) {
    stacks_.begin();
    stacks_.add(stacks_.automaton().start, kBottom);
    stacks_.finish();
    now_ = stacks_.items();
    now_accepting_ = stacks_.exited();
    push_step(false);
}

void Matcher::push_step(bool ended) {
    steps_.push_back({trail_.size(), now_accepting_ && !ended, ended});
    if (!ended) trail_.insert(trail_.end(), now_.begin(), now_.end());
}

void Matcher::mask(std::span<uint64_t> words) { cache_->mask(stacks_, items(), is_accepting(), words); }

void Matcher::start(std::span<const Item> from) {
    now_.assign(from.begin(), from.end());
    now_accepting_ = is_accepting();
    overflowed_ = false;
}

bool Matcher::advance(uint8_t byte) {
    stacks_.shift(now_, byte);
    std::swap(now_, stacks_.items());
    now_accepting_ = stacks_.exited();
    overflowed_ |= stacks_.overflowed();
    return !overflowed_ && (!now_.empty() || now_accepting_);
}

bool Matcher::advance(std::string_view text) {
    for (const char byte : text)
        if (!advance(static_cast<uint8_t>(byte))) return false;
    return true;
}

bool Matcher::try_token(int32_t token) {
    const TokenTrie& trie = cache_->trie();
    const Automaton& automaton = stacks_.automaton();
    start(items());
    const TokenText::Kind kind = trie.kind(token);
    bool by_bytes = false;
    if (kind == TokenText::Kind::Special) {
        std::erase_if(now_, [&](const Item& item) { return !automaton.states[item.state].free; });
        by_bytes = !now_.empty() && advance(trie.bytes(token)) && !now_.empty();
    } else if (kind == TokenText::Kind::Text) {
        by_bytes = advance(trie.bytes(token));
    }
    if (overflowed_) return false;
    std::vector<Item> whole;
    for (const Item& item : items()) {
        const AutomatonState& state = automaton.states[item.state];
        if (state.op == Op::Token && cache_->matches(state.a, token)) whole.push_back({state.b, item.node});
    }
    if (whole.empty()) return by_bytes;
    stacks_.begin();
    for (const Item& item : whole) stacks_.add(item.state, item.node);
    if (!by_bytes) {
        now_.clear();
        now_accepting_ = false;
    }
    now_.insert(now_.end(), stacks_.items().begin(), stacks_.items().end());
    std::sort(now_.begin(), now_.end());
    now_.erase(std::unique(now_.begin(), now_.end()), now_.end());
    now_accepting_ |= stacks_.exited();
    overflowed_ |= stacks_.overflowed();
    return !overflowed_;
}

bool Matcher::allows(int32_t token) {
    if (!cache_->trie().contains(token)) return false;
    if (cache_->trie().kind(token) == TokenText::Kind::End && is_accepting()) return true;
    return try_token(token);
}

Result<void> Matcher::accept(int32_t token) {
    const TokenTrie& trie = cache_->trie();
    if (!trie.contains(token))
        return fail(ErrorCode::InvalidArgument, "token %d does not exist; the vocabulary has %d", token,
                    trie.n_tokens());
    if (trie.kind(token) == TokenText::Kind::End && is_accepting()) {
        push_step(true);
        return {};
    }
    if (try_token(token)) {
        push_step(false);
        return {};
    }
    if (overflowed_)
        return fail(ErrorCode::Unsupported,
                    "the grammar is too ambiguous: the output has more than %zu derivations at once",
                    kMaxStacks);
    return fail(ErrorCode::InvalidArgument, "the grammar does not allow token %d (\"%s\") here", token,
                printable(trie.bytes(token)).c_str());
}

Result<void> Matcher::accept_bytes(std::string_view text) {
    start(items());
    for (size_t i = 0; i < text.size(); i++) {
        if (advance(static_cast<uint8_t>(text[i]))) continue;
        if (overflowed_)
            return fail(ErrorCode::Unsupported,
                        "the grammar is too ambiguous: the output has more than %zu derivations at once",
                        kMaxStacks);
        return fail(ErrorCode::InvalidArgument, "the grammar does not allow byte %zu of \"%s\"", i,
                    printable(text).c_str());
    }
    push_step(false);
    return {};
}

size_t Matcher::n_fitting(std::string_view text) {
    start(items());
    for (size_t i = 0; i < text.size(); i++)
        if (!advance(static_cast<uint8_t>(text[i]))) return i;
    return text.size();
}

void Matcher::rollback(size_t n) {
    TSR_CHECK(n <= n_steps());
    if (n == 0) return;
    trail_.resize(steps_[steps_.size() - n].first);
    steps_.resize(steps_.size() - n);
}

bool Matcher::is_finished() const { return items().empty(); }

/// Whether exactly one byte can come next, and the output cannot end.
bool Matcher::next_forced(uint8_t& byte) {
    const Automaton& automaton = stacks_.automaton();
    if (now_accepting_ || now_.empty()) return false;
    bool any = false;
    for (const Item& item : now_) {
        const AutomatonState& state = automaton.states[item.state];
        if (state.op != Op::Shift || state.free) return false;
        for (uint32_t i = state.a; i < state.a + state.b; i++) {
            const ByteEdge& edge = automaton.edges[i];
            const AutomatonState& to = automaton.states[edge.to];
            if (to.op == Op::Guard && !stacks_.members().available(stacks_.node(item.node).data, to.a, to.b))
                continue;
            if (edge.lo != edge.hi || (any && edge.lo != byte)) return false;
            byte = edge.lo;
            any = true;
        }
    }
    return any;
}

std::string Matcher::forced_bytes(size_t max_bytes) {
    std::string forced;
    start(items());
    uint8_t byte = 0;
    while (forced.size() < max_bytes && next_forced(byte) && advance(byte)) forced += static_cast<char>(byte);
    return forced;
}

}  // namespace tessera::grammar
