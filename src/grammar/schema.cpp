// Parses a schema document by a table of keywords with a function for each. No keyword is ignored: each is
// enforced, an annotation, or an error with its JSON pointer. Next: goals.cpp (the meaning of the fields).
#include "src/grammar/schema.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/grammar/formats.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxSchemaBytes = 8u << 20;
// No output is this long; larger upper bounds count as unbounded.
constexpr uint32_t kMaxSchemaCount = 1u << 30;

using Use = SchemaKeyword::Use;
using Kind = JsonValue::Kind;

}  // namespace

/// Reads one document into a SchemaSet.
class SchemaReader {
  public:
    SchemaReader(SchemaSet& set) : set_(set) {}
    Result<void> run();

    struct Place {
        const JsonValue& value;
        std::string pointer;
        const JsonValue& schema;  // the object that contains the keyword
    };
    using Read = Result<void> (SchemaReader::*)(const Place&, SchemaId);
    struct Row {
        SchemaKeyword keyword;
        Read read;
    };
    static const std::vector<Row>& rows();

  private:
    tl::unexpected<Error> malformed(const std::string& pointer, const std::string& message) const {
        return fail(ErrorCode::Malformed, "at \"%s\": %s", printable(pointer, 200).c_str(), message.c_str());
    }
    tl::unexpected<Error> unsupported(const std::string& pointer, const std::string& message) const {
        return fail(ErrorCode::Unsupported, "at \"%s\": %s", printable(pointer, 200).c_str(),
                    message.c_str());
    }
    tl::unexpected<Error> wrong_kind(const Place& p, const char* expected) const {
        return malformed(p.pointer, strf("expected %s, found %s", expected, describe(p.value).c_str()));
    }
    static std::string describe(const JsonValue& value);
    Schema& at(SchemaId id) { return set_.schemas_[id]; }

    Result<SchemaId> schema(const JsonValue& value, const std::string& pointer);
    Result<void> fill(SchemaId id, const JsonValue& value);
    Result<void> schema_list(const Place& p, std::vector<SchemaId>& out, bool may_be_empty);
    Result<void> schema_map(const Place& p, std::vector<std::pair<std::string, SchemaId>>& out);
    Result<void> name_list(const Place& p, std::vector<std::string>& out);
    Result<uint32_t> count(const Place& p, bool upper);
    Result<Decimal> number(const Place& p);
    Result<SchemaId> follow(const Place& p);
    void find_anchors(const JsonValue& value);

    Result<void> ignore(const Place&, SchemaId) { return {}; }
    Result<void> identifier(const Place& p, SchemaId id);
    Result<void> definitions(const Place& p, SchemaId id);
    Result<void> reference(const Place& p, SchemaId id);
    Result<void> type(const Place& p, SchemaId id);
    Result<void> enumeration(const Place& p, SchemaId id);
    Result<void> constant(const Place& p, SchemaId id);
    Result<void> format(const Place& p, SchemaId id);
    Result<void> pattern(const Place& p, SchemaId id);
    Result<void> unique_items(const Place& p, SchemaId id);
    Result<void> pattern_properties(const Place& p, SchemaId id);
    Result<void> dependent_required(const Place& p, SchemaId id);
    Result<void> multiple_of(const Place& p, SchemaId id);

    template <SchemaId Schema::*Field>
    Result<void> one(const Place& p, SchemaId id) {
        TSR_TRY(const SchemaId inner, schema(p.value, p.pointer));
        at(id).*Field = inner;
        return {};
    }
    template <std::vector<SchemaId> Schema::*Field>
    Result<void> list(const Place& p, SchemaId id) {
        std::vector<SchemaId> inner;
        TSR_TRY_VOID(schema_list(p, inner, false));
        at(id).*Field = std::move(inner);
        return {};
    }
    template <std::vector<std::pair<std::string, SchemaId>> Schema::*Field>
    Result<void> map(const Place& p, SchemaId id) {
        std::vector<std::pair<std::string, SchemaId>> inner;
        TSR_TRY_VOID(schema_map(p, inner));
        at(id).*Field = std::move(inner);
        return {};
    }
    template <uint32_t Schema::*Field, bool Upper>
    Result<void> bound(const Place& p, SchemaId id) {
        TSR_TRY(at(id).*Field, count(p, Upper));
        return {};
    }
    template <std::optional<Decimal> Schema::*Field>
    Result<void> limit(const Place& p, SchemaId id) {
        TSR_TRY(at(id).*Field, number(p));
        return {};
    }
    Result<void> required(const Place& p, SchemaId id) { return name_list(p, at(id).required); }

