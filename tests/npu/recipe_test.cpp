// Recipes: those in the program, the precedence of exceptions, and errors for invalid ones.
#include "src/npu/recipe.h"

#include <gtest/gtest.h>

#include <set>

#include "src/npu/shipped.h"

namespace tessera::npu {
namespace {

std::string json_of(std::string_view name) {
    for (const ShippedFile& file : shipped_recipe_files())
        if (file.name == name) return std::string(file.json);
    return {};
}

std::string recipe_error(const std::string& json) {
    const auto recipe = parse_recipe(json);
    return recipe ? "none" : recipe.error().message;
}

TEST(Recipe, ShippedOnesSayWhatTheirNamesSay) {
    std::set<uint64_t> hashes;
    for (const std::string_view name : shipped_recipes()) {
        const auto recipe = open_recipe(std::string(name));
        ASSERT_TRUE(recipe) << name << ": " << recipe.error().message;
        hashes.insert(recipe->hash());
        EXPECT_EQ(recipe->weight.has_blocks(), name.starts_with("w4")) << name;
        EXPECT_EQ(recipe->bits, name.ends_with("a8") ? 8 : 16) << name;
        EXPECT_EQ(recipe->weight_of("output.weight").name(), "int8") << name;
    }
    EXPECT_EQ(hashes.size(), shipped_recipes().size());
    EXPECT_EQ(open_recipe("w4a16")->weight_of("blk.0.ffn_down.weight").name(), "lpbq32");
    EXPECT_EQ(open_recipe("w4a16")->weight_of("blk.0.attn_output.weight").name(), "lpbq32");
    EXPECT_EQ(open_recipe("w8a8")->bits_of("blk.3.ff"), 8);
    for (const std::string_view name : shipped_recipes())
        EXPECT_EQ(open_recipe(std::string(name))->output == OutputMode::Hmx, name.ends_with("-hmx")) << name;
    for (const char* wide : {"x", "blk.0.x", "blk.0.x.2", "blk.7.scores", "logits"})
        EXPECT_EQ(open_recipe("w8a8")->bits_of(wide), 16) << wide;
}

TEST(Recipe, TheFirstMatchingExceptionDecides) {
    const auto recipe = parse_recipe(R"({"default": {"w": "lpbq4", "block": 64, "a": "u16"}, "kv": "u8",
        "override": [{"re": "blk\\.[0-3]\\.", "a": "u8"},
                     {"re": "ffn_down", "w": "i8"},
                     {"re": "blk.0", "w": "signed-lpbq4", "block": 16, "a": "u16"}]})");
    ASSERT_TRUE(recipe) << recipe.error().message;
    EXPECT_EQ(recipe->weight_of("blk.0.ffn_down.weight").name(), "int8");
    EXPECT_EQ(recipe->weight_of("blk.0.ffn_up.weight").name(), "signed-lpbq16");
    EXPECT_EQ(recipe->weight_of("blk.4.ffn_up.weight").name(), "lpbq64");
    EXPECT_EQ(recipe->bits_of("blk.0.x"), 8);
    EXPECT_EQ(recipe->bits_of("blk.4.x"), 16);
    EXPECT_EQ(recipe->canonical_text(),
              "default w=lpbq64 a=u16 kv=u8\noverride a=u8 re=blk\\.[0-3]\\.\noverride w=int8 "
              "re=ffn_down\noverride w=signed-lpbq16 a=u16 re=blk.0\n");
}

TEST(Recipe, HashCoversAllFields) {
    const auto a = parse_recipe(R"({"default":{"w":"i8","a":"u16"},"kv":"u8"})");
    const auto b = parse_recipe(R"({"kv": "u8", "override": [], "default": {"a": "u16", "w": "i8"}})");
    const auto c = parse_recipe(R"({"default":{"w":"i8","a":"u8"},"kv":"u8"})");
    ASSERT_TRUE(a && b && c);
    const auto exact = parse_recipe(R"({"default":{"w":"i8","a":"u16"},"kv":"u8","output":"exact"})");
    const auto hmx = parse_recipe(R"({"default":{"w":"i8","a":"u16"},"kv":"u8","output":"hmx"})");
    ASSERT_TRUE(exact && hmx);
    EXPECT_EQ(exact->hash(), a->hash());
    EXPECT_NE(hmx->hash(), a->hash());
    EXPECT_EQ(a->hash(), b->hash());
    EXPECT_NE(a->hash(), c->hash());
}

TEST(Recipe, WrongFieldsAreNamed) {
    const auto with = [](const std::string& override) {
        return R"({"default":{"w":"i8","a":"u16"},"kv":"u8","override":[)" + override + "]}";
    };
    const std::pair<std::string, const char*> cases[] = {
        {"[]", "expected an object, found array"},
        {"{}", "the field 'default' is missing"},
        {R"({"default": {"w": "i8", "a": "u16"}})", "the field 'kv' is missing"},
        {R"({"default": {"w": "i8", "a": "u16"}, "kv": "f16"})", "'kv': expected \"u8\", found \"f16\""},
        {R"({"default": {"w": "i8", "a": "u16"}, "kv": "u8", "output": "fast"})",
         "'output': expected one of \"exact\", \"hmx\", found \"fast\""},
        {R"({"default": {"w": "i8", "a": "u16"}, "kv": "u8", "overide": []})",
         "unknown field 'overide'; did you mean 'override'?"},
        {R"({"default": 3, "kv": "u8"})", "'default': expected an object, found 3"},
        {R"({"default": {"a": "u16"}, "kv": "u8"})", "the field 'default.w' is missing"},
        {R"({"default": {"w": "i8"}, "kv": "u8"})", "the field 'default.a' is missing"},
        {R"({"default": {"w": "i4", "a": "u16"}, "kv": "u8"})",
         "'default.w': expected one of \"i8\", \"lpbq4\", \"signed-lpbq4\", found \"i4\""},
        {R"({"default": {"w": "lpbq4", "a": "u16"}, "kv": "u8"})", "the field 'default.block' is missing"},
        {R"({"default": {"w": "lpbq4", "block": 48, "a": "u16"}, "kv": "u8"})",
         "'default.block': expected 16, 32 or 64, found 48"},
        {R"({"default": {"w": "i8", "block": 32, "a": "u16"}, "kv": "u8"})",
         "'default.block': expected nothing beside \"i8\", found 32"},
        {R"({"default": {"w": "i8", "a": 16}, "kv": "u8"})", "'default.a': expected one of \"u8\", \"u16\""},
        {R"({"default": {"w": "i8", "a": "u16"}, "kv": "u8", "override": {}})",
         "'override': expected an array of up to 256 objects"},
        {with("7"), "'override[0]': expected an object, found 7"},
        {with(R"({"w": "i8"})"), "the field 'override[0].re' is missing"},
        {with(R"({"re": "a"})"), "'override[0]': expected \"w\" or \"a\""},
        {with(R"({"re": "a", "block": 32})"), "'override[0].block': expected nothing without \"w\""},
        {with(R"({"re": "a", "b": 32})"), "unknown field 'b'"},
        {with(R"({"re": "(", "w": "i8"})"), "'override[0].re'"},
        {with(R"({"re": "", "w": "i8"})"), "'override[0].re': expected a regular expression"},
        {with(R"({"re": 7, "w": "i8"})"), "'override[0].re': expected a regular expression"},
        {with(R"({"re": ")" + std::string(1025, 'a') + R"(", "w": "i8"})"), "'override[0].re'"},
        {with(R"({"re": "a", "re": "b", "w": "i8"})"), "twice"},
        {with(R"({"re": "a", "w": "i8"}, {"re": "a", "a": "u9"})"), "'override[1].a'"},
    };
    for (const auto& [json, says] : cases)
        EXPECT_NE(recipe_error(json).find(says), std::string::npos) << json << ": " << recipe_error(json);
}

TEST(Recipe, NoPrefixIsARecipe) {
    std::string json = json_of("w4a16");
    while (json.back() == '\n') json.pop_back();
    ASSERT_TRUE(parse_recipe(json));
    for (size_t n = 0; n < json.size(); ++n)
        ASSERT_FALSE(parse_recipe(std::string_view(json).substr(0, n))) << n;
}

TEST(Recipe, UnknownNameListsTheShippedOnes) {
    const auto recipe = open_recipe("no-such-recipe");
    ASSERT_FALSE(recipe);
    EXPECT_EQ(recipe.error().code, ErrorCode::NotFound);
    EXPECT_NE(recipe.error().message.find("recipe 'no-such-recipe'"), std::string::npos);
    EXPECT_NE(recipe.error().message.find("w4a16"), std::string::npos);
}

}  // namespace
}  // namespace tessera::npu
