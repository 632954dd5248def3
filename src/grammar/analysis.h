#pragma once
// What has to be known about every rule before states can be made; internal to src/grammar.
#include <vector>

#include "common/expected.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// Refers to the program.
class Analysis {
  public:
    /// Fails for left recursion and for a root that no text completes.
    static Result<Analysis> create(const Program& program);

    /// Which rules match some text.
    static std::vector<bool> productive_rules(const Program& program);

    /// Matches nothing at all, so that it and what it is required for are left out.
    bool dead(ExprId id) const { return !productive_expr(id); }
    /// Matches the empty text.
    bool nullable(ExprId id) const;
    /// Rules small enough to be copied to where they are used, which keeps stacks shallow.
    bool inlined(RuleId rule) const { return inline_[rule]; }
    /// Estimate of the states that an expression becomes; saturates.
    uint32_t size(ExprId id) const;
    /// Whether a repetition becomes copies of its body; else it is counted on the stack.
    bool expands(const Expr& repeat) const { return expands(repeat, size(repeat.index)); }

  private:
    explicit Analysis(const Program& program) : program_(&program) {}
    bool productive_expr(ExprId id) const;
    static bool expands(const Expr& repeat, uint64_t body_size);
    /// The smallest set of rules for which `holds` is true of every member's body.
    void find_fixed_point(std::vector<bool>& known, bool (Analysis::*holds)(ExprId) const);
    void choose_inlined();
    bool calls_only_inlined(ExprId id) const;
    Result<void> check_left_recursion() const;
    void first_rules(ExprId id, std::vector<RuleId>& out) const;

    const Program* program_;
    std::vector<bool> productive_, nullable_, inline_;
};

}  // namespace tessera::grammar