    SchemaSet& set_;
    std::map<const JsonValue*, SchemaId> ids_;
    std::map<std::string, const JsonValue*> anchors_;
    std::map<std::string, SchemaId> small_;  // small schemas by content, so that equal ones are shared
};

const std::vector<SchemaReader::Row>& SchemaReader::rows() {
    using R = SchemaReader;
    using S = Schema;
    static const std::vector<Row> table = {
        {{"$ref", Use::Enforced}, &R::reference},
        {{"$defs", Use::Annotation}, &R::definitions},
        {{"definitions", Use::Annotation}, &R::definitions},
        {{"$anchor", Use::Annotation}, &R::ignore},
        {{"$id", Use::Annotation}, &R::identifier},
        {{"type", Use::Enforced}, &R::type},
        {{"enum", Use::Enforced}, &R::enumeration},
        {{"const", Use::Enforced}, &R::constant},
        {{"minimum", Use::Enforced}, &R::limit<&S::minimum>},
        {{"maximum", Use::Enforced}, &R::limit<&S::maximum>},
        {{"exclusiveMinimum", Use::Enforced}, &R::limit<&S::exclusive_minimum>},
        {{"exclusiveMaximum", Use::Enforced}, &R::limit<&S::exclusive_maximum>},
        {{"multipleOf", Use::Enforced}, &R::multiple_of},
        {{"minLength", Use::Enforced}, &R::bound<&S::min_length, false>},
        {{"maxLength", Use::Enforced}, &R::bound<&S::max_length, true>},
        {{"pattern", Use::Enforced}, &R::pattern},
        {{"format", Use::Enforced}, &R::format},
        {{"items", Use::Enforced}, &R::one<&S::items>},
        {{"prefixItems", Use::Enforced}, &R::list<&S::prefix_items>},
        {{"contains", Use::Enforced}, &R::one<&S::contains>},
        {{"minContains", Use::Enforced}, &R::bound<&S::min_contains, false>},
        {{"maxContains", Use::Enforced}, &R::bound<&S::max_contains, true>},
        {{"minItems", Use::Enforced}, &R::bound<&S::min_items, false>},
        {{"maxItems", Use::Enforced}, &R::bound<&S::max_items, true>},
        {{"uniqueItems", Use::Enforced}, &R::unique_items},
        {{"unevaluatedItems", Use::Enforced}, &R::one<&S::unevaluated_items>},
        {{"properties", Use::Enforced}, &R::map<&S::properties>},
        {{"required", Use::Enforced}, &R::required},
        {{"additionalProperties", Use::Enforced}, &R::one<&S::additional_properties>},
        {{"patternProperties", Use::Enforced}, &R::pattern_properties},
        {{"propertyNames", Use::Enforced}, &R::one<&S::property_names>},
        {{"minProperties", Use::Enforced}, &R::bound<&S::min_properties, false>},
        {{"maxProperties", Use::Enforced}, &R::bound<&S::max_properties, true>},
        {{"dependentRequired", Use::Enforced}, &R::dependent_required},
        {{"dependentSchemas", Use::Enforced}, &R::map<&S::dependent_schemas>},
        {{"unevaluatedProperties", Use::Enforced}, &R::one<&S::unevaluated_properties>},
        {{"allOf", Use::Enforced}, &R::list<&S::all_of>},
        {{"anyOf", Use::Enforced}, &R::list<&S::any_of>},
        {{"oneOf", Use::Enforced}, &R::list<&S::one_of>},
        {{"not", Use::Enforced}, &R::one<&S::negated>},
        {{"if", Use::Enforced}, &R::one<&S::condition>},
        {{"then", Use::Enforced}, &R::one<&S::then_branch>},
        {{"else", Use::Enforced}, &R::one<&S::else_branch>},
        {{"$schema", Use::Annotation}, &R::ignore},
        {{"$comment", Use::Annotation}, &R::ignore},
        {{"title", Use::Annotation}, &R::ignore},
        {{"description", Use::Annotation}, &R::ignore},
        {{"default", Use::Annotation}, &R::ignore},
        {{"examples", Use::Annotation}, &R::ignore},
        {{"deprecated", Use::Annotation}, &R::ignore},
        {{"readOnly", Use::Annotation}, &R::ignore},
        {{"writeOnly", Use::Annotation}, &R::ignore},
        {{"contentEncoding", Use::Annotation}, &R::ignore},
        {{"contentMediaType", Use::Annotation}, &R::ignore},
        {{"contentSchema", Use::Annotation}, &R::ignore},
    };
    return table;
}

