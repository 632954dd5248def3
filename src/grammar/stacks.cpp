// Epsilon closures on hash-consed stacks. The automaton has no left recursion, and counted iterations consume
// something, so that every closure terminates; kMaxStacks bounds it for ambiguous grammars. Next: matcher.cpp
// (whole stacks), mask_cache.cpp (upper parts of stacks).
#include "src/grammar/stacks.h"

#include <algorithm>

namespace tessera::grammar {

namespace {

uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15ull + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9ull;
    x ^= x >> 29;
    return x * 0x94D049BB133111EBull;
}

uint64_t hash_node(const Node& node) {
    return mix(mix(node.parent, node.ret), (uint64_t{node.data} << 32) | node.tag) >> 7;
}

constexpr size_t kWordCount = 0, kWordSure = 1, kWordChains = 2;
// A bit of the count: unlisted keys may be equal, so that only one of them counts as distinct.
constexpr uint32_t kHasOpen = 1u << 31;

}  // namespace

uint32_t MemberSets::intern(uint32_t spec, std::vector<uint32_t> words) {
    std::string key(reinterpret_cast<const char*>(&spec), sizeof spec);
    key.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t));
    const auto [at, is_new] = ids_.try_emplace(std::move(key), static_cast<uint32_t>(sets_.size()));
    if (is_new) {
        memory_ += 2 * words.size() * sizeof(uint32_t) + 256;
        sets_.push_back({.spec = spec, .words = std::move(words), .available = {}});
    }
    return at->second;
}

uint32_t MemberSets::initial(uint32_t spec) {
    const MemberRules& rules = automaton_->members[spec];
    return intern(spec,
                  std::vector<uint32_t>(kWordChains + rules.chains.size() + (rules.loose.size() + 31) / 32));
}

uint32_t MemberSets::import(const MemberSets& other, uint32_t id) {
    const Set& set = other.sets_[id];
    return intern(set.spec, set.words);
}

bool MemberSets::is_loose_taken(const MemberRules& rules, const Set& set, uint32_t key) {
    const uint32_t bit = rules.loose_bit[key];
    return set.words[kWordChains + rules.chains.size() + bit / 32] >> (bit % 32) & 1;
}

/// Whether the chains allow this key next: it is neither used nor skipped, and no required key would be
/// skipped.
bool MemberSets::in_order(const MemberRules& rules, const Set& set, uint32_t key) const {
    if (rules.places[key].empty()) return !is_loose_taken(rules, set, key);
    for (const auto& [chain, place] : rules.places[key]) {
        const uint32_t reached = set.words[kWordChains + chain];
        if (place < reached || rules.next_required[chain][reached] < place) return false;
    }
    return true;
}

/// Number of listed keys that can still follow `key`. There is at most one chain if this matters
/// (Members::min).
uint64_t MemberSets::reachable_after(const MemberRules& rules, const Set& set, uint32_t key) const {
    uint64_t n = 0;
    for (const uint32_t loose : rules.loose) n += loose != key && !is_loose_taken(rules, set, loose);
    for (size_t chain = 0; chain < rules.chains.size(); chain++) {
        uint32_t reached = set.words[kWordChains + chain];
        for (const auto& [c, place] : rules.places[key])
            if (c == chain) reached = place + 1;
        n += rules.chains[chain].size() - reached;
    }
    return n;
}

void MemberSets::analyse(Set& set) {
    if (set.analysed) return;
    set.analysed = true;
    const MemberRules& r = rules(set);
    std::vector<uint32_t> in_order_keys;
    for (uint32_t key = 0; key < r.n_keys; key++) {
        bool taken;
        if (r.places[key].empty())
            taken = is_loose_taken(r, set, key);
        else
            taken = set.words[kWordChains + r.places[key][0].first] > r.places[key][0].second;
        if (r.required[key] && !taken) set.missing++;
        if (!taken && in_order(r, set, key)) in_order_keys.push_back(key);
    }
    const uint64_t count = set.words[kWordCount] & ~kHasOpen, sure = set.words[kWordSure];
    const bool open_left = r.has_open && !(set.words[kWordCount] & kHasOpen);
    for (const uint32_t key : in_order_keys) {
        if (r.max != kUnbounded && count + 1 + set.missing - r.required[key] > r.max) continue;
        if (sure + 1 < r.min && sure + 1 + reachable_after(r, set, key) + open_left < r.min) continue;
        set.available.push_back(key);
    }
    memory_ += set.available.size() * sizeof(uint32_t);
}

