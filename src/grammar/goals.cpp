// Converts schemas to formulas (for scalars, exact in every combination) and to branches (for arrays and
// objects: a disjunction of conjunctions). Negation is pushed down to the keywords. No result is ever
// complemented, so that omitting a branch can only forbid more. Next: goals_negated.cpp (negation),
// json_schema.cpp (branches to expressions).
#include "src/grammar/goals.h"

#include <algorithm>

#include "common/strings.h"
#include "src/grammar/formats.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxBranches = 512;
constexpr size_t kMaxFormulas = 2'000'000;
constexpr size_t kMaxSubsets =
    6;  // alternatives of an anyOf whose subsets are enumerated for `unevaluated...`

uint8_t type_bits(Domain domain) {
    switch (domain) {
        case Domain::Null:
            return kNullBit;
        case Domain::False:
        case Domain::True:
            return kBooleanBit;
        case Domain::Number:
            return kNumberBit | kIntegerBit;
        case Domain::String:
            return kStringBit;
        case Domain::Array:
            return kArrayBit;
        case Domain::Object:
            return kObjectBit;
    }
    return 0;
}

bool in_domain(const JsonValue& value, Domain domain) {
    switch (domain) {
        case Domain::Null:
            return value.is(JsonValue::Kind::Null);
        case Domain::False:
            return value.is(JsonValue::Kind::Boolean) && !value.boolean;
        case Domain::True:
            return value.is(JsonValue::Kind::Boolean) && value.boolean;
        case Domain::Number:
            return value.is(JsonValue::Kind::Number);
        case Domain::String:
            return value.is(JsonValue::Kind::String);
        case Domain::Array:
            return value.is(JsonValue::Kind::Array);
        case Domain::Object:
            return value.is(JsonValue::Kind::Object);
    }
    return false;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

Branch merge(const Branch& a, const Branch& b) {
    Branch both = a;
    append(both.properties, b.properties);
    both.required.insert(b.required.begin(), b.required.end());
    both.forbidden.insert(b.forbidden.begin(), b.forbidden.end());
    append(both.names, b.names);
    append(both.items, b.items);
    append(both.contains, b.contains);
    both.unique |= b.unique;
    both.min = std::max(a.min, b.min);
    both.max = std::min(a.max, b.max);
    both.seen_names.insert(b.seen_names.begin(), b.seen_names.end());
    append(both.seen_patterns, b.seen_patterns);
    append(both.seen_contained, b.seen_contained);
    both.seen_prefix = std::max(a.seen_prefix, b.seen_prefix);
    both.seen_all |= b.seen_all;
    return both;
}

/// Marks a schema as being expanded; meeting it again during its expansion is a circular reference.
template <class Set>
class Visit {
  public:
    Visit(Set& active, typename Set::value_type key) : active_(active), key_(key) {
        fresh_ = active.insert(key).second;
    }
    ~Visit() {
        if (fresh_) active_.erase(key_);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    bool fresh() const { return fresh_; }

  private:
    Set& active_;
    typename Set::value_type key_;
    bool fresh_;
};

tl::unexpected<Error> circle(const Schema& s) {
    return fail(ErrorCode::Malformed, "at \"%s\": this schema refers to itself for the same value",
                printable(s.pointer, 200).c_str());
}

}  // namespace

Goal Goals::normalize(Goal goal) {
    std::sort(goal.begin(), goal.end());
    goal.erase(std::unique(goal.begin(), goal.end()), goal.end());
    bool never = false;
    for (size_t i = 0; i < goal.size(); i++) {
        never |= goal[i].id <= 1 && (goal[i].id == 0) != goal[i].negated;
        never |= i > 0 && goal[i].id == goal[i - 1].id;
    }
    if (never) return {{0, false}};
    std::erase_if(goal, [](const Literal& literal) { return literal.id <= 1; });
    return goal;
}

std::string Goals::places(const Goal& goal) const {
    std::string text;
    for (const Literal& literal : goal) {
        if (text.size() > 300) return text + " ...";
        const std::string quoted = "\"" + printable(schemas_[literal.id].pointer, 120) + "\"";
        if (text.find(quoted) == text.npos) text += (text.empty() ? "" : " and ") + quoted;
    }
    return text.empty() ? "\"\"" : text;
}

void Goals::omit(SchemaId id, const char* keyword, const std::string& why) {
    if (!omitted_.empty()) return;
    omitted_ = strf("at \"%s/%s\": %s", printable(schemas_[id].pointer, 200).c_str(), keyword, why.c_str());
}

FormulaId Goals::type_formula(const Schema& s, Domain domain) {
    if (domain == Domain::Number && !(s.types & kNumberBit) && (s.types & kIntegerBit))
        return schemas_.numbers.integer();
    return schemas_.formulas.constant((s.types & type_bits(domain)) != 0);
}

FormulaId Goals::value_formula(const std::vector<const JsonValue*>& values, Domain domain) {
    std::vector<FormulaId> numbers;
    std::vector<std::string> texts;
    bool any = false;
    for (const JsonValue* value : values) {
        if (!in_domain(*value, domain)) continue;
        any = true;
        if (domain == Domain::String) texts.push_back(value->text);
        if (domain == Domain::Number)
            if (const auto number = Decimal::parse(value->text))
                numbers.push_back(schemas_.numbers.equal(*number));
    }
    if (domain == Domain::String) return schemas_.strings.one_of(std::move(texts));
    if (domain == Domain::Number) return schemas_.formulas.any(std::move(numbers));
    return schemas_.formulas.constant(any);
}

Result<void> Goals::string_formula(const Schema& s, std::vector<FormulaId>& all) {
    StringLanguage& strings = schemas_.strings;
    all.push_back(strings.at_least(s.min_length));
    if (s.max_length != kUnbounded)
        all.push_back(schemas_.formulas.negate(strings.at_least(s.max_length + 1)));
    if (s.pattern) {
        TSR_TRY(const FormulaId f, strings.pattern(*s.pattern));
        all.push_back(f);
    }
    if (s.format) {
        TSR_TRY(const FormulaId f, strings.pattern(format_pattern(*s.format)));
        all.push_back(f);
        if (const uint32_t max = find_format(*s.format)->max_length)
            all.push_back(schemas_.formulas.negate(strings.at_least(max + 1)));
    }
    return {};
}

Result<void> Goals::number_formula(const Schema& s, std::vector<FormulaId>& all) {
    NumberLanguage& numbers = schemas_.numbers;
    Formulas& f = schemas_.formulas;
    if (s.minimum) all.push_back(numbers.at_least(*s.minimum));
    if (s.exclusive_minimum) all.push_back(numbers.above(*s.exclusive_minimum));
    if (s.maximum) all.push_back(f.negate(numbers.above(*s.maximum)));
    if (s.exclusive_maximum) all.push_back(f.negate(numbers.at_least(*s.exclusive_maximum)));
    if (s.multiple_of) {
        TSR_TRY(const FormulaId step, numbers.multiple_of(*s.multiple_of));
        all.push_back(step);
    }
    return {};
}

Result<FormulaId> Goals::compute_formula(SchemaId id, Domain domain) {
    const Schema& s = schemas_[id];
    Formulas& f = schemas_.formulas;
    std::vector<FormulaId> all = {type_formula(s, domain)};
    if (all[0] == Formulas::kFalse) return all[0];
    for (const auto& values : s.values) all.push_back(value_formula(values, domain));
    if (domain == Domain::String) TSR_TRY_VOID(string_formula(s, all));
    if (domain == Domain::Number) TSR_TRY_VOID(number_formula(s, all));
    const auto each = [&](const std::vector<SchemaId>& ids) -> Result<std::vector<FormulaId>> {
        std::vector<FormulaId> result;
        for (const SchemaId inner : ids) {
            TSR_TRY(const FormulaId formula, formula_of(inner, domain));
            result.push_back(formula);
        }
        return result;
    };
    TSR_TRY(const auto parts, each(s.all_of));
    all.insert(all.end(), parts.begin(), parts.end());
    if (!s.any_of.empty()) {
        TSR_TRY(auto ways, each(s.any_of));
        all.push_back(f.any(std::move(ways)));
    }
    if (!s.one_of.empty()) {
        TSR_TRY(auto ways, each(s.one_of));
        std::erase(ways, Formulas::kFalse);
        all.push_back(f.exactly_one(ways));
    }
    if (s.negated != kNoSchema) {
        TSR_TRY(const FormulaId inner, formula_of(s.negated, domain));
        all.push_back(f.negate(inner));
    }
    if (s.condition != kNoSchema) {
        TSR_TRY(const FormulaId condition, formula_of(s.condition, domain));
        TSR_TRY(const FormulaId yes, formula_of(s.then_branch == kNoSchema ? 1 : s.then_branch, domain));
        TSR_TRY(const FormulaId no, formula_of(s.else_branch == kNoSchema ? 1 : s.else_branch, domain));
        all.push_back(f.any({f.all({condition, yes}), f.all({f.negate(condition), no})}));
    }
    if (s.reference != kNoSchema) {
        TSR_TRY(const FormulaId target, formula_of(s.reference, domain));
        all.push_back(target);
    }
    return f.all(std::move(all));
}

Result<FormulaId> Goals::formula_of(SchemaId id, Domain domain) {
    if (schemas_[id].boolean) return schemas_.formulas.constant(*schemas_[id].boolean);
    if (const auto known = formulas_.find({id, domain}); known != formulas_.end()) return known->second;
    const Visit visit(active_, Key(id, domain, false));
    if (!visit.fresh()) return circle(schemas_[id]);
    if (schemas_.formulas.size() > kMaxFormulas)
        return fail(ErrorCode::Unsupported, "at \"%s\": the schema combines too many alternatives",
                    printable(schemas_[id].pointer, 200).c_str());
    TSR_TRY(const FormulaId f, compute_formula(id, domain));
    return formulas_[{id, domain}] = f;
}

Result<FormulaId> Goals::formula(const Goal& goal, Domain domain) {
    std::vector<FormulaId> all;
    for (const Literal& literal : goal) {
        TSR_TRY(const FormulaId f, formula_of(literal.id, domain));
        all.push_back(literal.negated ? schemas_.formulas.negate(f) : f);
    }
    return schemas_.formulas.all(std::move(all));
}

// Branches.

Result<Goals::Branches> Goals::product(const Branches& a, const Branches& b, SchemaId id, Domain domain) {
    Branches out;
    const bool prune = a.size() > 1 || b.size() > 1;
    for (const Branch& left : a) {
        for (const Branch& right : b) {
            Branch both = merge(left, right);
            if (prune && is_dead(both, domain, 2)) continue;
            out.push_back(std::move(both));
            if (out.size() > kMaxBranches)
                return fail(
                    ErrorCode::Unsupported,
                    "at \"%s\": its alternatives combine in more than %zu ways; distinguish them by a "
                    "required property with different constants",
                    printable(schemas_[id].pointer, 200).c_str(), kMaxBranches);
        }
    }
    return out;
}

Result<void> Goals::multiply(Branches& out, Result<Branches> more, SchemaId id, Domain domain) {
    if (!more) return tl::unexpected<Error>(std::move(more.error()));
    TSR_TRY(out, product(out, *more, id, domain));
    return {};
}

Result<Goals::Branches> Goals::expand(Literal literal, Domain domain, bool track) {
    const Schema& s = schemas_[literal.id];
    if (s.boolean) return *s.boolean != literal.negated ? Branches(1) : Branches();
    const Visit visit(active_, Key(literal.id, domain, literal.negated));
    if (!visit.fresh()) return circle(s);
    return literal.negated ? expand_negative(literal.id, domain) : expand_positive(literal.id, domain, track);
}

Result<Goals::Branches> Goals::branches(const Goal& goal, Domain domain) {
    Branches out(1);
    for (const Literal& literal : goal)
        TSR_TRY_VOID(multiply(out, expand(literal, domain, false), literal.id, domain));
    return out;
}

Branch Goals::own_branch(const Schema& s, Domain domain) {
    Branch own;
    const auto literal = [](SchemaId id) { return Literal{id == kNoSchema ? 1 : id}; };
    if (domain == Domain::Array) {
        own.min = s.min_items;
        own.max = s.max_items;
        own.unique = s.unique_items;
        if (!s.prefix_items.empty() || s.items != kNoSchema) {
            auto layer = std::make_shared<ItemLayer>();
            for (const SchemaId item : s.prefix_items) layer->prefix.push_back({item});
            layer->rest = literal(s.items);
            own.items.push_back(std::move(layer));
        }
        if (s.contains != kNoSchema) {
            own.contains.push_back({{s.contains}, s.min_contains, s.max_contains});
            own.seen_contained.push_back(s.contains);
        }
        own.seen_prefix = s.prefix_items.size();
        own.seen_all = s.items != kNoSchema;
        return own;
    }
    own.min = s.min_properties;
    own.max = s.max_properties;
    own.required.insert(s.required.begin(), s.required.end());
    if (s.property_names != kNoSchema) own.names.push_back({s.property_names});
    if (!s.properties.empty() || !s.pattern_properties.empty() || s.additional_properties != kNoSchema) {
        auto layer = std::make_shared<PropertyLayer>();
        for (const auto& [name, inner] : s.properties) {
            layer->named.emplace_back(name, Literal{inner});
            layer->index[name] = {inner};
            own.seen_names.insert(name);
        }
        for (const auto& [regex, inner] : s.pattern_properties) {
            layer->patterns.emplace_back(regex, Literal{inner});
            own.seen_patterns.push_back(regex);
        }
        layer->rest = literal(s.additional_properties);
        layer->ordered = s.ordered;
        own.properties.push_back(std::move(layer));
    }
    own.seen_all = s.additional_properties != kNoSchema;
    return own;
}

/// An array or object that equals one of the values.
Goals::Branches Goals::value_branches(const std::vector<const JsonValue*>& values, Domain domain) {
    Branches out;
    for (const JsonValue* value : values) {
        if (!in_domain(*value, domain)) continue;
        Branch branch;
        if (domain == Domain::Array) {
            auto layer = std::make_shared<ItemLayer>();
            for (const JsonValue& item : value->items) layer->prefix.push_back({schemas_.constant(&item)});
            layer->rest = {0};
            branch.items.push_back(std::move(layer));
            branch.min = branch.max = static_cast<uint32_t>(value->items.size());
        } else {
            auto layer = std::make_shared<PropertyLayer>();
            for (const auto& [name, member] : value->members) {
                const Literal constant = {schemas_.constant(&member)};
                layer->named.emplace_back(name, constant);
                layer->index[name] = constant;
                branch.required.insert(name);
            }
            layer->rest = {0};
            layer->ordered = false;
            branch.properties.push_back(std::move(layer));
        }
        out.push_back(std::move(branch));
    }
    return out;
}

Result<Goals::Branches> Goals::expand_positive(SchemaId id, Domain domain, bool track) {
    const Schema& s = schemas_[id];
    if (!(s.types & type_bits(domain))) return Branches();
    track |= s.has_unevaluated();
    Branches out = {own_branch(s, domain)};
    for (const auto& values : s.values)
        TSR_TRY_VOID(multiply(out, value_branches(values, domain), id, domain));
    if (s.reference != kNoSchema)
        TSR_TRY_VOID(multiply(out, expand({s.reference}, domain, track), id, domain));
    TSR_TRY_VOID(add_applicators(id, domain, track, out));
    if (domain == Domain::Object) TSR_TRY_VOID(add_conditions(id, domain, track, out));
    apply_unevaluated(id, domain, out);
    return out;
}

Result<Goals::Branches> Goals::expand_any_of(SchemaId id, Domain domain, bool track) {
    const Schema& s = schemas_[id];
    Branches out;
    const size_t n = s.any_of.size();
    // Each alternative that holds evaluates its part of the value, so that all subsets of them must be
    // considered.
    if (track && n <= kMaxSubsets) {
        for (size_t subset = 1; subset < size_t{1} << n; subset++) {
            Branches way(1);
            for (size_t i = 0; i < n; i++)
                if (subset >> i & 1)
                    TSR_TRY_VOID(multiply(way, expand({s.any_of[i]}, domain, track), id, domain));
            append(out, way);
        }
        return out;
    }
    for (const SchemaId inner : s.any_of) {
        TSR_TRY(const Branches way, expand({inner}, domain, track));
        append(out, way);
    }
    return out;
}

Result<Goals::Branches> Goals::expand_one_of(SchemaId id, Domain domain, bool track) {
    const Schema& s = schemas_[id];
    std::vector<std::pair<SchemaId, Branches>> ways;
    for (const SchemaId inner : s.one_of) {
        TSR_TRY(Branches way, expand({inner}, domain, track));
        if (!way.empty()) ways.emplace_back(inner, std::move(way));
    }
    Branches out;
    for (size_t i = 0; i < ways.size(); i++) {
        Branches way = ways[i].second;
        for (size_t j = 0; j < ways.size(); j++) {
            if (j == i) continue;
            // Alternatives that are mutually exclusive, by a constant for example, need no negation.
            const bool overlap = std::any_of(way.begin(), way.end(), [&](const Branch& a) {
                return std::any_of(ways[j].second.begin(), ways[j].second.end(),
                                   [&](const Branch& b) { return !is_dead(merge(a, b), domain, 3); });
            });
            if (overlap)
                TSR_TRY_VOID(multiply(way, expand({ways[j].first, true}, domain, false), id, domain));
        }
        append(out, way);
    }
    return out;
}

Result<void> Goals::add_applicators(SchemaId id, Domain domain, bool track, Branches& out) {
    const Schema& s = schemas_[id];
    for (const SchemaId inner : s.all_of)
        TSR_TRY_VOID(multiply(out, expand({inner}, domain, track), id, domain));
    if (!s.any_of.empty()) TSR_TRY_VOID(multiply(out, expand_any_of(id, domain, track), id, domain));
    if (!s.one_of.empty()) TSR_TRY_VOID(multiply(out, expand_one_of(id, domain, track), id, domain));
    if (s.negated != kNoSchema)
        TSR_TRY_VOID(multiply(out, expand({s.negated, true}, domain, false), id, domain));
    const bool has_effect = s.then_branch != kNoSchema || s.else_branch != kNoSchema || track;
    if (s.condition == kNoSchema || !has_effect) return {};
    TSR_TRY(Branches yes, expand({s.condition}, domain, track));
    if (s.then_branch != kNoSchema)
        TSR_TRY_VOID(multiply(yes, expand({s.then_branch}, domain, track), id, domain));
    TSR_TRY(Branches no, expand({s.condition, true}, domain, false));
    if (s.else_branch != kNoSchema)
        TSR_TRY_VOID(multiply(no, expand({s.else_branch}, domain, track), id, domain));
    append(yes, no);
    return multiply(out, std::move(yes), id, domain);
}

/// Keywords that apply only if a property is present.
Result<void> Goals::add_conditions(SchemaId id, Domain domain, bool track, Branches& out) {
    const Schema& s = schemas_[id];
    for (const auto& [name, needed] : s.dependent_required) {
        Branch absent, present;
        absent.forbidden.insert(name);
        present.required.insert(name);
        present.required.insert(needed.begin(), needed.end());
        TSR_TRY_VOID(multiply(out, Branches{present, absent}, id, domain));
    }
    for (const auto& [name, inner] : s.dependent_schemas) {
        Branch absent, present;
        absent.forbidden.insert(name);
        present.required.insert(name);
        Branches ways = {present};
        TSR_TRY_VOID(multiply(ways, expand({inner}, domain, track), id, domain));
        ways.push_back(absent);
        TSR_TRY_VOID(multiply(out, std::move(ways), id, domain));
    }
    return {};
}

void Goals::apply_unevaluated(SchemaId id, Domain domain, Branches& out) {
    const SchemaId rest =
        domain == Domain::Array ? schemas_[id].unevaluated_items : schemas_[id].unevaluated_properties;
    if (rest == kNoSchema) return;
    for (Branch& branch : out) {
        if (branch.seen_all) continue;
        branch.seen_all = true;
        if (domain == Domain::Array) {
            auto layer = std::make_shared<ItemLayer>();
            layer->prefix.resize(branch.seen_prefix);
            layer->rest = {rest};
            if (!branch.seen_contained.empty()) {
                std::vector<SchemaId> ways = branch.seen_contained;
                ways.push_back(rest);
                layer->rest = {schemas_.any_of(std::move(ways), schemas_[id].pointer)};
            }
            branch.items.push_back(std::move(layer));
            continue;
        }
        auto layer = std::make_shared<PropertyLayer>();
        layer->ordered = false;
        for (const std::string& name : branch.seen_names) {
            layer->named.emplace_back(name, Literal());
            layer->index[name] = {};
        }
        for (const std::string& regex : branch.seen_patterns) layer->patterns.emplace_back(regex, Literal());
        layer->rest = {rest};
        branch.properties.push_back(std::move(layer));
    }
}

Result<Goal> Goals::member_goal(const Branch& branch, const std::string& name) {
    Goal goal;
    for (const auto& layer : branch.properties) {
        const auto named = layer->index.find(name);
        bool matched = named != layer->index.end();
        if (matched) goal.push_back(named->second);
        for (const auto& [regex, literal] : layer->patterns) {
            TSR_TRY(const FormulaId pattern, schemas_.strings.pattern(regex));
            if (!schemas_.strings.holds(pattern, name)) continue;
            goal.push_back(literal);
            matched = true;
        }
        if (!matched) goal.push_back(layer->rest);
    }
    return normalize(std::move(goal));
}

Goal Goals::item_goal(const Branch& branch, size_t index) {
    Goal goal;
    for (const auto& layer : branch.items)
        goal.push_back(index < layer->prefix.size() ? layer->prefix[index] : layer->rest);
    return normalize(std::move(goal));
}

Result<bool> Goals::name_allowed(const Branch& branch, const std::string& name) {
    if (branch.forbidden.count(name)) return false;
    TSR_TRY(const FormulaId f, formula(branch.names, Domain::String));
    return schemas_.strings.holds(f, name);
}

bool Goals::is_empty_scalar(const Goal& goal, Domain domain) {
    const auto f = formula(goal, domain);
    if (!f) return false;
    if (*f == Formulas::kFalse) return true;
    if (domain == Domain::String) {
        const auto texts = schemas_.strings.enumerate(*f);
        return texts && texts->empty();
    }
    if (domain == Domain::Number) {
        const auto texts = schemas_.numbers.enumerate(*f);
        return texts && texts->empty();
    }
    return false;
}

/// Whether the goal is known to be unsatisfiable, from `depth` levels of objects and arrays.
bool Goals::is_empty(const Goal& goal, int depth) {
    if (is_false(goal)) return true;
    if (goal.empty() || depth == 0) return false;
    for (const Domain domain : {Domain::Null, Domain::False, Domain::True, Domain::Number, Domain::String})
        if (!is_empty_scalar(goal, domain)) return false;
    for (const Domain domain : {Domain::Array, Domain::Object}) {
        const auto ways = branches(goal, domain);
        if (!ways) return false;
        for (const Branch& way : *ways)
            if (!is_dead(way, domain, depth - 1)) return false;
    }
    return true;
}

bool Goals::is_dead(const Branch& branch, Domain domain, int depth) {
    if (branch.min > branch.max) return true;
    if (depth == 0) return false;
    if (domain == Domain::Array) {
        for (size_t i = 0; i < std::min<uint32_t>(branch.min, 16); i++)
            if (is_empty(item_goal(branch, i), depth)) return true;
        return false;
    }
    for (const std::string& name : branch.required) {
        const auto allowed = name_allowed(branch, name);
        if (allowed && !*allowed) return true;
        const auto goal = member_goal(branch, name);
        if (goal && is_empty(*goal, depth - 1)) return true;
    }
    return false;
}

}  // namespace tessera::grammar
