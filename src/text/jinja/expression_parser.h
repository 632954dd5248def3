#pragma once
// Parses tokens into expressions and numbers the names in them; records which special variables loops and
// macros use.
#include <optional>
#include <unordered_map>

#include "src/text/jinja/token_cursor.h"

namespace tessera::jinja {

using ParsedExpr = Parsed<ExprPtr>;

/// An operator and its spelling.
struct OpRow {
    std::string_view text;
    Op op;
};

/// Recursive descent with one function per level of precedence. Recursion is bounded (Level), and
/// left-associative chains are bounded by the depth of their tree.
class ExpressionParser : protected TokenCursor {
  protected:
    using Words = std::initializer_list<std::string_view>;

    explicit ExpressionParser(std::vector<Token> tokens);

    /// The number of a name in the program; new names get a new number.
    uint32_t id_of(const std::string& name);
    /// `a if b else c` and everything that binds tighter; with_choice false: only the latter.
    ParsedExpr expression(bool with_choice = true);
    /// Comma-separated expressions; a single one without a comma is not a tuple. `ends` are names that end
    /// it.
    ParsedExpr tuple(bool with_choice, Words ends, bool may_be_empty);
    /// Filters over the text of a block.
    ParsedExpr filter_chain();

    /// Counts one level of nesting during its lifetime.
    struct Level {
        uint32_t& depth;
        explicit Level(uint32_t& depth_) : depth(++depth_) {}
        ~Level() { depth--; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
    };

    Parsed<void> check_level() const;

    Program program_;  // this class appends to its list of names
    uint32_t expr_depth_ = 0;
    std::vector<bool*> loops_;        // for each open loop: whether `loop` is used
    std::vector<MacroUses*> macros_;  // being parsed

  private:
    static ExprPtr make(ExprKind kind, uint32_t offset);
    static void adopt(Expr& parent, ExprPtr child);
    static ParsedExpr bounded(ExprPtr expr);
    /// operand (word operand)*, kept flat.
    template <class Operand, class Skip>
    ParsedExpr flat(ExprKind kind, Operand operand, Skip skip);
    // From the lowest to the highest precedence.
    ParsedExpr disjunction();
    ParsedExpr conjunction();
    ParsedExpr negation();
    std::optional<Op> comparison_op();
    ParsedExpr comparison();
    template <size_t N, class Operand>
    ParsedExpr binary(const OpRow (&rows)[N], Operand operand);
    ParsedExpr additive();
    ParsedExpr concat();
    ParsedExpr multiplicative();
    ParsedExpr power();
    ParsedExpr unary(bool with_filters);
    ParsedExpr primary();
    ParsedExpr name();
    void note_use(uint32_t id);
    ParsedExpr list();
    ParsedExpr dict();
    ParsedExpr postfix(ExprPtr node);
    ParsedExpr filtered(ExprPtr node);
    ParsedExpr attribute(ExprPtr object);
    ParsedExpr subscript(ExprPtr object);
    ParsedExpr call(ExprPtr callee);
    Parsed<void> arguments(Expr& node);
    Parsed<std::string> dotted_name();
    // One filter's name and arguments, after its bar.
    ParsedExpr filter(ExprPtr object);
    ParsedExpr test(ExprPtr object);
    bool starts_test_argument() const;

    std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace tessera::jinja
