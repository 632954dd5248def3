#pragma once
// Conditions on values: sets of schemas, some of them negated, split by kind of value. Internal to
// src/grammar.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "src/grammar/schema.h"

namespace tessera::grammar {

struct Literal {
    SchemaId id = 1;  ///< 0 is the schema false, 1 is true
    bool negated = false;
    auto operator<=>(const Literal&) const = default;
};

/// A conjunction of literals. Sorted, without duplicates; see Goals::normalize.
using Goal = std::vector<Literal>;

enum class Domain : uint8_t { Null, False, True, Number, String, Array, Object };

/// `properties`, `patternProperties` and `additionalProperties` of one schema; `rest` applies to names that
/// the first two do not match.
struct PropertyLayer {
    std::vector<std::pair<std::string, Literal>> named;
    std::unordered_map<std::string, Literal> index;  // of named
    std::vector<std::pair<std::string, Literal>> patterns;
    Literal rest;
    bool ordered = true;
};

struct ItemLayer {
    std::vector<Literal> prefix;
    Literal rest;
};

/// One alternative for an array or an object: a conjunction of the conditions in it.
struct Branch {
    std::vector<std::shared_ptr<const PropertyLayer>> properties;
    std::set<std::string> required, forbidden;
    std::vector<Literal> names;

    std::vector<std::shared_ptr<const ItemLayer>> items;
    struct Contains {
        Literal what;
        uint32_t min, max;
    };
    std::vector<Contains> contains;
    bool unique = false;

    uint32_t min = 0, max = kUnbounded;  ///< members or items

    // Members and items that `unevaluated...` does not apply to.
    std::set<std::string> seen_names;
    std::vector<std::string> seen_patterns;
    std::vector<SchemaId> seen_contained;
    size_t seen_prefix = 0;
    bool seen_all = false;
};

/// Every result describes only values that satisfy the goal. A branch that no grammar can express (two
/// unlisted keys that must differ, for example) is omitted and reported by omitted(). So no invalid value is
/// accepted, even under `not`.
class Goals {
  public:
    explicit Goals(SchemaSet& schemas) : schemas_(schemas) {}

    SchemaSet& schemas() { return schemas_; }

    /// Sorts the goal and removes literals that are always true; a contradiction becomes the schema false
    /// alone.
    static Goal normalize(Goal goal);
    static bool is_false(const Goal& goal) { return goal == Goal{{0, false}}; }

    /// The conditions on scalars; a constant for Null, False and True. Errors: circular references.
    Result<FormulaId> formula(const Goal& goal, Domain domain);
    /// The alternatives for Array or Object. Errors: circular references, and too many combinations.
    Result<std::vector<Branch>> branches(const Goal& goal, Domain domain);

    /// The conditions on a member of that name.
    Result<Goal> member_goal(const Branch& branch, const std::string& name);
    static Goal item_goal(const Branch& branch, size_t index);
    /// Whether a member may have this name.
    Result<bool> name_allowed(const Branch& branch, const std::string& name);

    /// The first omitted branch, as 'at "/pointer": why'; empty if none was.
    const std::string& omitted() const { return omitted_; }
    void omit(SchemaId id, const char* keyword, const std::string& why);

    /// "/a/b" and "/c/d".
    std::string places(const Goal& goal) const;

  private:
    using Branches = std::vector<Branch>;
    using Key = std::tuple<SchemaId, Domain, bool>;

    Result<FormulaId> formula_of(SchemaId id, Domain domain);
    Result<FormulaId> compute_formula(SchemaId id, Domain domain);
    FormulaId type_formula(const Schema& s, Domain domain);
    FormulaId value_formula(const std::vector<const JsonValue*>& values, Domain domain);
    Result<void> string_formula(const Schema& s, std::vector<FormulaId>& all);
    Result<void> number_formula(const Schema& s, std::vector<FormulaId>& all);

    Result<Branches> expand(Literal literal, Domain domain, bool track);
    Result<Branches> expand_positive(SchemaId id, Domain domain, bool track);
    Result<Branches> expand_negative(SchemaId id, Domain domain);
    Result<void> add_applicators(SchemaId id, Domain domain, bool track, Branches& out);
    Result<void> add_conditions(SchemaId id, Domain domain, bool track, Branches& out);
    Result<Branches> expand_any_of(SchemaId id, Domain domain, bool track);
    Result<Branches> expand_one_of(SchemaId id, Domain domain, bool track);
    Result<void> negate_applicators(SchemaId id, Domain domain, Branches& out);
    void negate_array(SchemaId id, Branches& out);
    void negate_object(SchemaId id, Branches& out);
    Result<void> negate_values(SchemaId id, Domain domain, Branches& out);
    Branches value_branches(const std::vector<const JsonValue*>& values, Domain domain);
    Branch own_branch(const Schema& s, Domain domain);
    void apply_unevaluated(SchemaId id, Domain domain, Branches& out);
    Result<Branches> product(const Branches& a, const Branches& b, SchemaId id, Domain domain);
    Result<void> multiply(Branches& out, Result<Branches> more, SchemaId id, Domain domain);
    bool is_dead(const Branch& branch, Domain domain, int depth);
    bool is_empty(const Goal& goal, int depth);
    bool is_empty_scalar(const Goal& goal, Domain domain);

    SchemaSet& schemas_;
    std::map<std::pair<SchemaId, Domain>, FormulaId> formulas_;
    std::set<Key> active_;
    std::string omitted_;
};

}  // namespace tessera::grammar