bool MemberSets::available(uint32_t id, uint32_t lo, uint32_t hi) {
    Set& set = sets_[id];
    analyse(set);
    const auto at = std::lower_bound(set.available.begin(), set.available.end(), lo);
    return at != set.available.end() && *at < hi;
}

uint32_t MemberSets::mark(uint32_t id, uint32_t key) {
    const uint32_t spec = sets_[id].spec;
    const MemberRules& r = automaton_->members[spec];
    std::vector<uint32_t> words = sets_[id].words;
    for (const auto& [chain, place] : r.places[key]) words[kWordChains + chain] = place + 1;
    if (r.places[key].empty()) {
        const uint32_t bit = r.loose_bit[key];
        words[kWordChains + r.chains.size() + bit / 32] |= 1u << (bit % 32);
    }
    if (r.max != kUnbounded) words[kWordCount]++;
    if (words[kWordSure] < r.min) words[kWordSure]++;
    return intern(spec, std::move(words));
}

uint32_t MemberSets::mark_open(uint32_t id) {
    const uint32_t spec = sets_[id].spec;
    const MemberRules& r = automaton_->members[spec];
    std::vector<uint32_t> words = sets_[id].words;
    if (r.max != kUnbounded) words[kWordCount]++;
    if (r.min > 0 && !(words[kWordCount] & kHasOpen)) {
        words[kWordCount] |= kHasOpen;
        if (words[kWordSure] < r.min) words[kWordSure]++;
    }
    return intern(spec, std::move(words));
}

bool MemberSets::may_open(uint32_t id) {
    Set& set = sets_[id];
    const MemberRules& r = rules(set);
    if (!r.has_open) return false;
    analyse(set);
    const uint64_t count = set.words[kWordCount] & ~kHasOpen;
    return r.max == kUnbounded || count + 1 + set.missing <= r.max;
}

bool MemberSets::may_close(uint32_t id) {
    Set& set = sets_[id];
    analyse(set);
    return set.missing == 0 && set.words[kWordSure] >= rules(set).min;
}

Stacks::Stacks(const Automaton& automaton) : automaton_(&automaton), members_(automaton) { clear(); }

void Stacks::clear() {
    nodes_.assign(1, Node{0, 0, 0, 0});
    index_.assign(1024, 0);
    visited_.assign(256, {});
    epoch_ = n_visited_ = 0;
    members_ = MemberSets(*automaton_);
    begin();
}

size_t Stacks::memory() const {
    return nodes_.capacity() * sizeof(Node) + index_.capacity() * sizeof(uint32_t) + members_.memory();
}

void Stacks::grow_index() {
    std::vector<uint32_t> bigger(index_.size() * 2, 0);
    for (uint32_t id = 1; id < nodes_.size(); id++) {
        size_t at = hash_node(nodes_[id]) & (bigger.size() - 1);
        while (bigger[at]) at = (at + 1) & (bigger.size() - 1);
        bigger[at] = id;
    }
    index_ = std::move(bigger);
}

uint32_t Stacks::push(Node node) {
    size_t at = hash_node(node) & (index_.size() - 1);
    for (; index_[at]; at = (at + 1) & (index_.size() - 1))
        if (nodes_[index_[at]] == node) return index_[at];
    nodes_.push_back(node);
    const auto id = static_cast<uint32_t>(nodes_.size() - 1);
    index_[at] = id;
    if (nodes_.size() * 2 > index_.size()) grow_index();
    return id;
}

void Stacks::begin() {
    if (++epoch_ == 0) {
        std::fill(visited_.begin(), visited_.end(), Visited{});
        epoch_ = 1;
    }
    n_visited_ = 0;
    items_.clear();
    exited_ = overflowed_ = false;
}

void Stacks::grow_visited() {
    std::vector<Visited> bigger(visited_.size() * 2);
    for (const Visited& entry : visited_) {
        if (entry.epoch != epoch_) continue;
        size_t at = mix(entry.key, 0) >> 9 & (bigger.size() - 1);
        while (bigger[at].epoch == epoch_) at = (at + 1) & (bigger.size() - 1);
        bigger[at] = entry;
    }
    visited_ = std::move(bigger);
}

