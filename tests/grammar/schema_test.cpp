// JSON schema: the reference instances and refusals, error places, limits.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <sstream>

#include "src/grammar/schema.h"
#include "tests/grammar/support.h"

namespace tessera::test {
namespace {

using grammar::Grammar;
using grammar::JsonLayout;

const char* kFiles[] = {"structured",
                        "additionalProperties",
                        "allOf",
                        "anchor",
                        "anyOf",
                        "boolean_schema",
                        "const",
                        "contains",
                        "default",
                        "dependentRequired",
                        "dependentSchemas",
                        "enum",
                        "exclusiveMaximum",
                        "exclusiveMinimum",
                        "format",
                        "if-then-else",
                        "items",
                        "maxContains",
                        "maxItems",
                        "maxLength",
                        "maxProperties",
                        "maximum",
                        "minContains",
                        "minItems",
                        "minLength",
                        "minProperties",
                        "minimum",
                        "multipleOf",
                        "not",
                        "oneOf",
                        "pattern",
                        "patternProperties",
                        "prefixItems",
                        "properties",
                        "propertyNames",
                        "ref",
                        "required",
                        "type",
                        "unevaluatedItems",
                        "unevaluatedProperties",
                        "uniqueItems"};

/// Valid instances that are refused by choice: integers, and numbers of `const` and `enum`, have no ".0",
/// which typed decoders do not take for an integer. docs/guide/structured-output.md says so.
const struct {
    const char *description, *text;
} kRefusedByChoice[] = {
    {"const with 0 does not match other zero-like types", "0.0"},
    {"const with 1 does not match true", "1.0"},
    {"float and integers are equal up to 64-bit representation limits", "9007199254740992.0"},
    {"enum with [0] does not match [false]", "[0.0]"},
    {"enum with 1 does not match true", "1.0"},
    {"enum with [1] does not match [true]", "[1.0]"},
    {"integer type matches integers", "1.0"},
};

bool is_refused_by_choice(const std::string& description, const std::string& text) {
    return std::any_of(std::begin(kRefusedByChoice), std::end(kRefusedByChoice), [&](const auto& refused) {
        return refused.description == description && refused.text == text;
    });
}

struct Counts {
    size_t schemas = 0, refused = 0, valid = 0, by_choice = 0, out_of_order = 0, out_of_order_taken = 0,
           invalid = 0, not_json = 0;
};

void check_case(const Json& item, JsonLayout layout, Counts& counts) {
    const auto grammar = Grammar::from_json_schema(item["schema"].dump(), {.layout = layout});
    if (!grammar) {
        counts.refused++;
        // A refusal is correct only if no instance is valid or the message names the keyword that cannot be
        // enforced.
        const bool satisfiable = item.contains("valid") && !item["valid"].empty();
        if (satisfiable) {
            EXPECT_EQ(grammar.error().code, ErrorCode::Unsupported) << grammar.error().message;
            std::printf("refused: %s: %s\n", item["description"].get<std::string>().c_str(),
                        grammar.error().message.c_str());
        }
        return;
    }
    counts.schemas++;
    auto matcher = matcher_for(*grammar);
    for (const std::string text : item.value("valid", Json::array())) {
        const bool by_choice = is_refused_by_choice(item["description"], text);
        (by_choice ? counts.by_choice : counts.valid)++;
        EXPECT_EQ(accepts(matcher, text), !by_choice) << text;
    }
    for (const std::string text : item.value("valid_out_of_order", Json::array())) {
        counts.out_of_order++;
        counts.out_of_order_taken += accepts(matcher, text);
    }
    for (const std::string text : item.value("invalid", Json::array())) {
        counts.invalid++;
        EXPECT_FALSE(accepts(matcher, text)) << text;
    }
    for (const std::string text : item.value("not_json", Json::array())) {
        counts.not_json++;
        EXPECT_FALSE(accepts(matcher, text)) << text;
    }
}

TEST(JsonSchema, ReferenceInstances) {
    TSR_NEED_SHARED("golden/json-schema/structured.json");
    for (const JsonLayout layout : {JsonLayout::Free, JsonLayout::Compact}) {
        Counts counts;
        for (const std::string file : kFiles) {
            for (const Json& item : read_cases("golden/json-schema/" + file + ".json")) {
                SCOPED_TRACE(file + ": " + item["description"].get<std::string>());
                check_case(item, layout, counts);
            }
        }
        EXPECT_EQ(counts.by_choice, std::size(kRefusedByChoice));
        std::printf(
            "json-schema: %zu schemas enforced, %zu refused; %zu valid accepted, %zu refused by choice; %zu "
            "of "
            "%zu in another order accepted; %zu invalid and %zu not JSON rejected\n",
            counts.schemas, counts.refused, counts.valid, counts.by_choice, counts.out_of_order_taken,
            counts.out_of_order, counts.invalid, counts.not_json);
    }
}

TEST(JsonSchema, Refusals) {
    TSR_NEED_SHARED("golden/json-schema/refused.json");
    size_t n = 0;
    for (const Json& item : read_cases("golden/json-schema/refused.json")) {
        const auto grammar = Grammar::from_json_schema(item["schema"].dump());
        ASSERT_FALSE(grammar.has_value()) << item["description"];
        EXPECT_NE(grammar.error().message.find("at \""), std::string::npos) << grammar.error().message;
        std::printf("%s: %s\n", item["description"].get<std::string>().c_str(),
                    grammar.error().message.c_str());
        n++;
    }
    std::printf("json-schema: %zu broken or unsatisfiable schemas refused\n", n);
}

struct Spellings {
    const char* schema;
    std::vector<std::string> taken, refused;
};

void check_spellings(const std::vector<Spellings>& cases) {
    for (const Spellings& example : cases) {
        auto grammar = Grammar::from_json_schema(example.schema);
        ASSERT_TRUE(grammar.has_value()) << grammar.error().message;
        auto matcher = matcher_for(std::move(*grammar));
        for (const std::string& text : example.taken)
            EXPECT_TRUE(accepts(matcher, text)) << example.schema << " " << text;
        for (const std::string& text : example.refused)
            EXPECT_FALSE(accepts(matcher, text)) << example.schema << " " << text;
    }
}

/// Decoders of typed languages refuse "7.0" and "7e2" as integers, and some "-0".
TEST(JsonSchema, IntegersAreWrittenAsIntegers) {
    check_spellings({
        {R"({"type":"integer"})", {"7", "0", "-100"}, {"7.0", "7.00", "7.1", "7e2", "-0", "7."}},
        {R"({"type":"integer","minimum":10})", {"10"}, {"10.0", "9"}},
        {R"({"type":["integer","string"]})", {"7", "\"7.00\""}, {"7.0"}},
        {R"({"type":"integer","multipleOf":0.5})", {"7"}, {"7.0", "7.5"}},
        {R"({"anyOf":[{"type":"integer"},{"type":"number","minimum":10}]})", {"7", "12.0"}, {"7.0", "7.5"}},
        {R"({"type":"number"})", {"7.0", "7.00", "-0", "7e2"}, {}},
        {R"({"type":"number","minimum":0})", {"7.0", "0.50"}, {"-1.0", "7e2"}},
        {R"({"type":"number","not":{"type":"integer"}})", {"7.5", "7.001"}, {"7", "7.0", "7.00"}},
    });
}

/// A listed number has one spelling, whichever the schema uses.
TEST(JsonSchema, ListedNumbersAreWrittenInOneWay) {
    check_spellings({
        {R"({"type":"integer","const":1.0})", {"1"}, {"1.0", "1.00", "1e0"}},
        {R"({"type":"integer","enum":[1.0,2e1,3.5]})", {"1", "20"}, {"1.0", "2e1", "20.0", "3.5"}},
        {R"({"const":1.0})", {"1"}, {"1.0"}},
        {R"({"enum":[0,-0.0,1.50]})", {"0", "1.5"}, {"-0", "0.0", "-0.0", "1.50"}},
        {R"({"type":"number","enum":[0.1,100000000000000000000000]})",
         {"0.1", "100000000000000000000000"},
         {"0.10", "1e23"}},
        {R"({"not":{"const":1},"type":"number"})", {"2", "2.0", "1.5"}, {"1", "1.0"}},
    });
}

/// A model that repeats itself would write digits until its context is full.
TEST(JsonSchema, RunsOfDigitsAreBounded) {
    const auto digits = [](size_t n) { return std::string(n, '7'); };
    const std::string many = digits(200);
    check_spellings({
        {R"({"type":"integer"})", {digits(16), "-" + digits(16)}, {digits(17), many}},
        {R"({"type":"integer","minimum":0})", {digits(16)}, {digits(17)}},
        {R"({"type":"integer","minimum":0,"maximum":120})", {"120"}, {"121", "777"}},
        {R"({"type":"integer","minimum":0,"maximum":1000000,"multipleOf":1000})", {"1000000"}, {"1001000"}},
        {R"({"enum":[5,12345678901234567890123]})", {"12345678901234567890123"}, {digits(23)}},
        {R"({"type":"integer","maximum":100000000000000000000})", {digits(20)}, {"100000000000000000001"}},
        {R"({"type":"integer","exclusiveMinimum":9999999999999999})", {"10000000000000000"}, {many}},
        {R"({"type":"integer","multipleOf":7})", {digits(16)}, {digits(17)}},
        {R"({"type":"number"})",
         {digits(21) + "." + digits(21), digits(21) + "e+299"},
         {digits(22), "0." + digits(22), "1e300"}},
        {R"({"type":"number","minimum":0})",
         {digits(21) + "." + digits(21)},
         {digits(22), "0." + digits(22)}},
        {R"({"type":"number","multipleOf":0.01})", {digits(21) + ".25"}, {digits(22) + ".25"}},
        {R"({"type":"object"})", {R"({"a":)" + digits(21) + "}"}, {R"({"a":)" + digits(22) + "}"}},
        {"true", {"[" + digits(21) + "]"}, {"[0." + digits(22) + "]"}},
    });
}

/// When a step has too many remainders for counting digits as well, the schema is enforced without a bound on
/// the digits.
TEST(JsonSchema, LargeStepsAreEnforced) {
    check_spellings({
        {R"({"type":"integer","multipleOf":10007})", {"10007", "-20014", "0"}, {"10008", "10007.0"}},
    });
}

/// The documentation's table and the reader's table contain the same keywords.
TEST(JsonSchema, DocumentedKeywordsAreThoseThatAreRead) {
    const std::string page = read_file(std::string(TSR_SOURCE_DIR) + "/docs/guide/structured-output.md");
    const std::string table =
        page.substr(page.find("| keyword |"), page.find("| anything else") - page.find("| keyword |"));
    std::map<std::string, std::string> meanings;  // of each name in the first column
    std::istringstream rows(table);
    for (std::string row; std::getline(rows, row);) {
        const size_t middle = row.find(" | ", 1);
        for (size_t at = row.find('`'); at < middle; at = row.find('`', row.find('`', at + 1) + 1))
            meanings[row.substr(at + 1, row.find('`', at + 1) - at - 1)] += row.substr(middle);
    }
    meanings.erase("x-...");
    EXPECT_EQ(meanings.size(), grammar::schema_keywords().size());
    for (const grammar::SchemaKeyword& keyword : grammar::schema_keywords()) {
        const std::string& meaning = meanings[std::string(keyword.name)];
        EXPECT_NE(meaning, "") << keyword.name << " is not documented";
        const bool enforced = meaning.find("enforced") != meaning.npos;
        if (keyword.name.starts_with('$')) continue;  // references, which have a row of their own
        EXPECT_EQ(enforced, keyword.use == grammar::SchemaKeyword::Use::Enforced) << keyword.name;
    }
}

/// Each format with another length becomes another automaton; their number is limited.
TEST(JsonSchema, CostlyStringsTogetherAreRefused) {
    std::string properties;
    for (int i = 0; i < 400; i++)
        properties +=
            strf(R"(%s"p%d":{"type":"string","format":"hostname","maxLength":%d})", i ? "," : "", i, i + 1);
    const auto start = std::chrono::steady_clock::now();
    const auto grammar = Grammar::from_json_schema(R"({"type":"object","properties":{)" + properties + "}}");
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    ASSERT_FALSE(grammar.has_value());
    EXPECT_NE(grammar.error().message.find("too many states"), std::string::npos) << grammar.error().message;
    EXPECT_LT(taken.count(), 60);  // some seconds; sanitizers take ten times as long
}

TEST(JsonSchema, EveryTruncationIsRefused) {
    const std::string schema =
        R"({"$defs":{"n":{"type":["integer","null"],"minimum":-1.5e1}},"type":"object","properties":{"é\u00e9\n":)"
        R"({"$ref":"#/$defs/n"},"b":{"pattern":"^[a-z]+$","maxLength":7},"c":{"enum":["x",1.0,true,[null]]}},)"
        R"("required":["b"],"additionalProperties":{"not":{"type":["array","object"]}}})";
    for (size_t n = 0; n < schema.size(); n++) {
        const auto grammar = Grammar::from_json_schema(schema.substr(0, n));
        ASSERT_FALSE(grammar.has_value()) << n;
        EXPECT_TRUE(grammar.error().message.starts_with("JSON schema: ")) << grammar.error().message;
    }
    const auto grammar = Grammar::from_json_schema(schema);
    EXPECT_TRUE(grammar.has_value()) << grammar.error().message;
}

/// 1000 properties on a vocabulary of all bytes and the parts of the keys. The goal is 50 ms for a vocabulary
/// of 128k tokens on an idle machine (measured by grammar_bench); the bound here leaves room for sanitizers.
TEST(JsonSchema, FirstMaskOfManyKeysIsQuick) {
    std::string properties, names;
    std::vector<std::string> texts;
    for (int i = 0; i < 1000; i++) {
        const std::string name = strf("\"property_%04d\"", i);
        properties += (i ? "," : "") + name + R"(:{"type":["string","integer"],"maxLength":40})";
        names += (i ? "," : "") + name;
        texts.push_back(name.substr(0, static_cast<size_t>(2 + i % 14)));
    }
    const auto trie = small_trie(texts);
    for (const std::string& rest :
         {R"(,"additionalProperties":false,"required":[)" + names + "]", std::string()}) {
        const auto start = std::chrono::steady_clock::now();
        const auto grammar =
            Grammar::from_json_schema(R"({"type":"object","properties":{)" + properties + "}" + rest + "}");
        ASSERT_TRUE(grammar.has_value()) << grammar.error().message;
        auto matcher = matcher_for(*grammar, trie);
        ASSERT_TRUE(matcher.accept_bytes("{\"").has_value());
        EXPECT_TRUE(has(mask_of(matcher), 'p'));
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        EXPECT_LT(taken.count(), 2.0);
    }
}

}  // namespace
}  // namespace tessera::test
