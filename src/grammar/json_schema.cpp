// Converts goals to expressions, with one rule per goal, so that recursive schemas become recursive rules.
// Objects become Members; arrays become repetitions or, with `contains`, a grid of rules that counts items
// and matches. Next: goals.cpp (the meaning of goals), compile.cpp (expressions to states).
#include "src/grammar/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>

#include "common/strings.h"
#include "src/grammar/analysis.h"
#include "src/grammar/free_text.h"
#include "src/grammar/goals.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxGoals = 50'000;
constexpr size_t kMaxKeys = 20'000;
constexpr size_t kMaxPatternKinds = 6;  // patterns of names, of which all subsets are enumerated
constexpr size_t kMaxPrefix = 1000;
constexpr size_t kMaxGrid = 4096;

class Emitter {
  public:
    Emitter(SchemaSet& schemas, const SchemaOptions& options, Program& program)
        : goals_(schemas), options_(options), program_(program) {}

    Result<ExprId> run();
    /// An object with its members in the notation.
    Result<ExprId> run_arguments(const ArgumentNotation& notation);

  private:
    struct Rule {
        RuleId id;
        std::string reason;               // the first condition that cannot be satisfied
        std::vector<const Goal*> needed;  // goals that the rule requires
    };

    ExprId rule_for(Goal goal);
    Result<void> emit(const Goal& goal, Rule& rule);
    void blame(const std::string& reason) {
        if (reason_.empty()) reason_ = reason;
    }
    Result<void> emit_scalars(const Goal& goal, std::vector<ExprId>& ways);
    Result<ExprId> emit_string(FormulaId string);
    void add_space();
    Result<void> work_off();

    bool has_bare_names() const { return notation_ && notation_->text == ArgumentNotation::Text::Marked; }
    /// Bytes that name a member; none is a prefix of another's.
    std::string key_literal(const std::string& name) const {
        return has_bare_names() ? name + ":" : quote_json(name);
    }
    Result<ExprId> emit_arguments(const Branch& branch);
    Result<void> check_name(const std::string& name);
    bool is_plain_text(const std::string& name);

    Result<ExprId> emit_object(const Branch& branch, const Goal& goal);
    Result<bool> add_keys(const Branch& branch, Members& members);
    void add_chains(const Branch& branch, Members& members);
    Result<void> add_open(const Branch& branch, Members& members);
    Result<std::vector<std::string>> key_names(const Branch& branch);

    Result<ExprId> emit_array(const Branch& branch, const Goal& goal);
    ExprId emit_items(const Branch& branch, size_t at);
    Result<ExprId> emit_unique(const Branch& branch, const Goal& goal);
    Result<std::optional<std::vector<std::string>>> enumerate(const Goal& goal);
    Result<ExprId> emit_grid(const Branch& branch, const Goal& goal);
    ExprId grid_step(const Branch& branch, const std::vector<uint32_t>& state, uint32_t last,
                     std::map<std::vector<uint32_t>, RuleId>& rules);

    tl::unexpected<Error> nothing_fits();
    ExprId comma() { return program_.seq({program_.bytes(","), space_}); }

    Goals goals_;
    const SchemaOptions& options_;
    Program& program_;
    ExprId space_ = 0, colon_ = 0;
    std::map<Goal, Rule> rules_;
    std::deque<const Goal*> work_;
    std::string reason_;
    std::vector<const Goal*>* needed_ = nullptr;
    const ArgumentNotation* notation_ = nullptr;  // null: JSON
};

ExprId Emitter::rule_for(Goal goal) {
    const auto [at, is_new] = rules_.try_emplace(std::move(goal));
    if (is_new) {
        at->second.id = program_.add_rule("value");
        work_.push_back(&at->first);
    }
    return program_.rule(at->second.id);
}

