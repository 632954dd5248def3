// Negation for arrays and objects: one branch for each way to violate a keyword. Violations that no branch
// can express are omitted and reported (Goals::omit). Next: goals.cpp.
#include <algorithm>

#include "src/grammar/goals.h"

namespace tessera::grammar {

namespace {

std::shared_ptr<const PropertyLayer> one_property(const std::string& name, Literal literal) {
    auto layer = std::make_shared<PropertyLayer>();
    layer->named.emplace_back(name, literal);
    layer->index[name] = literal;
    return layer;
}

std::shared_ptr<const ItemLayer> one_item(size_t index, Literal literal) {
    auto layer = std::make_shared<ItemLayer>();
    layer->prefix.resize(index + 1);
    layer->prefix[index] = literal;
    return layer;
}

Branch with_length(uint32_t min, uint32_t max) {
    Branch branch;
    branch.min = min;
    branch.max = max;
    return branch;
}

/// Branches for fewer than `min` or more than `max`.
void outside_length(uint32_t min, uint32_t max, std::vector<Branch>& out) {
    if (min > 0) out.push_back(with_length(0, min - 1));
    if (max != kUnbounded) out.push_back(with_length(max + 1, kUnbounded));
}

Branch with_member(const std::string& name, Literal literal) {
    Branch branch;
    branch.required.insert(name);
    branch.properties.push_back(one_property(name, literal));
    return branch;
}

Branch without_member(const std::string& name) {
    Branch branch;
    branch.forbidden.insert(name);
    return branch;
}

}  // namespace

void Goals::negate_array(SchemaId id, Branches& out) {
    const Schema& s = schemas_[id];
    outside_length(s.min_items, s.max_items, out);
    for (size_t i = 0; i < s.prefix_items.size(); i++) {
        Branch branch = with_length(static_cast<uint32_t>(i) + 1, kUnbounded);
        branch.items.push_back(one_item(i, {s.prefix_items[i], true}));
        out.push_back(std::move(branch));
    }
    if (s.items == 0) {
        out.push_back(with_length(static_cast<uint32_t>(s.prefix_items.size()) + 1, kUnbounded));
    } else if (s.items != kNoSchema && s.prefix_items.empty()) {
        Branch branch;
        branch.contains.push_back({{s.items, true}, 1, kUnbounded});
        out.push_back(std::move(branch));
    } else if (s.items != kNoSchema) {
        omit(id, "items", "its negation behind prefixItems cannot be enforced");
    }
    if (s.contains != kNoSchema) {
        for (const bool fewer : {true, false}) {
            if (fewer ? s.min_contains == 0 : s.max_contains == kUnbounded) continue;
            Branch branch;
            branch.contains.push_back(
                {{s.contains}, fewer ? 0 : s.max_contains + 1, fewer ? s.min_contains - 1 : kUnbounded});
            out.push_back(std::move(branch));
        }
    }
    if (s.unique_items) omit(id, "uniqueItems", "its negation cannot be enforced");
    if (s.unevaluated_items != kNoSchema) omit(id, "unevaluatedItems", "its negation cannot be enforced");
}

void Goals::negate_object(SchemaId id, Branches& out) {
    const Schema& s = schemas_[id];
    outside_length(s.min_properties, s.max_properties, out);
    for (const auto& [name, inner] : s.properties) out.push_back(with_member(name, {inner, true}));
    for (const std::string& name : s.required) out.push_back(without_member(name));
    for (const auto& [name, needed] : s.dependent_required) {
        for (const std::string& other : needed) {
            Branch branch = without_member(other);
            branch.required.insert(name);
            out.push_back(std::move(branch));
        }
    }
    if (!s.pattern_properties.empty()) omit(id, "patternProperties", "its negation cannot be enforced");
    if (s.additional_properties != kNoSchema)
        omit(id, "additionalProperties", "its negation cannot be enforced");
    if (s.property_names != kNoSchema) omit(id, "propertyNames", "its negation cannot be enforced");
    if (s.unevaluated_properties != kNoSchema)
        omit(id, "unevaluatedProperties", "its negation cannot be enforced");
}

/// Branches for arrays or objects that equal none of the values.
Result<void> Goals::negate_values(SchemaId id, Domain domain, Branches& out) {
    for (const auto& values : schemas_[id].values) {
        Branches differ(1);
        for (const JsonValue* value : values) {
            Branches ways;
            if (domain == Domain::Array && value->is(JsonValue::Kind::Array)) {
                const auto n = static_cast<uint32_t>(value->items.size());
                outside_length(n, n, ways);
                for (size_t i = 0; i < n; i++) {
                    Branch branch = with_length(n, n);
                    branch.items.push_back(one_item(i, {schemas_.constant(&value->items[i]), true}));
                    ways.push_back(std::move(branch));
                }
            } else if (domain == Domain::Object && value->is(JsonValue::Kind::Object)) {
                const auto n = static_cast<uint32_t>(value->members.size());
                outside_length(n, n, ways);
                for (const auto& [name, member] : value->members) {
                    ways.push_back(without_member(name));
                    ways.push_back(with_member(name, {schemas_.constant(&member), true}));
                }
            } else {
                continue;
            }
            TSR_TRY_VOID(multiply(differ, std::move(ways), id, domain));
        }
        out.insert(out.end(), differ.begin(), differ.end());
    }
    return {};
}

Result<void> Goals::negate_applicators(SchemaId id, Domain domain, Branches& out) {
    const Schema& s = schemas_[id];
    const auto add = [&](Literal literal) -> Result<void> {
        TSR_TRY(const Branches ways, expand(literal, domain, false));
        out.insert(out.end(), ways.begin(), ways.end());
        return {};
    };
    const auto add_all = [&](const std::vector<Literal>& literals) -> Result<void> {
        Branches ways(1);
        for (const Literal& literal : literals)
            TSR_TRY_VOID(multiply(ways, expand(literal, domain, false), id, domain));
        out.insert(out.end(), ways.begin(), ways.end());
        return {};
    };
    const auto none_of = [](const std::vector<SchemaId>& ids) {
        std::vector<Literal> literals;
        for (const SchemaId inner : ids) literals.push_back({inner, true});
        return literals;
    };
    if (s.reference != kNoSchema) TSR_TRY_VOID(add({s.reference, true}));
    for (const SchemaId inner : s.all_of) TSR_TRY_VOID(add({inner, true}));
    if (!s.any_of.empty()) TSR_TRY_VOID(add_all(none_of(s.any_of)));
    if (!s.one_of.empty()) {
        TSR_TRY_VOID(add_all(none_of(s.one_of)));
        for (size_t i = 0; i < s.one_of.size(); i++)
            for (size_t j = 0; j < i; j++) TSR_TRY_VOID(add_all({{s.one_of[i]}, {s.one_of[j]}}));
    }
    if (s.negated != kNoSchema) TSR_TRY_VOID(add({s.negated}));
    if (s.condition != kNoSchema && s.then_branch != kNoSchema)
        TSR_TRY_VOID(add_all({{s.condition}, {s.then_branch, true}}));
    if (s.condition != kNoSchema && s.else_branch != kNoSchema)
        TSR_TRY_VOID(add_all({{s.condition, true}, {s.else_branch, true}}));
    if (domain != Domain::Object) return {};
    for (const auto& [name, inner] : s.dependent_schemas) {
        Branch present;
        present.required.insert(name);
        Branches ways = {std::move(present)};
        TSR_TRY_VOID(multiply(ways, expand({inner, true}, domain, false), id, domain));
        out.insert(out.end(), ways.begin(), ways.end());
    }
    return {};
}

Result<Goals::Branches> Goals::expand_negative(SchemaId id, Domain domain) {
    const uint8_t bit = domain == Domain::Array ? kArrayBit : kObjectBit;
    if (!(schemas_[id].types & bit)) return Branches(1);
    Branches out;
    TSR_TRY_VOID(negate_values(id, domain, out));
    if (domain == Domain::Array)
        negate_array(id, out);
    else
        negate_object(id, out);
    TSR_TRY_VOID(negate_applicators(id, domain, out));
    std::erase_if(out, [&](const Branch& branch) { return is_dead(branch, domain, 2); });
    for (Branch& branch : out) {  // nothing under "not" counts as evaluated
        branch.seen_names.clear();
        branch.seen_patterns.clear();
        branch.seen_contained.clear();
        branch.seen_prefix = 0;
        branch.seen_all = false;
    }
    return out;
}

}  // namespace tessera::grammar