std::string SchemaReader::describe(const JsonValue& value) {
    switch (value.kind) {
        case Kind::Boolean:
            return value.boolean ? "true" : "false";
        case Kind::Number:
            return printable(value.text, 40);
        case Kind::String:
            return "\"" + printable(value.text, 40) + "\"";
        default:
            return json_kind_name(value.kind);
    }
}

Result<void> SchemaReader::run() {
    find_anchors(set_.document_);
    for (const bool value : {false, true}) {
        set_.schemas_.emplace_back();
        set_.schemas_.back().boolean = value;
    }
    TSR_TRY(set_.root_, schema(set_.document_, ""));
    return {};
}

void SchemaReader::find_anchors(const JsonValue& value) {
    for (const JsonValue& item : value.items) find_anchors(item);
    for (const auto& [name, member] : value.members) {
        if (name == "$anchor" && member.is(Kind::String)) anchors_.emplace(member.text, &value);
        find_anchors(member);
    }
}

namespace {

/// A key for the content of small schemas; empty for larger ones.
std::string small_key(const JsonValue& value) {
    std::string key;
    const auto write = [&](const auto& self, const JsonValue& v) -> void {
        if (key.size() > 400) return;
        key += static_cast<char>('0' + static_cast<int>(v.kind));
        key += v.boolean ? 't' : 'f';
        key += strf("%zu:", v.text.size()) + v.text;
        for (const JsonValue& item : v.items) self(self, item);
        for (const auto& [name, member] : v.members) {
            key += strf("%zu:", name.size()) + name;
            self(self, member);
        }
        key += ')';
    };
    write(write, value);
    return key.size() > 400 ? std::string() : key;
}

}  // namespace

Result<SchemaId> SchemaReader::schema(const JsonValue& value, const std::string& pointer) {
    if (value.is(Kind::Boolean)) return set_.boolean(value.boolean);
    if (!value.is(Kind::Object))
        return malformed(pointer, "expected a schema (an object or a boolean), found " + describe(value));
    if (const auto known = ids_.find(&value); known != ids_.end()) return known->second;
    const std::string key = small_key(value);
    if (!key.empty()) {
        if (const auto known = small_.find(key); known != small_.end()) return ids_[&value] = known->second;
    }
    const auto id = static_cast<SchemaId>(set_.schemas_.size());
    ids_[&value] = id;
    set_.schemas_.emplace_back();
    set_.schemas_.back().pointer = pointer;
    TSR_TRY_VOID(fill(id, value));
    if (!key.empty()) small_[key] = id;
    return id;
}

Result<void> SchemaReader::fill(SchemaId id, const JsonValue& value) {
    static const auto by_name = [] {
        std::map<std::string_view, Read> names;
        for (const Row& row : rows()) names[row.keyword.name] = row.read;
        return names;
    }();
    const std::string pointer = at(id).pointer;
    for (const auto& [name, member] : value.members) {
        const std::string where = pointer + "/" + pointer_escape(name);
        const auto row = by_name.find(name);
        if (row == by_name.end() && name.substr(0, 2) == "x-") continue;  // annotations of other programs
        if (row == by_name.end())
            return unsupported(where, strf("the keyword \"%s\" is not known and would not be enforced",
                                           printable(name, 40).c_str()));
        TSR_TRY_VOID((this->*row->second)({member, where, value}, id));
    }
    return {};
}

Result<void> SchemaReader::schema_list(const Place& p, std::vector<SchemaId>& out, bool may_be_empty) {
    if (!p.value.is(Kind::Array)) return wrong_kind(p, "a list of schemas");
    if (p.value.items.empty() && !may_be_empty) return malformed(p.pointer, "expected at least one schema");
    for (size_t i = 0; i < p.value.items.size(); i++) {
        TSR_TRY(const SchemaId inner, schema(p.value.items[i], p.pointer + strf("/%zu", i)));
        out.push_back(inner);
    }
    return {};
}

Result<void> SchemaReader::schema_map(const Place& p, std::vector<std::pair<std::string, SchemaId>>& out) {
    if (!p.value.is(Kind::Object)) return wrong_kind(p, "an object of schemas");
    for (const auto& [name, member] : p.value.members) {
        TSR_TRY(const SchemaId inner, schema(member, p.pointer + "/" + pointer_escape(name)));
        out.emplace_back(name, inner);
    }
    return {};
}