Result<void> Emitter::emit_scalars(const Goal& goal, std::vector<ExprId>& ways) {
    const bool is_python = notation_ && notation_->python_words;
    const std::pair<Domain, const char*> words[] = {{Domain::Null, is_python ? "None" : "null"},
                                                    {Domain::False, is_python ? "False" : "false"},
                                                    {Domain::True, is_python ? "True" : "true"}};
    for (const auto& [domain, word] : words) {
        TSR_TRY(const FormulaId f, goals_.formula(goal, domain));
        if (f == Formulas::kTrue) ways.push_back(program_.bytes(word));
    }
    TSR_TRY(const FormulaId number, goals_.formula(goal, Domain::Number));
    TSR_TRY(const ExprId numbers, goals_.schemas().numbers.emit(number, program_));
    if (number != Formulas::kFalse && numbers == program_.never())
        blame("no number satisfies its bounds, steps and values together");
    ways.push_back(numbers);
    TSR_TRY(const FormulaId string, goals_.formula(goal, Domain::String));
    TSR_TRY(const ExprId strings, emit_string(string));
    if (string != Formulas::kFalse && strings == program_.never())
        blame("no string satisfies its lengths, patterns and values together");
    ways.push_back(strings);
    return {};
}

Result<ExprId> Emitter::emit_string(FormulaId string) {
    StringLanguage& strings = goals_.schemas().strings;
    if (!notation_ || notation_->text != ArgumentNotation::Text::Marked)
        return strings.emit(string, program_);
    TSR_TRY(const ExprId text, strings.emit_plain(string, notation_->not_in_text, false, program_));
    const ExprId quote = add_mark(notation_->quote, program_);
    return program_.seq({quote, text, quote});
}

Result<void> Emitter::emit(const Goal& goal, Rule& rule) {
    reason_.clear();
    needed_ = &rule.needed;
    std::vector<ExprId> ways;
    if (!Goals::is_false(goal)) {
        const auto scalars = emit_scalars(goal, ways);
        if (!scalars)
            return fail(scalars.error().code, "%s%s",
                        scalars.error().message.rfind("at ", 0) == 0
                            ? ""
                            : ("at " + goals_.places(goal) + ": ").c_str(),
                        scalars.error().message.c_str());
        TSR_TRY(const auto arrays, goals_.branches(goal, Domain::Array));
        for (const Branch& branch : arrays) {
            TSR_TRY(const ExprId way, emit_array(branch, goal));
            ways.push_back(way);
        }
        TSR_TRY(const auto objects, goals_.branches(goal, Domain::Object));
        for (const Branch& branch : objects) {
            TSR_TRY(const ExprId way, emit_object(branch, goal));
            ways.push_back(way);
        }
    }
    blame(goal.size() > 1 ? "no value satisfies all of these" : "no value satisfies this schema");
    rule.reason = reason_;
    program_.set_body(rule.id, program_.alt(std::move(ways)));
    return {};
}

// Objects.

/// All distinguished names, those with an order first.
Result<std::vector<std::string>> Emitter::key_names(const Branch& branch) {
    std::vector<std::string> names;
    std::set<std::string_view> seen;
    const auto add = [&](const std::string& name) {
        if (seen.insert(name).second) names.push_back(name);
    };
    for (const auto& layer : branch.properties)
        for (const auto& [name, literal] : layer->named) add(name);
    for (const std::string& name : branch.required) add(name);
    for (const std::string& name : branch.forbidden) add(name);
    if (names.size() > kMaxKeys)
        return fail(ErrorCode::Unsupported, "an object has %zu named properties; at most %zu can be enforced",
                    names.size(), kMaxKeys);
    return names;
}

Result<bool> Emitter::add_keys(const Branch& branch, Members& members) {
    TSR_TRY(const auto names, key_names(branch));
    for (const std::string& name : names) {
        const bool required = branch.required.count(name) > 0;
        TSR_TRY(const bool allowed, goals_.name_allowed(branch, name));
        TSR_TRY(Goal goal, goals_.member_goal(branch, name));
        if (!allowed || Goals::is_false(goal)) {
            if (!required) continue;
            blame("\"" + printable(name) + "\" is required and cannot occur");
            return false;
        }
        const ExprId value = rule_for(goal);
        if (required) needed_->push_back(&rules_.find(goal)->first);
        if (has_bare_names()) TSR_TRY_VOID(check_name(name));
        members.keys.push_back(
            {key_literal(name), has_bare_names() ? value : program_.seq({colon_, value}), required});
    }
    std::sort(members.keys.begin(), members.keys.end(),
              [](const Members::Key& a, const Members::Key& b) { return a.literal < b.literal; });
    return true;
}

