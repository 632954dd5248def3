// The prefix cache as a tree. A node is a block of kKvPage tokens, or fewer in a leaf. Children are in
// lexicographic order of their tokens, so that the child with the longest common prefix is next to the
// position where a text would be inserted.
#include "src/kv/prefix_tree.h"

#include <algorithm>

namespace tessera::kv {

struct PrefixTree::Node {
    Node* parent = nullptr;
    std::vector<std::byte*> pages;  // [n_layer_groups]; those of windowed groups are all present or all null
    std::vector<int32_t> tokens;    // 1 .. kKvPage
    std::vector<std::unique_ptr<Node>> children;
    std::vector<Checkpoint> states;  // after some of these tokens, ascending by position in the text
    uint64_t used = 0;
    bool ends_prompt = false;

    bool whole() const { return tokens.size() == static_cast<size_t>(kKvPage); }
    std::vector<std::unique_ptr<Node>>::const_iterator position(std::span<const int32_t> text) const {
        return std::lower_bound(children.begin(), children.end(), text,
                                [](const std::unique_ptr<Node>& child, std::span<const int32_t> t) {
                                    return std::lexicographical_compare(
                                        child->tokens.begin(), child->tokens.end(), t.begin(), t.end());
                                });
    }
};

bool PrefixTree::ByUse::operator()(const Node* a, const Node* b) const { return a->used < b->used; }

PrefixTree::PrefixTree(PagePool& pool, StatePool* states)
    : pool_(&pool),
      states_(states && states->layout().slot_bytes > 0 ? states : nullptr),
      root_(std::make_unique<Node>()) {}

PrefixTree::~PrefixTree() { clear(); }

PrefixTree::Place PrefixTree::best_child(const Node& node, std::span<const int32_t> tokens) {
    Place best;
    const auto consider = [&](Node* child) {
        const auto ends =
            std::mismatch(tokens.begin(), tokens.end(), child->tokens.begin(), child->tokens.end());
        const auto n_common = static_cast<size_t>(ends.first - tokens.begin());
        if (n_common > best.n_common) best = {child, n_common};
    };
    const auto at = node.position(tokens);
    if (at != node.children.end()) consider(at->get());
    if (at != node.children.begin()) consider(std::prev(at)->get());
    return best;
}

/// Every use has a unique number, which identifies a leaf in leaves_; the number of a parent is never below
/// that of its child.
void PrefixTree::touch(Node* node) {
    if (node->children.empty()) leaves_.erase(node);
    node->used = ++clock_;
    if (node->children.empty()) leaves_.insert(node);
    for (Node* up = node->parent; up && up != root_.get(); up = up->parent) up->used = ++clock_;
}

std::span<std::byte*> PrefixTree::window_pages(Node& node) const {
    return std::span(node.pages).subspan(static_cast<size_t>(pool_->layout().n_full_groups));
}

/// The last state at or before n_tok on a path from the root; position 0 if there is none.
Checkpoint PrefixTree::last_state(std::span<Node* const> path, int64_t n_tok) {
    for (auto node = path.rbegin(); node != path.rend(); ++node)
        for (auto at = (*node)->states.rbegin(); at != (*node)->states.rend(); ++at)
            if (at->n_tok <= n_tok) return *at;
    return {};
}

/// Length of the longest prefix of a path whose window before its end is complete, and whose end has a state
/// if there are recurrent layers.
int64_t PrefixTree::usable(std::span<Node* const> path, int64_t n_tok) const {
    const Layout& layout = pool_->layout();
    if (states_) n_tok = last_state(path, n_tok).n_tok;
    if (layout.n_window_groups() == 0) return n_tok;
    for (int64_t i = blocks_of(n_tok) - 1; i >= layout.first_block(n_tok) && n_tok > 0; --i)
        if (!path[static_cast<size_t>(i)]->pages.back()) {
            n_tok = i * kKvPage;
            if (states_) n_tok = last_state(path, n_tok).n_tok;
            i = blocks_of(n_tok);
        }
    return n_tok;
}

PrefixTree::Node* PrefixTree::add(Node& parent, std::span<const int32_t> tokens, const PageTables& pages,
                                  size_t block) {
    auto node = std::make_unique<Node>();
    node->parent = &parent;
    node->tokens.assign(tokens.begin(), tokens.end());
    for (const auto& table : pages) {
        node->pages.push_back(table[block]);
        if (!table[block]) continue;
        pool_->share(table[block]);
        ++n_pages_;
    }
    if (parent.children.empty() && &parent != root_.get()) leaves_.erase(&parent);
    return parent.children.insert(parent.position(tokens), std::move(node))->get();
}

/// Merges the pages of a block that the tree and a sequence both have, so that one page per layer group
/// remains.
void PrefixTree::merge_pages(Node& node, PageTables& pages, size_t block) {
    for (size_t group = 0; group < pages.size(); ++group) {
        std::byte *&cached = node.pages[group], *&given = pages[group][block];
        if (!given || given == cached) continue;
        if (!cached) {
            cached = given;
            pool_->share(cached);
            ++n_pages_;
            continue;
        }
        pool_->share(cached);
        pool_->release(given);
        given = cached;
    }
}

/// The node becomes another owner of the given states at positions first + 1 .. last. Where it has a state
/// already, which has the same bits, that one replaces the given one.
void PrefixTree::merge_states(Node& node, std::span<Checkpoint> given, int64_t first, int64_t last) {
    if (!states_) return;
    for (Checkpoint& one : given) {
        if (one.n_tok <= first || one.n_tok > last) continue;
        const auto at = std::find_if(node.states.begin(), node.states.end(),
                                     [&one](const Checkpoint& cached) { return cached.n_tok >= one.n_tok; });
        if (at == node.states.end() || at->n_tok > one.n_tok) {
            states_->share(one.state);
            node.states.insert(at, one);
            ++n_states_;
            continue;
        }
        states_->share(at->state);
        states_->release(one.state);
        one.state = at->state;
    }
}

void PrefixTree::release_states(Node& node) {
    for (const Checkpoint& one : node.states) states_->release(one.state);
    n_states_ -= std::ssize(node.states);
    node.states.clear();
}

void PrefixTree::release(std::byte*& page) {
    if (!page) return;
    pool_->release(page);
    page = nullptr;
    --n_pages_;
}

bool PrefixTree::in_use(const Node& node) const {
    return std::any_of(node.pages.begin(), node.pages.end(),
                       [this](std::byte* page) { return page && pool_->n_owners(page) > 1; });
}

/// Evicts pages of windowed groups, except for the window before the end of the text and before each position
/// in the path where a later request may continue.
void PrefixTree::evict_windows(Node* leaf, int64_t n) {
    const Layout& layout = pool_->layout();
    if (layout.n_window_groups() == 0) return;
    const int64_t n_needed = blocks_of(layout.window) + 1;
    int64_t n_kept = 0;
    for (Node* node = leaf; node != root_.get() && pool_->n_free() < n; node = node->parent) {
        if (node->children.size() != 1 || node->ends_prompt) n_kept = 0;
        if (n_kept++ < n_needed) continue;
        for (std::byte*& page : window_pages(*node))
            if (page && pool_->n_owners(page) == 1) release(page);
    }
}

/// Evicts states on the path to a leaf, from the leaf up, that have no other owners. Resumable are the end of
/// the text, the ends of prompts and branching points, as for windows; even without sparing these, the states
/// at branching points and before them are left to the other leaves.
void PrefixTree::evict_states(Node* leaf, int64_t n, Spare spare) {
    if (!states_) return;
    for (Node* node = leaf; node != root_.get() && states_->n_free() < n; node = node->parent) {
        if (node->children.size() > 1 && spare == Spare::Nothing) return;
        if ((node->children.size() != 1 || node->ends_prompt) && spare == Spare::Resumable) continue;
        n_states_ -= static_cast<int64_t>(std::erase_if(node->states, [this](const Checkpoint& one) {
            if (states_->n_owners(one.state) > 1) return false;
            states_->release(one.state);
            return true;
        }));
    }
}

void PrefixTree::remove(Node* leaf) {
    leaves_.erase(leaf);
    release_states(*leaf);
    for (std::byte*& page : leaf->pages) release(page);
    Node* parent = leaf->parent;
    parent->children.erase(parent->position(leaf->tokens));
    if (parent->children.empty() && parent != root_.get()) leaves_.insert(parent);
}

PrefixTree::Match PrefixTree::match(std::span<const int32_t> tokens) {
    Match found;
    std::vector<Node*> path;
    Node* node = root_.get();
    while (!tokens.empty()) {
        const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(kKvPage)));
        const Place place = best_child(*node, part);
        if (!place.child) break;
        node = place.child;
        path.push_back(node);
        found.n_tok += static_cast<int64_t>(place.n_common);
        tokens = tokens.subspan(place.n_common);
        if (place.n_common < static_cast<size_t>(kKvPage)) break;
    }
    if (node != root_.get()) touch(node);
    const Layout& layout = pool_->layout();
    found.n_tok = usable(path, found.n_tok);
    if (states_) found.state = last_state(path, found.n_tok).state;
    path.resize(static_cast<size_t>(blocks_of(found.n_tok)));
    found.pages.resize(static_cast<size_t>(layout.n_layer_groups));
    for (size_t group = 0; group < found.pages.size(); ++group) {
        const bool windowed = static_cast<int32_t>(group) >= layout.n_full_groups;
        const int64_t first = windowed ? layout.first_block(found.n_tok) : 0;
        for (size_t i = 0; i < path.size(); ++i)
            found.pages[group].push_back(static_cast<int64_t>(i) < first ? nullptr : path[i]->pages[group]);
    }
    return found;
}

