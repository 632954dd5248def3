// JSON schema: the reference instances and refusals, error places, limits.
#include <map>

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

struct Counts {
    size_t schemas = 0, refused = 0, valid = 0, out_of_order = 0, out_of_order_taken = 0, invalid = 0,
           not_json = 0;
};

void check_case(const Json& item, JsonLayout layout, Counts& counts) {
    const auto grammar = Grammar::from_json_schema(item["schema"].dump(), {.layout = layout});
    if (!grammar) {
        counts.refused++;
        // Refusing is right only where nothing is valid, or where the message says what cannot be enforced.
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
        counts.valid++;
        EXPECT_TRUE(accepts(matcher, text)) << text;
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
        std::printf(
            "json-schema: %zu schemas enforced, %zu refused; %zu valid accepted; %zu of %zu in another order "
            "accepted; %zu invalid and %zu not JSON rejected\n",
            counts.schemas, counts.refused, counts.valid, counts.out_of_order_taken, counts.out_of_order,
            counts.invalid, counts.not_json);
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

}  // namespace
}  // namespace tessera::test