/// Whether an order satisfies all chains; sets `order` to one.
bool has_order(const std::vector<std::vector<uint32_t>>& chains, size_t n_keys,
               std::vector<uint32_t>& order) {
    std::vector<std::vector<uint32_t>> next(n_keys);
    std::vector<uint32_t> n_before(n_keys, 0);
    for (const auto& chain : chains) {
        for (size_t i = 0; i + 1 < chain.size(); i++) {
            next[chain[i]].push_back(chain[i + 1]);
            n_before[chain[i + 1]]++;
        }
    }
    order.clear();
    for (uint32_t key = 0; key < n_keys; key++)
        if (n_before[key] == 0) order.push_back(key);
    for (size_t i = 0; i < order.size(); i++)
        for (const uint32_t key : next[order[i]])
            if (--n_before[key] == 0) order.push_back(key);
    return order.size() == n_keys;
}

void Emitter::add_chains(const Branch& branch, Members& members) {
    std::map<std::string_view, uint32_t> index;
    for (uint32_t i = 0; i < members.keys.size(); i++) index[members.keys[i].literal] = i;
    std::vector<uint32_t> order;
    for (const auto& layer : branch.properties) {
        if (!layer->ordered) continue;
        std::vector<uint32_t> chain;
        for (const auto& [name, literal] : layer->named) {
            const std::string key = key_literal(name);
            const auto known = index.find(key);
            if (known != index.end()) chain.push_back(known->second);
        }
        if (chain.size() < 2 ||
            std::find(members.chains.begin(), members.chains.end(), chain) != members.chains.end())
            continue;
        members.chains.push_back(std::move(chain));
        if (!has_order(members.chains, members.keys.size(), order)) members.chains.pop_back();
    }
    // minProperties needs the exact number of members that may still come, which a total order gives.
    if (members.min > 0 && members.chains.size() > 1) {
        has_order(members.chains, members.keys.size(), order);
        members.chains = {order};
    }
}

/// Unlisted names, by the set of patterns that they match.
Result<void> Emitter::add_open(const Branch& branch, Members& members) {
    if (has_bare_names()) return {};  // unquoted names must be listed
    StringLanguage& strings = goals_.schemas().strings;
    Formulas& formulas = goals_.schemas().formulas;
    std::vector<std::string> patterns;
    for (const auto& layer : branch.properties)
        for (const auto& [regex, literal] : layer->patterns)
            if (std::find(patterns.begin(), patterns.end(), regex) == patterns.end())
                patterns.push_back(regex);
    if (patterns.size() > kMaxPatternKinds)
        return fail(ErrorCode::Unsupported,
                    "%zu patterns of property names apply to one object; at most %zu can be enforced",
                    patterns.size(), kMaxPatternKinds);
    TSR_TRY(const FormulaId allowed, goals_.formula(branch.names, Domain::String));
    TSR_TRY(auto listed, key_names(branch));
    const FormulaId unlisted = formulas.negate(strings.one_of(std::move(listed)));
    for (size_t subset = 0; subset < size_t{1} << patterns.size(); subset++) {
        std::vector<FormulaId> key = {allowed, unlisted};
        for (size_t i = 0; i < patterns.size(); i++) {
            TSR_TRY(const FormulaId pattern, strings.pattern(patterns[i]));
            key.push_back(subset >> i & 1 ? pattern : formulas.negate(pattern));
        }
        Goal goal;
        for (const auto& layer : branch.properties) {
            bool matched = false;
            for (const auto& [regex, literal] : layer->patterns) {
                const auto at = std::find(patterns.begin(), patterns.end(), regex) - patterns.begin();
                if (!(subset >> at & 1)) continue;
                goal.push_back(literal);
                matched = true;
            }
            if (!matched) goal.push_back(layer->rest);
        }
        goal = Goals::normalize(std::move(goal));
        if (Goals::is_false(goal)) continue;
        TSR_TRY(const ExprId name, strings.emit(formulas.all(std::move(key)), program_));
        if (name == program_.never()) continue;
        // A separate rule: inside a name the masks do not depend on the keys before it.
        const RuleId rule = program_.add_rule("name");
        program_.set_body(rule, name);
        members.open.push_back({program_.rule(rule), program_.seq({colon_, rule_for(std::move(goal))})});
    }
    return {};
}

