// The tree. A node is a page; its tokens are kKvPage, or fewer in a leaf. Children lie in lexicographic order
// of their tokens, so that the one with the longest common beginning is next to where a text would stand.
#include "src/kv/prefix_tree.h"

#include <algorithm>

namespace tessera::kv {

struct PrefixTree::Node {
    Node* parent = nullptr;
    std::byte* page = nullptr;
    std::vector<int32_t> tokens;  // 1 .. kKvPage
    std::vector<std::unique_ptr<Node>> children;
    uint64_t used = 0;

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

PrefixTree::PrefixTree(PagePool& pool) : pool_(&pool), root_(std::make_unique<Node>()) {}

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

/// Every use has its own number, so a leaf is found in leaves_ by it; a parent's is never below its child's.
void PrefixTree::touch(Node* node) {
    if (node->children.empty()) leaves_.erase(node);
    node->used = ++clock_;
    if (node->children.empty()) leaves_.insert(node);
    for (Node* up = node->parent; up && up != root_.get(); up = up->parent) up->used = ++clock_;
}

PrefixTree::Node* PrefixTree::add(Node& parent, std::span<const int32_t> tokens, std::byte* page) {
    auto node = std::make_unique<Node>();
    node->parent = &parent;
    node->page = page;
    node->tokens.assign(tokens.begin(), tokens.end());
    pool_->share(page);
    ++n_pages_;
    if (parent.children.empty() && &parent != root_.get()) leaves_.erase(&parent);
    return parent.children.insert(parent.position(tokens), std::move(node))->get();
}

void PrefixTree::remove(Node* leaf) {
    leaves_.erase(leaf);
    pool_->give_back(leaf->page);
    --n_pages_;
    Node* parent = leaf->parent;
    parent->children.erase(parent->position(leaf->tokens));
    if (parent->children.empty() && parent != root_.get()) leaves_.insert(parent);
}

PrefixTree::Match PrefixTree::match(std::span<const int32_t> tokens) {
    Match found;
    Node* node = root_.get();
    while (!tokens.empty()) {
        const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(kKvPage)));
        const Place place = best_child(*node, part);
        if (!place.child) break;
        node = place.child;
        found.pages.push_back(node->page);
        found.n_tok += static_cast<int64_t>(place.n_common);
        tokens = tokens.subspan(place.n_common);
        if (place.n_common < static_cast<size_t>(kKvPage)) break;
    }
    if (node != root_.get()) touch(node);
    return found;
}

void PrefixTree::insert(std::span<const int32_t> tokens, std::span<std::byte*> pages) {
    Node* node = root_.get();
    for (size_t i = 0; !tokens.empty(); ++i) {
        const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(kKvPage)));
        tokens = tokens.subspan(part.size());
        const Place place = best_child(*node, part);
        if (place.n_common == part.size()) {
            // Known. A tail may also be the beginning of a longer page.
            node = place.child;
            if (node->whole() && part.size() == node->tokens.size() && pages[i] != node->page) {
                pool_->share(node->page);
                pool_->give_back(pages[i]);
                pages[i] = node->page;
            }
            continue;
        }
        if (place.child && place.n_common == place.child->tokens.size()) remove(place.child);
        node = add(*node, part, pages[i]);
    }
    if (node != root_.get()) touch(node);
}

bool PrefixTree::make_room(int64_t n) {
    auto at = leaves_.begin();
    while (pool_->n_free() < n && at != leaves_.end()) {
        Node* leaf = *at++;
        if (pool_->n_owners(leaf->page) > 1) continue;
        Node* parent = leaf->parent;
        remove(leaf);
        // The parent became a leaf that may have been used before the next one: it may come next.
        if (parent != root_.get() && parent->children.empty() &&
            (at == leaves_.end() || parent->used < (*at)->used))
            at = leaves_.find(parent);
    }
    return pool_->n_free() >= n;
}

void PrefixTree::clear() {
    while (!leaves_.empty()) remove(*leaves_.begin());
}

}  // namespace tessera::kv
