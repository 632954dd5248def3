#pragma once
// The compiled grammar: a byte-level pushdown automaton with counters. Immutable, shared by all matchers.
#include <array>
#include <cstdint>
#include <vector>

#include "common/expected.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// Kinds of states. Only Shift and Token consume input; the others are epsilon transitions.
enum class Op : uint8_t {
    Shift,         ///< edges [a, a + b)
    Split,         ///< continue at every target of [a, a + b)
    Call,          ///< push a frame that returns to b, continue at a
    Return,        ///< pop the frame
    LoopBegin,     ///< push a frame of loop a that returns to b
    LoopTest,      ///< leave the loop or begin another iteration
    MembersBegin,  ///< push a frame of member set a that returns to b; continue at c
    Guard,         ///< continue at c if one of the keys [a, b) may come next
    Mark,          ///< key a is taken; continue at b
    MarkOpen,      ///< a key outside the list is taken; continue at b
    MayClose,      ///< continue at b if no required key is missing
    MayContinue,   ///< continue at b if another member may follow
    Token,         ///< token a, then b
};

struct AutomatonState {
    Op op = Op::Split;
    bool free = false;  ///< Shift: special tokens match here by their spelling
    uint32_t a = 0, b = 0, c = 0;
};

struct ByteEdge {
    uint8_t lo, hi;
    uint32_t to;
};

struct Loop {
    uint32_t min, max;  ///< max may be kUnbounded: then counting stops at min
    uint32_t test, body;
};

/// The part of Members that is used at run time.
struct MemberRules {
    uint32_t n_keys = 0;
    std::vector<bool> required;
    std::vector<std::vector<uint32_t>> chains;
    /// For every chain and index: the index of the first required key from there on, or the chain's length.
    std::vector<std::vector<uint32_t>> next_required;
    /// For every key: its chains and its index in them.
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> places;
    std::vector<uint32_t> loose;      ///< keys outside all chains, one bit each, in this order
    std::vector<uint32_t> loose_bit;  ///< bit of each key, or kUnbounded
    bool has_open = false;
    uint32_t min = 0, max = kUnbounded;
};

struct Automaton {
    std::vector<AutomatonState> states;
    std::vector<ByteEdge> edges;
    std::vector<uint32_t> targets;
    std::vector<Loop> loops;
    std::vector<MemberRules> members;
    std::vector<TokenRef> tokens;
    uint32_t start = 0;
    std::array<uint8_t, 256> byte_class{};  ///< bytes that no edge distinguishes share a class
    uint32_t n_classes = 0;
};

/// Errors: left recursion, a root that cannot end, and a grammar larger than the limits. The message names
/// the rule if there is one.
Result<Automaton> compile(const Program& program);

}  // namespace tessera::grammar