void PrefixTree::insert(std::span<const int32_t> tokens, PageTables& pages, bool is_prompt,
                        std::span<Checkpoint> checkpoints) {
    Node* node = root_.get();
    int64_t n_tok = 0;
    for (size_t i = 0; !tokens.empty(); ++i) {
        const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(kKvPage)));
        tokens = tokens.subspan(part.size());
        const Place place = best_child(*node, part);
        if (place.n_common == part.size()) {
            // Already cached; the block may also be the beginning of a longer one.
            node = place.child;
            if (node->whole() && part.size() == node->tokens.size()) merge_pages(*node, pages, i);
        } else {
            std::vector<Checkpoint> replaced;
            if (place.child && place.n_common == place.child->tokens.size()) {
                replaced.swap(place.child->states);
                remove(place.child);
            }
            node = add(*node, part, pages, i);
            node->states.swap(replaced);
        }
        merge_states(*node, checkpoints, n_tok, n_tok + std::ssize(part));
        n_tok += std::ssize(part);
    }
    if (node != root_.get()) touch(node);
    if (is_prompt && node != root_.get()) (node->whole() ? node : node->parent)->ends_prompt = true;
}

bool PrefixTree::has_free(int64_t n_pages, int64_t n_slots) const {
    return pool_->n_free() >= n_pages && (!states_ || states_->n_free() >= n_slots);
}