Result<void> SchemaReader::name_list(const Place& p, std::vector<std::string>& out) {
    if (!p.value.is(Kind::Array)) return wrong_kind(p, "a list of names");
    for (size_t i = 0; i < p.value.items.size(); i++) {
        const JsonValue& item = p.value.items[i];
        if (!item.is(Kind::String))
            return malformed(p.pointer + strf("/%zu", i), "expected a name, found " + describe(item));
        if (std::find(out.begin(), out.end(), item.text) == out.end()) out.push_back(item.text);
    }
    return {};
}

Result<uint32_t> SchemaReader::count(const Place& p, bool upper) {
    const auto value = p.value.is(Kind::Number) ? Decimal::parse(p.value.text) : std::nullopt;
    if (!value || value->negative || !value->is_integer())
        return wrong_kind(p, "a whole number of at least 0");
    const auto n = value->integer.size() <= 12 ? parse_int(value->integer) : std::nullopt;
    if (n && *n <= kMaxSchemaCount) return static_cast<uint32_t>(*n);
    if (upper) return kUnbounded;
    return unsupported(p.pointer, strf("no output can be that long; at most %u", kMaxSchemaCount));
}

Result<Decimal> SchemaReader::number(const Place& p) {
    if (!p.value.is(Kind::Number)) return wrong_kind(p, "a number");
    auto value = Decimal::parse(p.value.text);
    if (!value) return unsupported(p.pointer, "this number has too many digits");
    return std::move(*value);
}

Result<void> SchemaReader::identifier(const Place& p, SchemaId) {
    if (!p.value.is(Kind::String)) return wrong_kind(p, "a URI");
    if (&p.schema == &set_.document_) return {};
    return unsupported(p.pointer,
                       "an identifier inside the schema would change what references mean; use $anchor");
}

/// Definitions constrain nothing, but invalid ones are reported even without a reference to them.
Result<void> SchemaReader::definitions(const Place& p, SchemaId) {
    std::vector<std::pair<std::string, SchemaId>> unused;
    return schema_map(p, unused);
}

Result<SchemaId> SchemaReader::follow(const Place& p) {
    if (!p.value.is(Kind::String)) return wrong_kind(p, "a reference");
    const std::string& text = p.value.text;
    if (text.empty() || text[0] != '#')
        return unsupported(p.pointer,
                           strf("\"%s\" is not in this document; nothing is fetched, so only references "
                                "that begin with '#' are followed",
                                printable(text).c_str()));
    std::string fragment;
    for (size_t i = 1; i < text.size(); i++) {
        unsigned byte = 0;
        if (text[i] == '%' && i + 2 < text.size() &&
            std::sscanf(text.substr(i + 1, 2).c_str(), "%2x", &byte) == 1) {
            fragment += static_cast<char>(byte);
            i += 2;
        } else {
            fragment += text[i];
        }
    }
    const JsonValue* target = nullptr;
    if (fragment.empty() || fragment[0] == '/') {
        target = find_pointer(set_.document_, fragment);
    } else if (const auto anchor = anchors_.find(fragment); anchor != anchors_.end()) {
        target = anchor->second;
    }
    if (!target)
        return malformed(p.pointer,
                         strf("\"%s\" does not refer to anything in this document", printable(text).c_str()));
    return schema(*target, fragment);
}

Result<void> SchemaReader::reference(const Place& p, SchemaId id) {
    TSR_TRY(const SchemaId target, follow(p));
    at(id).reference = target;
    return {};
}

Result<void> SchemaReader::type(const Place& p, SchemaId id) {
    static const std::map<std::string_view, uint8_t> names = {
        {"null", kNullBit},     {"boolean", kBooleanBit}, {"integer", kIntegerBit}, {"number", kNumberBit},
        {"string", kStringBit}, {"array", kArrayBit},     {"object", kObjectBit}};
    std::vector<const JsonValue*> given;
    if (p.value.is(Kind::String)) {
        given.push_back(&p.value);
    } else if (p.value.is(Kind::Array)) {
        for (const JsonValue& item : p.value.items) given.push_back(&item);
        if (given.empty()) return malformed(p.pointer, "an empty list of types allows nothing");
    } else {
        return wrong_kind(p, "the name of a type or a list of them");
    }
    uint8_t types = 0;
    for (const JsonValue* name : given) {
        const auto known = name->is(Kind::String) ? names.find(name->text) : names.end();
        if (known == names.end())
            return malformed(
                p.pointer,
                "expected null, boolean, integer, number, string, array or object, found " + describe(*name));
        types |= known->second;
    }
    at(id).types = types;
    return {};
}

