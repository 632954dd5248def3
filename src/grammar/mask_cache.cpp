// Computes masks by walking the vocabulary's trie with a lazily built DFA over sets of partial stacks. Inside
// a string the same set recurs after every byte, so that each node costs one table lookup. Counters far from
// their bounds are normalized to one value first, which no token can distinguish. Next: matcher.cpp, the only
// user.
#include "src/grammar/mask_cache.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "common/strings.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxMemory = 96u << 20;  // beyond this the cache is cleared
// Items visited in one walk, a fraction of a second; only extremely ambiguous grammars need more. Then only
// single bytes are tried instead of whole tokens: fewer tokens are allowed, but still one for every
// continuation.
constexpr size_t kMaxMaskWork = 10'000'000;
constexpr uint32_t kUnknown = 0xFFFFFFFF;
constexpr size_t kFewTokens = 1024;  // below this a list of ids is smaller and faster than the words

template <class T>
uint64_t hash_span(std::span<const T> items, uint64_t seed) {
    const std::string_view bytes(reinterpret_cast<const char*>(items.data()), items.size_bytes());
    return std::hash<std::string_view>()(bytes) ^ (seed * 0x9E3779B97F4A7C15ull);
}

void set_bit(std::span<uint64_t> words, int32_t id) {
    words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
}

/// The representative of all counts that no text of `reach` bytes can distinguish.
uint32_t canonical_count(const Loop& loop, uint32_t count, uint32_t reach) {
    if (count < loop.min) return loop.min - count > reach ? 0 : count;
    if (loop.max == kUnbounded) return loop.min;
    return loop.max - count > reach ? loop.min : count;
}

}  // namespace