bool Stacks::visit(uint32_t state, uint32_t node) {
    const uint64_t key = (uint64_t{state} << 32) | node;
    size_t at = mix(key, 0) >> 9 & (visited_.size() - 1);
    for (; visited_[at].epoch == epoch_; at = (at + 1) & (visited_.size() - 1))
        if (visited_[at].key == key) return false;
    visited_[at] = {key, epoch_};
    if (++n_visited_ * 2 > visited_.size()) grow_visited();
    return true;
}

void Stacks::leave(uint32_t node) {
    if (node == kBottom)
        exited_ = true;
    else
        work_.push_back({nodes_[node].ret, nodes_[node].parent});
}

void Stacks::test_loop(uint32_t loop_index, uint32_t node) {
    const Loop& loop = automaton_->loops[loop_index];
    const Node frame = nodes_[node];
    if (frame.data >= loop.min) work_.push_back({frame.ret, frame.parent});
    if (frame.data >= loop.max) return;
    const uint32_t rounds = loop.max == kUnbounded ? std::min(frame.data + 1, loop.min) : frame.data + 1;
    work_.push_back({loop.body, push({frame.parent, frame.ret, rounds, frame.tag})});
}

void Stacks::follow(const AutomatonState& s, uint32_t node) {
    const auto with_data = [&](uint32_t data) {
        const Node frame = nodes_[node];
        return push({frame.parent, frame.ret, data, frame.tag});
    };
    const uint32_t data = nodes_[node].data;
    switch (s.op) {
        case Op::Shift:
        case Op::Token:
            break;
        case Op::Split:
            for (uint32_t i = 0; i < s.b; i++) work_.push_back({automaton_->targets[s.a + i], node});
            break;
        case Op::Call:
            work_.push_back({s.a, push({node, s.b, 0, 0})});
            break;
        case Op::Return:
            leave(node);
            break;
        case Op::LoopBegin: {
            const uint32_t frame = push({node, s.b, 0, s.a + 2});
            work_.push_back({automaton_->loops[s.a].test, frame});
            break;
        }
        case Op::LoopTest:
            test_loop(s.a, node);
            break;
        case Op::MembersBegin:
            work_.push_back({s.c, push({node, s.b, members_.initial(s.a), 1})});
            break;
        case Op::Guard:
            if (members_.available(data, s.a, s.b)) work_.push_back({s.c, node});
            break;
        case Op::Mark:
            if (members_.available(data, s.a, s.a + 1))
                work_.push_back({s.b, with_data(members_.mark(data, s.a))});
            break;
        case Op::MarkOpen:
            if (members_.may_open(data)) work_.push_back({s.b, with_data(members_.mark_open(data))});
            break;
        case Op::MayClose:
            if (members_.may_close(data)) work_.push_back({s.b, node});
            break;
        case Op::MayContinue:
            if (members_.may_continue(data)) work_.push_back({s.b, node});
            break;
    }
}

void Stacks::add(uint32_t state, uint32_t node) {
    work_.clear();
    work_.push_back({state, node});
    while (!work_.empty()) {
        const Item at = work_.back();
        work_.pop_back();
        if (!visit(at.state, at.node)) continue;
        const AutomatonState& s = automaton_->states[at.state];
        if (s.op != Op::Shift && s.op != Op::Token) {
            if (n_visited_ > 16 * kMaxStacks) {
                overflowed_ = true;
                work_.clear();
                return;
            }
            follow(s, at.node);
        } else if (items_.size() < kMaxStacks) {
            items_.push_back(at);
        } else {
            overflowed_ = true;
        }
    }
}

void Stacks::finish() { std::sort(items_.begin(), items_.end()); }

void Stacks::shift(std::span<const Item> items, uint8_t byte) {
    begin();
    for (const Item& item : items) {
        const AutomatonState& state = automaton_->states[item.state];
        if (state.op != Op::Shift) continue;
        for (uint32_t i = state.a; i < state.a + state.b; i++) {
            const ByteEdge& edge = automaton_->edges[i];
            if (edge.lo <= byte && byte <= edge.hi) add(edge.to, item.node);
        }
    }
    finish();
}

}  // namespace tessera::grammar