Result<void> SchemaReader::enumeration(const Place& p, SchemaId id) {
    if (!p.value.is(Kind::Array)) return wrong_kind(p, "a list of values");
    if (p.value.items.empty()) return malformed(p.pointer, "an empty enum allows nothing");
    std::vector<const JsonValue*> values;
    for (const JsonValue& item : p.value.items) values.push_back(&item);
    at(id).values.push_back(std::move(values));
    return {};
}

Result<void> SchemaReader::constant(const Place& p, SchemaId id) {
    at(id).values.push_back({&p.value});
    return {};
}

Result<void> SchemaReader::format(const Place& p, SchemaId id) {
    if (!p.value.is(Kind::String)) return wrong_kind(p, "the name of a format");
    const StringFormat* format = find_format(p.value.text);
    if (format && !format->enforced)
        return unsupported(p.pointer, strf("the format \"%s\" cannot be enforced", p.value.text.c_str()));
    if (format) at(id).format = p.value.text;
    return {};
}

Result<void> SchemaReader::pattern(const Place& p, SchemaId id) {
    if (!p.value.is(Kind::String)) return wrong_kind(p, "a regular expression");
    const auto parsed = set_.strings.pattern(p.value.text);
    if (!parsed)
        return fail(parsed.error().code, "at \"%s\": %s", p.pointer.c_str(), parsed.error().message.c_str());
    at(id).pattern = p.value.text;
    return {};
}

Result<void> SchemaReader::unique_items(const Place& p, SchemaId id) {
    if (!p.value.is(Kind::Boolean)) return wrong_kind(p, "true or false");
    at(id).unique_items = p.value.boolean;
    return {};
}

Result<void> SchemaReader::pattern_properties(const Place& p, SchemaId id) {
    std::vector<std::pair<std::string, SchemaId>> inner;
    TSR_TRY_VOID(schema_map(p, inner));
    for (const auto& [regex, unused] : inner) {
        const auto parsed = set_.strings.pattern(regex);
        if (!parsed)
            return fail(parsed.error().code, "at \"%s/%s\": %s", p.pointer.c_str(),
                        printable(pointer_escape(regex)).c_str(), parsed.error().message.c_str());
    }
    at(id).pattern_properties = std::move(inner);
    return {};
}

Result<void> SchemaReader::dependent_required(const Place& p, SchemaId id) {
    if (!p.value.is(Kind::Object)) return wrong_kind(p, "an object of lists of names");
    for (const auto& [name, member] : p.value.members) {
        std::vector<std::string> names;
        TSR_TRY_VOID(name_list({member, p.pointer + "/" + pointer_escape(name), p.schema}, names));
        at(id).dependent_required.emplace_back(name, std::move(names));
    }
    return {};
}

Result<void> SchemaReader::multiple_of(const Place& p, SchemaId id) {
    TSR_TRY(const Decimal step, number(p));
    if (step.negative || step.is_zero()) return wrong_kind(p, "a number above 0");
    const auto possible = set_.numbers.multiple_of(step);
    if (!possible)
        return fail(possible.error().code, "at \"%s\": %s", p.pointer.c_str(),
                    possible.error().message.c_str());
    at(id).multiple_of = step;
    return {};
}

std::span<const SchemaKeyword> schema_keywords() {
    static const auto keywords = [] {
        std::vector<SchemaKeyword> result;
        for (const auto& row : SchemaReader::rows()) result.push_back(row.keyword);
        return result;
    }();
    return keywords;
}

Result<std::unique_ptr<SchemaSet>> SchemaSet::parse(std::string_view text) {
    if (text.size() > kMaxSchemaBytes)
        return fail(ErrorCode::Unsupported, "the schema has %zu bytes; at most %zu are read", text.size(),
                    kMaxSchemaBytes);
    std::unique_ptr<SchemaSet> set(new SchemaSet());
    TSR_TRY(set->document_, parse_json(text));
    TSR_TRY_VOID(SchemaReader(*set).run());
    return set;
}

SchemaId SchemaSet::constant(const JsonValue* value) {
    const auto [at, is_new] = constants_.try_emplace(value, static_cast<SchemaId>(schemas_.size()));
    if (is_new) {
        schemas_.emplace_back();
        schemas_.back().values.push_back({value});
    }
    return at->second;
}

SchemaId SchemaSet::any_of(std::vector<SchemaId> ways, const std::string& pointer) {
    schemas_.emplace_back();
    schemas_.back().pointer = pointer;
    schemas_.back().any_of = std::move(ways);
    return static_cast<SchemaId>(schemas_.size() - 1);
}

}  // namespace tessera::grammar