Result<ExprId> Emitter::emit_object(const Branch& branch, const Goal& goal) {
    Members members;
    members.min = branch.min;
    members.max = branch.max;
    TSR_TRY(const bool possible, add_keys(branch, members));
    if (!possible) return program_.never();
    add_chains(branch, members);
    const auto opened = add_open(branch, members);
    if (!opened)
        return fail(opened.error().code, "at %s: %s", goals_.places(goal).c_str(),
                    opened.error().message.c_str());
    const bool has_open = !members.open.empty();
    if (members.min > members.keys.size() + has_open) {
        if (has_open)
            return fail(
                ErrorCode::Unsupported,
                "at %s: minProperties needs %u different names, but only %zu are listed; it cannot be "
                "enforced that unlisted names differ from each other",
                goals_.places(goal).c_str(), members.min, members.keys.size());
        blame(strf("at least %u members are needed, but fewer can occur", members.min));
        return program_.never();
    }
    const ExprId open = program_.seq({program_.bytes("{"), space_}),
                 close = program_.seq({space_, program_.bytes("}")});
    if (members.keys.empty() && members.open.size() == 1 && members.min == 0 && members.max == kUnbounded) {
        const ExprId member = program_.seq({members.open[0].key, members.open[0].value});
        const ExprId more = program_.repeat(program_.seq({comma(), member}), 0, kUnbounded);
        return program_.seq({open, program_.optional(program_.seq({member, more})), close});
    }
    members.before = open;
    members.after = close;
    members.comma = comma();
    if (!members.keys.empty() || has_open) return program_.members(std::move(members));
    return program_.seq({open, close});
}

// Arrays.

/// The rest of the array after `at` items, up to the bracket.
ExprId Emitter::emit_items(const Branch& branch, size_t at) {
    size_t n_prefix = 0;
    for (const auto& layer : branch.items) n_prefix = std::max(n_prefix, layer->prefix.size());
    if (at >= branch.max) return program_.empty();
    const ExprId separator = at == 0 ? program_.empty() : comma();
    const auto n = static_cast<uint32_t>(at);
    const bool optional = at >= branch.min;
    const ExprId value = rule_for(Goals::item_goal(branch, at));
    if (at < n_prefix || at == 0) {
        const ExprId item = program_.seq({separator, value, emit_items(branch, at + 1)});
        return optional ? program_.optional(item) : item;
    }
    const uint32_t left = branch.max == kUnbounded ? kUnbounded : branch.max - n;
    return program_.repeat(program_.seq({separator, value}), optional ? 0 : branch.min - n, left);
}

Result<std::optional<std::vector<std::string>>> Emitter::enumerate(const Goal& goal) {
    std::vector<std::string> values;
    constexpr std::pair<Domain, const char*> kWords[] = {
        {Domain::Null, "null"}, {Domain::False, "false"}, {Domain::True, "true"}};
    for (const auto& [domain, word] : kWords) {
        TSR_TRY(const FormulaId f, goals_.formula(goal, domain));
        if (f == Formulas::kTrue) values.push_back(word);
    }
    TSR_TRY(const FormulaId number, goals_.formula(goal, Domain::Number));
    TSR_TRY(const FormulaId string, goals_.formula(goal, Domain::String));
    TSR_TRY(const auto arrays, goals_.branches(goal, Domain::Array));
    TSR_TRY(const auto objects, goals_.branches(goal, Domain::Object));
    const auto numbers = goals_.schemas().numbers.enumerate(number);
    const auto strings = goals_.schemas().strings.enumerate(string);
    if (!numbers || !strings || !arrays.empty() || !objects.empty()) return std::nullopt;
    values.insert(values.end(), numbers->begin(), numbers->end());
    for (const std::string& text : *strings) values.push_back(quote_json(text));
    return values;
}

