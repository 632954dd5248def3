#pragma once
// Tokens to expressions, and the names in them: which number each has, and what the loops and macros around
// it are told of its use.
#include <optional>
#include <unordered_map>

#include "src/text/jinja/token_cursor.h"

namespace tessera::jinja {

using ParsedExpr = Parsed<ExprPtr>;

/// An operator and how it is written.
struct OpRow {
    std::string_view text;
    Op op;
};

/// Recursive descent, one function a level of precedence. Recursion is bounded (Level), and chains that grow
/// to the left are bounded by the depth of their tree.
class ExpressionParser : protected TokenCursor {
  protected:
    using Words = std::initializer_list<std::string_view>;

    explicit ExpressionParser(std::vector<Token> tokens);

    /// The number of a name in the program, a new one for a new name.
    uint32_t id_of(const std::string& name);
    /// `a if b else c` and everything tighter; without choice, everything tighter.
    ParsedExpr expression(bool with_choice = true);
    /// Expressions with commas between them; a single one without a comma is itself. `ends` are names that
    /// end it.
    ParsedExpr tuple(bool with_choice, Words ends, bool may_be_empty);
    /// Filters over the text of a block.
    ParsedExpr filter_chain();

    /// One more level of nesting while it lives.
    struct Level {
        uint32_t& depth;
        explicit Level(uint32_t& depth_) : depth(++depth_) {}
        ~Level() { depth--; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
    };

    Parsed<void> check_level() const;

    Program program_;  // of which this fills in the names
    uint32_t expr_depth_ = 0;
    std::vector<bool*> loops_;        // of the loops being parsed: whether `loop` is used
    std::vector<MacroUses*> macros_;  // being parsed

  private:
    static ExprPtr make(ExprKind kind, uint32_t offset);
    static void adopt(Expr& parent, ExprPtr child);
    static ParsedExpr bounded(ExprPtr expr);
    /// operand (word operand)*, kept flat.
    template <class Operand, class Skip>
    ParsedExpr flat(ExprKind kind, Operand operand, Skip skip);
    // From the loosest to the tightest.
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
    // One filter's name and arguments, its bar read already.
    ParsedExpr filter(ExprPtr object);
    ParsedExpr test(ExprPtr object);
    bool starts_test_argument() const;

    std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace tessera::jinja