MaskCache::MaskCache(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      n_words_(trie_->mask_words()),
      stacks_(grammar_->automaton()),
      path_(trie_->max_bytes() + 1) {
    clear();
}

Result<std::shared_ptr<MaskCache>> MaskCache::create(std::shared_ptr<const Grammar> grammar,
                                                     std::shared_ptr<const TokenTrie> trie) {
    std::shared_ptr<MaskCache> cache(new MaskCache(std::move(grammar), std::move(trie)));
    for (const TokenRef& ref : cache->grammar_->automaton().tokens) {
        std::vector<int32_t> ids;
        if (ref.id >= 0) {
            if (!cache->trie_->contains(ref.id))
                return fail(ErrorCode::InvalidArgument,
                            "the grammar refers to token %d, but the vocabulary has tokens 0 to %d", ref.id,
                            cache->trie_->n_tokens() - 1);
            ids.push_back(ref.id);
        } else {
            for (int32_t id = 0; id < cache->trie_->n_tokens(); id++)
                if (cache->trie_->bytes(id) == ref.text) ids.push_back(id);
            if (ids.empty())
                return fail(
                    ErrorCode::InvalidArgument,
                    "the grammar refers to token \"%s\", which is not a single token of this vocabulary",
                    printable(ref.text).c_str());
        }
        cache->token_refs_.push_back(std::move(ids));
    }
    return cache;
}

bool MaskCache::matches(uint32_t ref, int32_t id) const {
    const auto& ids = token_refs_[ref];
    const bool named = std::binary_search(ids.begin(), ids.end(), id);
    if (!grammar_->automaton().tokens[ref].negated) return named;
    return !named && trie_->kind(id) == TokenText::Kind::Text;
}

void MaskCache::clear() {
    stacks_.clear();
    configs_.clear();
    config_items_.clear();
    config_ids_.clear();
    transitions_.clear();
    node_sets_.assign(2, {});
    node_sets_[kRootSet] = {0};
    set_ids_.clear();
    walks_.clear();
    walk_memory_ = 0;
    intern_config({}, false);
}

size_t MaskCache::held() const {
    return stacks_.memory() + walk_memory_ + transitions_.size() * sizeof(uint32_t) +
           config_items_.size() * sizeof(Item) + configs_.size() * 64;
}

uint32_t MaskCache::intern_config(std::span<const Item> items, bool exited) {
    const uint64_t hash = hash_span(items, exited);
    const auto [from, to] = config_ids_.equal_range(hash);
    for (auto at = from; at != to; ++at) {
        const auto known = items_of(at->second);
        if (configs_[at->second].exited == exited &&
            std::equal(known.begin(), known.end(), items.begin(), items.end()))
            return at->second;
    }
    const auto id = static_cast<uint32_t>(configs_.size());
    configs_.push_back(
        {static_cast<uint32_t>(config_items_.size()), static_cast<uint32_t>(items.size()), exited});
    config_items_.insert(config_items_.end(), items.begin(), items.end());
    transitions_.resize(transitions_.size() + grammar_->automaton().n_classes, items.empty() ? 0 : kUnknown);
    config_ids_.emplace(hash, id);
    return id;
}

uint32_t MaskCache::intern_set(const std::vector<uint32_t>& nodes) {
    if (nodes.empty()) return 0;
    const uint64_t hash = hash_span(std::span(nodes), 0);
    const auto [from, to] = set_ids_.equal_range(hash);
    for (auto at = from; at != to; ++at)
        if (node_sets_[at->second] == nodes) return at->second;
    const auto id = static_cast<uint32_t>(node_sets_.size());
    walk_memory_ += nodes.size() * sizeof(uint32_t) + 64;
    node_sets_.push_back(nodes);
    set_ids_.emplace(hash, id);
    return id;
}

uint32_t MaskCache::step(uint32_t config, uint8_t byte) {
    const Automaton& automaton = grammar_->automaton();
    const size_t at = size_t{config} * automaton.n_classes + automaton.byte_class[byte];
    if (transitions_[at] != kUnknown) return transitions_[at];
    work_ += configs_[config].n;
    stacks_.shift(items_of(config), byte);
    const uint32_t next = intern_config(stacks_.items(), stacks_.exited());
    transitions_[at] = next;
    return next;
}

/// False if the walk was abandoned.
bool MaskCache::walk_below(uint32_t config, uint32_t node, uint32_t max_depth, std::vector<uint32_t>& exits) {
    const auto nodes = trie_->nodes();
    const uint32_t end = nodes[node].end, deepest = nodes[node].depth + max_depth;
    path_[nodes[node].depth] = config;
    for (uint32_t i = node + 1; i < end;) {
        const TokenTrie::Node& at = nodes[i];
        const uint32_t next = step(path_[at.depth - 1u], at.byte);
        if (next == 0) {
            i = at.end;
            continue;
        }
        path_[at.depth] = next;
        if (configs_[next].exited) exits.push_back(i);
        if (configs_[next].n > 0)
            for (const int32_t id : trie_->tokens_at(i)) found_.push_back(id);
        i = configs_[next].n == 0 || at.depth >= deepest ? at.end : i + 1;
        if (work_ > kMaxMaskWork && max_depth > 1) return false;
    }
    return true;
}

bool MaskCache::walk_from(uint32_t config, uint32_t node_set, uint32_t max_depth,
                          std::vector<uint32_t>& exits) {
    work_ = 0;
    found_.clear();
    exits.clear();
    const std::vector<uint32_t> start = node_sets_[node_set];
    for (const uint32_t node : start) {
        for (const int32_t id : trie_->tokens_at(node)) found_.push_back(id);
        if (config != kEnded && !walk_below(config, node, max_depth, exits)) return false;
    }
    return true;
}

void MaskCache::add_free_specials(std::span<const Item> items) {
    const Automaton& automaton = grammar_->automaton();
    std::vector<Item> free;
    for (const Item& item : items)
        if (automaton.states[item.state].free) free.push_back(item);
    if (free.empty()) return;
    const uint32_t start = intern_config(free, false);
    for (const int32_t id : trie_->special()) {
        uint32_t config = start;
        for (const char byte : trie_->bytes(id)) config = step(config, static_cast<uint8_t>(byte));
        if (configs_[config].n > 0) found_.push_back(id);
    }
}

void MaskCache::add_whole_tokens(uint32_t config) {
    const Automaton& automaton = grammar_->automaton();
    const std::vector<Item> items(items_of(config).begin(), items_of(config).end());
    for (const Item& item : items) {
        const AutomatonState& state = automaton.states[item.state];
        if (state.op != Op::Token) continue;
        for (int32_t id = 0; id < trie_->n_tokens(); id++)
            if (matches(state.a, id)) found_.push_back(id);
    }
    add_free_specials(items);
}

const MaskCache::Walk& MaskCache::walk(uint32_t config, uint32_t node_set) {
    const uint64_t key = (uint64_t{config} << 32) | node_set;
    if (const auto found = walks_.find(key); found != walks_.end()) return found->second;
    std::vector<uint32_t> exits;
    if (!walk_from(config, node_set, trie_->max_bytes(), exits)) walk_from(config, node_set, 1, exits);
    if (node_set == kRootSet) add_whole_tokens(config);
    Walk& result = walks_[key];
    result.exits = intern_set(exits);
    if (found_.size() < kFewTokens) {
        result.tokens.assign(found_.begin(), found_.end());
    } else {
        result.bits.assign(n_words_, 0);
        for (const int32_t id : found_) set_bit(result.bits, id);
    }
    walk_memory_ += result.tokens.size() * sizeof(int32_t) + result.bits.size() * sizeof(uint64_t) + 128;
    return result;
}

uint32_t MaskCache::relative_node(const Stacks& stacks, uint32_t node) {
    const Node& frame = stacks.node(node);
    if (node == kBottom || frame.kind() == FrameKind::Call) return kBottom;
    const uint32_t parent = relative_node(stacks, frame.parent);
    const uint32_t data =
        frame.kind() == FrameKind::Members
            ? stacks_.members().import(stacks.members(), frame.data)
            : canonical_count(grammar_->automaton().loops[frame.loop()], frame.data, trie_->max_bytes());
    return stacks_.push({parent, frame.ret, data, frame.tag});
}

void MaskCache::add_bits(const Walk& walk, std::span<uint64_t> words) {
    for (size_t i = 0; i < walk.bits.size(); i++) words[i] |= walk.bits[i];
    for (const int32_t id : walk.tokens) set_bit(words, id);
}

void MaskCache::leave(Stacks& stacks, uint32_t cut, uint32_t exits, std::span<uint64_t> words, size_t depth) {
    bool ended = cut == kBottom;
    if (!ended) {
        const Node caller = stacks.node(cut);
        stacks.begin();
        stacks.add(caller.ret, caller.parent);
        stacks.finish();
        ended = stacks.exited();
        std::vector<Item>& items = levels_[depth].items;
        items.assign(stacks.items().begin(), stacks.items().end());
        apply(stacks, items, exits, words, depth + 1);
    }
    if (ended) add_bits(walk(kEnded, exits), words);
}

void MaskCache::apply(Stacks& stacks, std::span<const Item> items, uint32_t node_set,
                      std::span<uint64_t> words, size_t depth) {
    if (levels_.size() <= depth) levels_.resize(depth + 1);
    Level& level = levels_[depth];
    level.by_cut.clear();
    for (const Item& item : items) {
        uint32_t cut = item.node;
        while (cut != kBottom && stacks.node(cut).kind() != FrameKind::Call) cut = stacks.node(cut).parent;
        level.by_cut.push_back({cut, item});
    }
    std::sort(level.by_cut.begin(), level.by_cut.end());
    for (size_t from = 0; from < level.by_cut.size();) {
        const uint32_t cut = level.by_cut[from].first;
        level.relative.clear();
        for (; from < level.by_cut.size() && level.by_cut[from].first == cut; from++) {
            const Item& item = level.by_cut[from].second;
            level.relative.push_back({item.state, relative_node(stacks, item.node)});
        }
        std::sort(level.relative.begin(), level.relative.end());
        level.relative.erase(std::unique(level.relative.begin(), level.relative.end()), level.relative.end());
        const Walk& result = walk(intern_config(level.relative, false), node_set);
        add_bits(result, words);
        if (result.exits) leave(stacks, cut, result.exits, words, depth);
    }
}

void MaskCache::mask(Stacks& stacks, std::span<const Item> items, bool accepting, std::span<uint64_t> words) {
    TSR_CHECK(words.size() == n_words_);
    std::fill(words.begin(), words.end(), 0);
    const std::lock_guard lock(mutex_);
    if (held() > kMaxMemory) clear();
    apply(stacks, items, kRootSet, words, 0);
    if (!accepting) return;
    for (const int32_t id : trie_->ends()) set_bit(words, id);
}

}  // namespace tessera::grammar