bool PrefixTree::evict(int64_t n_pages, int64_t n_slots) {
    auto at = leaves_.begin();
    while (!has_free(n_pages, n_slots) && at != leaves_.end()) {
        Node* leaf = *at++;
        evict_windows(leaf, n_pages);
        evict_states(leaf, n_slots, Spare::Resumable);
        if (has_free(n_pages, n_slots)) break;
        if (in_use(*leaf)) {
            evict_states(leaf, n_slots, Spare::Nothing);
            continue;
        }
        Node* parent = leaf->parent;
        remove(leaf);
        // The parent became a leaf. If it was used less recently than the next leaf, it is evicted next.
        if (parent != root_.get() && parent->children.empty() &&
            (at == leaves_.end() || parent->used < (*at)->used))
            at = leaves_.find(parent);
    }
    return has_free(n_pages, n_slots);
}

bool PrefixTree::evict_leaf(const std::byte* page) {
    const auto at = std::find_if(leaves_.begin(), leaves_.end(),
                                 [page](const Node* leaf) { return leaf->pages.front() == page; });
    if (!page || at == leaves_.end()) return false;
    remove(*at);
    return true;
}

void PrefixTree::clear() {
    while (!leaves_.empty()) remove(*leaves_.begin());
}

}  // namespace tessera::kv
