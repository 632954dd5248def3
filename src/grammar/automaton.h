#pragma once
// The compiled grammar: a byte-level pushdown automaton with counters. Immutable, shared by every matcher.
#include <array>
#include <cstdint>
#include <vector>

#include "common/expected.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// What a state does. Only Shift and Token wait for input; the others are followed at once.
enum class Op : uint8_t {
    Shift,         ///< edges [a, a + b)
    Split,         ///< go on at every target of [a, a + b)
    Call,          ///< push a frame that returns to b, go on at a
    Return,        ///< pop the frame
    LoopBegin,     ///< push a frame of loop a that returns to b
    LoopTest,      ///< leave the loop or begin another round
    MembersBegin,  ///< push a frame of member set a that returns to b; go on at c
    Guard,         ///< go on at c where one of the keys [a, b) may come next
    Mark,          ///< key a is taken; go on at b
    MarkOpen,      ///< a key outside the list is taken; go on at b
    MayClose,      ///< go on at b where nothing is missing
    MayContinue,   ///< go on at b where another member may follow
    Token,         ///< token a, then b
};

struct AutomatonState {
    Op op = Op::Split;
    bool free = false;  ///< Shift: special tokens may stand here, as their spelling
    uint32_t a = 0, b = 0, c = 0;
};

struct ByteEdge {
    uint8_t lo, hi;
    uint32_t to;
};

struct Loop {
    uint32_t min, max;  ///< max may be kUnbounded: then counting ends at min
    uint32_t test, body;
};

/// The part of Members that is needed at run time.
struct MemberRules {
    uint32_t n_keys = 0;
    std::vector<bool> required;
    std::vector<std::vector<uint32_t>> chains;
    /// For every chain and place: the place of the first required key from there on, or the chain's length.
    std::vector<std::vector<uint32_t>> next_required;
    /// For every key: its chains and its places in them.
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> places;
    std::vector<uint32_t> loose;      ///< keys in no chain; each has a bit, in this order
    std::vector<uint32_t> loose_bit;  ///< for every key its bit, or kUnbounded
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
    std::array<uint8_t, 256> byte_class{};  ///< bytes that no edge tells apart share a class
    uint32_t n_classes = 0;
};

/// Fails where the grammar calls itself before consuming anything, can never end, or grows past the limits;
/// where a rule is to blame the message names it.
Result<Automaton> compile(const Program& program);

}  // namespace tessera::grammar