Result<ExprId> Emitter::emit_unique(const Branch& branch, const Goal& goal) {
    const auto has_prefix = [](const auto& layer) { return !layer->prefix.empty(); };
    std::optional<std::vector<std::string>> values;
    if (std::none_of(branch.items.begin(), branch.items.end(), has_prefix) && branch.contains.empty()) {
        TSR_TRY(values, enumerate(Goals::item_goal(branch, 0)));
    }
    if (!values || values->size() > kMaxKeys)
        return fail(ErrorCode::Unsupported,
                    "at %s: uniqueItems can be enforced where all items come from one enum, not for items of "
                    "any value",
                    goals_.places(goal).c_str());
    Members members;
    if (has_bare_names())
        return fail(ErrorCode::Unsupported, "at %s: uniqueItems cannot be enforced in this format of calls",
                    goals_.places(goal).c_str());
    for (const std::string& value : *values) members.keys.push_back({value, program_.empty()});
    std::sort(members.keys.begin(), members.keys.end(),
              [](const Members::Key& a, const Members::Key& b) { return a.literal < b.literal; });
    members.min = branch.min;
    members.max = branch.max;
    members.before = program_.seq({program_.bytes("["), space_});
    members.after = program_.seq({space_, program_.bytes("]")});
    members.comma = comma();
    if (members.min > members.keys.size()) {
        blame(strf("%u different items are needed, but only %zu exist", members.min, members.keys.size()));
        return program_.never();
    }
    if (members.keys.empty()) return program_.seq({members.before, members.after});
    return program_.members(std::move(members));
}

/// The item after `state` (number of items and of matches so far), for every subset of the `contains` that it
/// matches.
ExprId Emitter::grid_step(const Branch& branch, const std::vector<uint32_t>& state, uint32_t last,
                          std::map<std::vector<uint32_t>, RuleId>& rules) {
    std::vector<ExprId> ways;
    for (size_t subset = 0; subset < size_t{1} << branch.contains.size(); subset++) {
        std::vector<uint32_t> next = state;
        if (next[0] < last) next[0]++;
        Goal goal = Goals::item_goal(branch, state[0]);
        bool possible = true;
        for (size_t i = 0; i < branch.contains.size(); i++) {
            const Branch::Contains& contains = branch.contains[i];
            if (subset >> i & 1) {
                // Matches beyond the bounds need not be distinguished.
                possible &=
                    contains.max == kUnbounded ? state[i + 1] < contains.min : state[i + 1] < contains.max;
                goal.push_back(contains.what);
                next[i + 1]++;
            } else if (contains.max != kUnbounded) {
                goal.push_back({contains.what.id, !contains.what.negated});
            }
        }
        goal = Goals::normalize(std::move(goal));
        if (!possible || Goals::is_false(goal)) continue;
        const auto known = rules.find(next);
        if (known == rules.end()) continue;
        const ExprId separator = state[0] == 0 ? program_.empty() : comma();
        ways.push_back(program_.seq({separator, rule_for(std::move(goal)), program_.rule(known->second)}));
    }
    return program_.alt(std::move(ways));
}

Result<ExprId> Emitter::emit_grid(const Branch& branch, const Goal& goal) {
    size_t n_prefix = 1;
    for (const auto& layer : branch.items) n_prefix = std::max(n_prefix, layer->prefix.size());
    const uint32_t last =
        branch.max != kUnbounded ? branch.max : std::max(static_cast<uint32_t>(n_prefix), branch.min);
    size_t size = size_t{last} + 1;
    std::vector<uint32_t> limits = {last};
    for (const Branch::Contains& contains : branch.contains) {
        limits.push_back(contains.max != kUnbounded ? contains.max : contains.min);
        size = size > kMaxGrid ? size : size * (size_t{limits.back()} + 1);
    }
    if (size > kMaxGrid || branch.contains.size() > 4)
        return fail(ErrorCode::Unsupported,
                    "at %s: contains, its bounds and the number of items need too many states together",
                    goals_.places(goal).c_str());
    std::map<std::vector<uint32_t>, RuleId> rules;
    std::vector<uint32_t> state(limits.size(), 0);
    for (bool more = true; more;) {
        rules[state] = program_.add_rule("items");
        more = false;
        for (size_t i = 0; i < state.size() && !more; i++) {
            more = state[i] < limits[i];
            state[i] = more ? state[i] + 1 : 0;
        }
    }
    for (const auto& [at, rule] : rules) {
        bool may_end = at[0] >= branch.min;
        for (size_t i = 0; i < branch.contains.size(); i++) may_end &= at[i + 1] >= branch.contains[i].min;
        const bool may_go_on = branch.max == kUnbounded || at[0] < branch.max;
        program_.set_body(rule,
                          program_.alt({may_end ? program_.empty() : program_.never(),
                                        may_go_on ? grid_step(branch, at, last, rules) : program_.never()}));
    }
    return program_.seq({program_.bytes("["), space_,
                         program_.rule(rules[std::vector<uint32_t>(limits.size(), 0)]), space_,
                         program_.bytes("]")});
}

