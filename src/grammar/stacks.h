#pragma once
// Runs the automaton: stacks that share their lower parts, and sets of stacks. Internal to src/grammar.
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/grammar/automaton.h"

namespace tessera::grammar {

constexpr uint32_t kBottom = 0;  ///< the node below the first frame

/// With more stacks than this at once the grammar counts as too ambiguous.
constexpr size_t kMaxStacks = 8192;

enum class FrameKind : uint32_t { Call, Members, Loop };

struct Node {
    uint32_t parent, ret;
    uint32_t data;  ///< Members: id in MemberSets; Loop: iterations begun
    uint32_t tag;   ///< 0 call, 1 members, else the loop's index + 2
    bool operator==(const Node&) const = default;
    FrameKind kind() const {
        return tag == 0 ? FrameKind::Call : tag == 1 ? FrameKind::Members : FrameKind::Loop;
    }
    uint32_t loop() const { return tag - 2; }
};

/// A state that consumes input, on top of a stack.
struct Item {
    uint32_t state, node;
    bool operator==(const Item&) const = default;
    auto operator<=>(const Item&) const = default;
};

/// Sets of the members of an object written so far; every distinct set has one id.
class MemberSets {
  public:
    explicit MemberSets(const Automaton& automaton) : automaton_(&automaton) {}

    uint32_t initial(uint32_t spec);
    /// Whether one of the keys [lo, hi) may come next.
    bool available(uint32_t id, uint32_t lo, uint32_t hi);
    uint32_t mark(uint32_t id, uint32_t key);
    uint32_t mark_open(uint32_t id);
    bool may_open(uint32_t id);
    bool may_close(uint32_t id);
    bool may_continue(uint32_t id) { return may_open(id) || available(id, 0, kUnbounded); }
    /// The id in this instance of a set of another one.
    uint32_t import(const MemberSets& other, uint32_t id);
    size_t memory() const { return memory_; }

  private:
    // words: number of members, number of members known to be distinct, position in each chain, bits of loose
    // keys.
    struct Set {
        uint32_t spec;
        std::vector<uint32_t> words;
        bool analysed = false;
        uint32_t missing = 0;             // number of required keys not yet written
        std::vector<uint32_t> available;  // ascending
    };
    uint32_t intern(uint32_t spec, std::vector<uint32_t> words);
    const MemberRules& rules(const Set& set) const { return automaton_->members[set.spec]; }
    void analyse(Set& set);
    static bool is_loose_taken(const MemberRules& rules, const Set& set, uint32_t key);
    bool in_order(const MemberRules& rules, const Set& set, uint32_t key) const;
    uint64_t reachable_after(const MemberRules& rules, const Set& set, uint32_t key) const;

    const Automaton* automaton_;
    std::vector<Set> sets_;
    std::unordered_map<std::string, uint32_t> ids_;
    size_t memory_ = 0;
};

/// Nodes are shared: equal stacks have equal ids. Used by one thread at a time.
class Stacks {
  public:
    explicit Stacks(const Automaton& automaton);

    const Automaton& automaton() const { return *automaton_; }
    const Node& node(uint32_t id) const { return nodes_[id]; }
    uint32_t push(Node node);
    MemberSets& members() { return members_; }
    const MemberSets& members() const { return members_; }

    /// Computes an epsilon closure: begin(), any number of add(), then items() and exited().
    void begin();
    /// Adds everything reachable from a state without input.
    void add(uint32_t state, uint32_t node);
    /// States that consume input; sorted by finish().
    std::vector<Item>& items() { return items_; }
    /// Whether a stack has been emptied.
    bool exited() const { return exited_; }
    /// Whether stacks were dropped because there were too many.
    bool overflowed() const { return overflowed_; }
    void finish();
    /// The closure of `items` after one byte. `items` must not be items().
    void shift(std::span<const Item> items, uint8_t byte);

    size_t n_nodes() const { return nodes_.size(); }
    size_t memory() const;
    void clear();

  private:
    bool visit(uint32_t state, uint32_t node);
    void follow(const AutomatonState& state, uint32_t node);
    void leave(uint32_t node);
    void test_loop(uint32_t loop, uint32_t node);
    void grow_index();
    void grow_visited();

    const Automaton* automaton_;
    MemberSets members_;
    std::vector<Node> nodes_;
    std::vector<uint32_t> index_;  // open addressing; 0 is empty (the bottom is never looked up)
    struct Visited {
        uint64_t key = 0;
        uint32_t epoch = 0;
    };
    std::vector<Visited> visited_;
    uint32_t epoch_ = 0, n_visited_ = 0;
    std::vector<Item> work_, items_;
    bool exited_ = false, overflowed_ = false;
};

}  // namespace tessera::grammar
