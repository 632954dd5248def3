#pragma once
// Facts about every rule that the compiler needs before it creates states. Internal to src/grammar.
#include <vector>

#include "common/expected.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// Keeps a reference to the program, which must outlive it.
class Analysis {
  public:
    /// Errors: left recursion, and a root that no text completes.
    static Result<Analysis> create(const Program& program);

    /// For each rule, whether it matches any text.
    static std::vector<bool> productive_rules(const Program& program);

    /// Whether it matches no text; it is then removed with everything that requires it.
    bool dead(ExprId id) const { return !productive_expr(id); }
    /// Whether it matches the empty text.
    bool nullable(ExprId id) const;
    /// Whether the rule is small enough to be copied to its uses, which keeps stacks shallow.
    bool inlined(RuleId rule) const { return inline_[rule]; }
    /// Estimated number of states of an expression; saturates.
    uint32_t size(ExprId id) const;
    /// Whether a repetition is expanded into copies of its body; otherwise it is counted on the stack.
    bool expands(const Expr& repeat) const { return expands(repeat, size(repeat.index)); }

  private:
    explicit Analysis(const Program& program) : program_(&program) {}
    bool productive_expr(ExprId id) const;
    static bool expands(const Expr& repeat, uint64_t body_size);
    /// The least fixed point: adds rules to `known` until `holds` is true of the body of no other rule.
    void find_fixed_point(std::vector<bool>& known, bool (Analysis::*holds)(ExprId) const);
    void choose_inlined();
    bool calls_only_inlined(ExprId id) const;
    Result<void> check_left_recursion() const;
    void first_rules(ExprId id, std::vector<RuleId>& out) const;

    const Program* program_;
    std::vector<bool> productive_, nullable_, inline_;
};

}  // namespace tessera::grammar
