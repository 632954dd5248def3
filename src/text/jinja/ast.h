#pragma once
// The parsed template: plain data, immutable after parsing, walked by Runtime. Nesting is bounded by the
// parser (kMaxExprDepth, kMaxStmtDepth), so walking and freeing it recursively is safe.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/text/jinja/value.h"

namespace tessera::jinja {

constexpr uint32_t kMaxExprDepth = 150;
constexpr uint32_t kMaxStmtDepth = 80;

enum class ExprKind : uint8_t {
    Constant,   // value
    Name,       // id, name
    Slot,       // the captured text of a filter block or a filtered {% set %}
    List,       // args
    Tuple,      // args
    Dict,       // args: key, value, key, value, ...
    Attribute,  // args[0].name
    Item,       // args[0][args[1]]
    Slice,      // args[0]: object; args[1..3]: from, to, step, each maybe null
    Call,       // args[0](args[1..], named, star_args, star_named)
    Filter,     // args[0] | name(args[1..], ...)
    Test,       // args[0] is name(args[1..], ...)
    Negative,   // -args[0]
    Positive,   // +args[0]
    Not,        // not args[0]
    And,        // args, from the left
    Or,         // args, from the left
    Concat,     // args[0] ~ args[1] ~ ...
    Binary,     // args[0] op args[1]
    Compare,    // args[0] ops[0] args[1] ops[1] ...
    Choice,     // args[0] if args[1] else args[2], which may be null
};

enum class Op : uint8_t { Add, Sub, Mul, Div, FloorDiv, Mod, Pow, Eq, Ne, Lt, Le, Gt, Ge, In, NotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
    ExprKind kind = ExprKind::Constant;
    Op op = Op::Add;
    uint32_t offset = 0;  ///< byte offset in the source
    uint32_t depth = 1;   ///< depth of the tree, itself included
    uint32_t id = 0;      ///< of a name, see Program::names
    std::string name;
    Value value;
    std::vector<ExprPtr> args;
    std::vector<Op> ops;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr star_args, star_named;
};

enum class StmtKind : uint8_t {
    Data,       // text
    Output,     // exprs
    If,         // branches: condition (null for else) and body
    For,        // target, iterable, filter, recursive, body, otherwise
    Set,        // target = exprs[0]
    SetBlock,   // target = filter over the body's text
    Macro,      // id, name, params, body
    CallBlock,  // params, exprs[0] the call, body
    Filter,     // exprs[0] over Slot, body
    With,       // params as assignments, body
    Scope,      // body in a scope of its own: generation, block
    Break,
    Continue,
};

/// The target of an assignment: a name, a member of a namespace, or several of these.
struct Target {
    uint32_t id = 0;
    uint32_t offset = 0;
    std::string name;
    std::string member;         ///< of the namespace `name`
    std::vector<Target> parts;  ///< not empty: unpacking
};

struct Param {
    uint32_t id = 0;
    std::string name;
    ExprPtr preset;  ///< null: none
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
    ExprPtr condition;
    Body body;
};

/// The special variables that the body of a macro uses.
struct MacroUses {
    bool varargs = false, kwargs = false, caller = false;
};

struct Stmt {
    StmtKind kind = StmtKind::Data;
    uint32_t offset = 0;
    std::string text;
    std::vector<ExprPtr> exprs;
    std::vector<Branch> branches;
    Target target;
    ExprPtr filter;
    bool recursive = false, uses_loop = false;
    std::vector<Param> params;
    uint32_t id = 0;
    MacroUses uses;
    Body body, otherwise;
};

/// A parsed template. Names are numbered; the first few numbers are fixed.
struct Program {
    enum FixedName : uint32_t { kLoop, kVarargs, kKwargs, kCaller };
    std::vector<std::string> names;
    Body body;
};

}  // namespace tessera::jinja