Result<ExprId> Emitter::emit_array(const Branch& given, const Goal& goal) {
    Branch branch = given;
    std::erase_if(branch.contains,
                  [](const Branch::Contains& c) { return c.min == 0 && c.max == kUnbounded; });
    if (branch.min > branch.max) {
        blame(strf("at least %u items are needed and at most %u allowed", branch.min, branch.max));
        return program_.never();
    }
    for (const Branch::Contains& c : branch.contains)
        if (c.min > c.max) return program_.never();
    for (const auto& layer : branch.items)
        if (layer->prefix.size() > kMaxPrefix)
            return fail(ErrorCode::Unsupported, "at %s: at most %zu prefixItems can be enforced",
                        goals_.places(goal).c_str(), kMaxPrefix);
    if (branch.unique && branch.max > 1) return emit_unique(branch, goal);
    if (!branch.contains.empty()) return emit_grid(branch, goal);
    if (branch.min > 0) {
        rule_for(Goals::item_goal(branch, 0));
        needed_->push_back(&rules_.find(Goals::item_goal(branch, 0))->first);
    }
    return program_.seq({program_.bytes("["), space_, emit_items(branch, 0), space_, program_.bytes("]")});
}

/// The reason why the root cannot be satisfied: descends to the first goal that is unsatisfiable by itself.
tl::unexpected<Error> Emitter::nothing_fits() {
    if (!goals_.omitted().empty()) return fail(ErrorCode::Unsupported, "%s", goals_.omitted().c_str());
    const std::vector<bool> productive = Analysis::productive_rules(program_);
    const Goal* at = &rules_.find(Goals::normalize({{goals_.schemas().root()}}))->first;
    std::set<const Goal*> seen;
    while (seen.insert(at).second) {
        const auto& needed = rules_.at(*at).needed;
        const auto culprit = std::find_if(needed.begin(), needed.end(), [&](const Goal* goal) {
            return !productive[rules_.at(*goal).id] && !seen.count(goal);
        });
        if (culprit == needed.end()) break;
        at = *culprit;
    }
    return fail(ErrorCode::InvalidArgument, "at %s: %s", goals_.places(*at).c_str(),
                rules_.at(*at).reason.c_str());
}

void Emitter::add_space() {
    if (options_.layout == JsonLayout::Free) {
        const ExprId blanks = program_.repeat(program_.chars({{'\t', '\t'}, {' ', ' '}}), 0, 20);
        const RuleId rule = program_.add_rule("space");
        program_.set_body(rule, program_.alt({program_.empty(), program_.bytes(" "),
                                              program_.seq({program_.bytes("\n"), blanks})}));
        space_ = program_.rule(rule);
    }
    colon_ = program_.seq({program_.bytes(":"), space_});
}

Result<ExprId> Emitter::run() {
    add_space();
    const ExprId root = rule_for(Goals::normalize({{goals_.schemas().root()}}));
    TSR_TRY_VOID(work_off());
    const std::vector<bool> productive = Analysis::productive_rules(program_);
    if (!productive[program_.expr(root).index]) return nothing_fits();
    return root;
}

Result<void> Emitter::work_off() {
    while (!work_.empty()) {
        if (rules_.size() > kMaxGoals)
            return fail(ErrorCode::Unsupported,
                        "the schema has more than %zu different combinations of subschemas", kMaxGoals);
        const Goal& goal = *work_.front();
        work_.pop_front();
        TSR_TRY_VOID(emit(goal, rules_.at(goal)));
    }
    return {};
}

// Arguments of tool calls in other notations than JSON.

/// Whether the property's schema has the single type "string", so that parsers take any text as a string.
bool Emitter::is_plain_text(const std::string& name) {
    const Schema& root = goals_.schemas()[goals_.schemas().root()];
    for (const auto& [listed, id] : root.properties)
        if (listed == name) return goals_.schemas()[id].types == kStringBit;
    return false;
}

Result<void> Emitter::check_name(const std::string& name) {
    const auto is_word = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-' || c == '.';
    };
    if (!name.empty() && std::all_of(name.begin(), name.end(), is_word)) return {};
    return fail(
        ErrorCode::Unsupported,
        "at /properties: expected names of letters, digits, '_', '-' and '.', as this format of calls "
        "writes them without quotes, found '%s'",
        printable(name).c_str());
}

Result<ExprId> Emitter::emit_arguments(const Branch& branch) {
    struct Argument {
        ExprId text;
        bool required;
    };
    std::vector<Argument> arguments;
    uint32_t n_required = 0;
    TSR_TRY(const auto names, key_names(branch));
    for (const std::string& name : names) {
        const bool required = branch.required.count(name) > 0;
        n_required += required;
        TSR_TRY(const bool allowed, goals_.name_allowed(branch, name));
        TSR_TRY(Goal goal, goals_.member_goal(branch, name));
        if (!allowed || Goals::is_false(goal)) {
            if (!required) continue;
            blame("\"" + printable(name) + "\" is required and cannot occur");
            return program_.never();
        }
        TSR_TRY_VOID(check_name(name));
        const bool is_plain = notation_->text == ArgumentNotation::Text::Plain && is_plain_text(name);
        ExprId value = program_.never();
        if (is_plain) {
            TSR_TRY(const FormulaId string, goals_.formula(goal, Domain::String));
            TSR_TRY(value, goals_.schemas().strings.emit_plain(string, notation_->not_in_text,
                                                               notation_->strips_lines, program_));
        } else {
            value = rule_for(std::move(goal));
        }
        const bool other_end = is_plain && !notation_->text_key_end.empty();
        const ExprId text =
            program_.seq({add_mark(notation_->key_begin, program_), program_.bytes(name),
                          add_mark(other_end ? notation_->text_key_end : notation_->key_end, program_), value,
                          add_mark(notation_->value_end, program_)});
        arguments.push_back({text, required});
    }
    if (branch.min > n_required || branch.max < arguments.size())
        return fail(ErrorCode::Unsupported,
                    "at \"\": minProperties and maxProperties cannot be enforced in this format of calls");
    // Built from the last argument backwards: `more` follows an argument, `first` begins the list.
    const auto rule_of = [&](ExprId body) {
        const RuleId rule = program_.add_rule("arguments");
        program_.set_body(rule, body);
        return program_.rule(rule);
    };
    const ExprId separator = program_.bytes(notation_->separator);
    ExprId first = program_.empty(), more = program_.empty();
    for (size_t i = arguments.size(); i-- > 0;) {
        const auto& [text, required] = arguments[i];
        const ExprId here = program_.seq({text, more});
        first = rule_of(program_.alt({here, required ? program_.never() : first}));
        more = rule_of(program_.alt({program_.seq({separator, here}), required ? program_.never() : more}));
    }
    return first;
}

Result<ExprId> Emitter::run_arguments(const ArgumentNotation& notation) {
    notation_ = &notation;
    add_space();
    std::vector<const Goal*> needed;
    needed_ = &needed;
    std::vector<ExprId> ways;
    TSR_TRY(const auto objects,
            goals_.branches(Goals::normalize({{goals_.schemas().root()}}), Domain::Object));
    for (const Branch& branch : objects) {
        TSR_TRY(const ExprId way, emit_arguments(branch));
        ways.push_back(way);
    }
    const std::string reason = reason_.empty() ? "no arguments satisfy this schema" : reason_;
    const RuleId root = program_.add_rule("arguments");
    program_.set_body(root, program_.alt(std::move(ways)));
    TSR_TRY_VOID(work_off());
    if (!Analysis::productive_rules(program_)[root])
        return fail(ErrorCode::InvalidArgument, "at \"\": %s", reason.c_str());
    return program_.rule(root);
}

}  // namespace

Result<ExprId> add_json_schema(std::string_view schema, const SchemaOptions& options, Program& program) {
    TSR_TRY(const auto schemas, SchemaSet::parse(schema));
    return Emitter(*schemas, options, program).run();
}

Result<ExprId> add_arguments(std::string_view schema, const SchemaOptions& options,
                             const ArgumentNotation& notation, Program& program) {
    TSR_TRY(const auto schemas, SchemaSet::parse(schema));
    return Emitter(*schemas, options, program).run_arguments(notation);
}

}  // namespace tessera::grammar
