// Parses recipes from JSON, as strictly as device descriptions. Weight formats are defined in weights.h, the
// names of activations in graph.h.
#include "src/npu/recipe.h"

#include <algorithm>

#include "common/digest.h"
#include "common/json.h"
#include "common/strings.h"
#include "src/npu/json_fields.h"
#include "src/npu/shipped.h"

namespace tessera::npu {

namespace {

using Kind = WeightRecipe::Kind;

constexpr std::pair<std::string_view, Kind> kWeightNames[] = {
    {"i8", Kind::Int8}, {"lpbq4", Kind::Lpbq}, {"signed-lpbq4", Kind::SignedLpbq}};
constexpr std::pair<std::string_view, int> kActivationNames[] = {{"u8", 8}, {"u16", 16}};
constexpr std::pair<std::string_view, OutputMode> kOutputNames[] = {{"exact", OutputMode::Exact},
                                                                    {"hmx", OutputMode::Hmx}};
constexpr size_t kMaxExceptions = 256;

/// Looks up a string in a table of names and values.
template <class T, size_t n>
Result<T> one_of(const std::pair<std::string_view, T> (&table)[n], const std::string& field,
                 const JsonValue& value) {
    std::string names;
    for (const auto& [name, row] : table) {
        if (value.is(JsonValue::Kind::String) && value.text == name) return row;
        names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    }
    return wrong_field(field, "one of " + names, value);
}

/// Checks that the object has only the members in `known`.
Result<void> check_members(const JsonValue& object, const std::string& place,
                           std::initializer_list<std::string_view> known) {
    if (!object.is(JsonValue::Kind::Object)) return wrong_field(place, "an object", object);
    for (const auto& [name, value] : object.members)
        if (std::find(known.begin(), known.end(), name) == known.end()) return unknown_field(name, known);
    return {};
}

/// The weight recipe from an object's "w" and "block", if given.
Result<std::optional<WeightRecipe>> read_weight(const JsonValue& object, const std::string& place) {
    const JsonValue *w = object.find("w"), *block = object.find("block");
    const std::string block_name = place + ".block";
    if (!w) {
        if (block) return wrong_field(block_name, "nothing without \"w\"", *block);
        return std::optional<WeightRecipe>();
    }
    TSR_TRY(const Kind kind, one_of(kWeightNames, place + ".w", *w));
    if (kind == Kind::Int8) {
        if (block) return wrong_field(block_name, "nothing beside \"i8\"", *block);
        return std::optional(WeightRecipe{});
    }
    if (!block) return missing_field(block_name);
    const auto n = block->is(JsonValue::Kind::Number) ? parse_int(block->text) : std::nullopt;
    if (!n || (*n != 16 && *n != 32 && *n != 64)) return wrong_field(block_name, "16, 32 or 64", *block);
    return std::optional(WeightRecipe{kind, *n});
}

Result<std::optional<int>> read_bits(const JsonValue& object, const std::string& place) {
    const JsonValue* a = object.find("a");
    if (!a) return std::optional<int>();
    TSR_TRY(const int bits, one_of(kActivationNames, place + ".a", *a));
    return std::optional(bits);
}

Result<Pattern> read_pattern(const JsonValue& object, const std::string& place) {
    const JsonValue* re = object.find("re");
    if (!re) return missing_field(place + ".re");
    if (!re->is(JsonValue::Kind::String) || re->text.empty())
        return wrong_field(place + ".re", "a regular expression", *re);
    auto pattern = Pattern::compile(re->text);
    if (!pattern) return fail_in("'" + place + ".re'", std::move(pattern.error()));
    return pattern;
}

Result<Recipe::Exception> read_exception(const JsonValue& object, const std::string& place) {
    TSR_TRY_VOID(check_members(object, place, {"re", "w", "block", "a"}));
    TSR_TRY(Pattern pattern, read_pattern(object, place));
    TSR_TRY(const auto weight, read_weight(object, place));
    TSR_TRY(const auto bits, read_bits(object, place));
    if (!weight && !bits) return wrong_field(place, "\"w\" or \"a\"", object);
    return Recipe::Exception{object.find("re")->text, std::move(pattern), weight, bits};
}

std::string bits_name(int bits) { return "u" + std::to_string(bits); }

}  // namespace

WeightRecipe Recipe::weight_of(const std::string& tensor) const {
    for (const Exception& exception : exceptions)
        if (exception.weight && exception.pattern.found_in(tensor)) return *exception.weight;
    return weight;
}

int Recipe::bits_of(const std::string& activation) const {
    for (const Exception& exception : exceptions)
        if (exception.bits && exception.pattern.found_in(activation)) return *exception.bits;
    return bits;
}

std::string Recipe::canonical_text() const {
    std::string text = "default w=" + weight.name() + " a=" + bits_name(bits) + " kv=u8" +
                       (output == OutputMode::Hmx ? " output=hmx\n" : "\n");
    for (const Exception& exception : exceptions)
        text += "override" + (exception.weight ? " w=" + exception.weight->name() : "") +
                (exception.bits ? " a=" + bits_name(*exception.bits) : "") + " re=" + exception.text + "\n";
    return text;
}

uint64_t Recipe::hash() const {
    Xxh64 digest;
    const std::string text = canonical_text();
    digest.add(std::as_bytes(std::span(text)));
    return digest.value();
}

Result<Recipe> parse_recipe(std::string_view json) {
    TSR_TRY(const JsonValue root, parse_json(json));
    TSR_TRY_VOID(check_object(root));
    TSR_TRY_VOID(check_members(root, "", {"default", "kv", "output", "override"}));
    const JsonValue *defaults = root.find("default"), *kv = root.find("kv"), *list = root.find("override"),
                    *output = root.find("output");
    if (!defaults) return missing_field("default");
    if (!kv) return missing_field("kv");
    TSR_TRY_VOID(check_members(*defaults, "default", {"w", "block", "a"}));
    TSR_TRY(const auto weight, read_weight(*defaults, "default"));
    TSR_TRY(const auto bits, read_bits(*defaults, "default"));
    if (!weight) return missing_field("default.w");
    if (!bits) return missing_field("default.a");
    if (!kv->is(JsonValue::Kind::String) || kv->text != "u8") return wrong_field("kv", "\"u8\"", *kv);
    Recipe recipe{.weight = *weight, .bits = *bits, .exceptions = {}};
    if (output) {
        TSR_TRY(recipe.output, one_of(kOutputNames, "output", *output));
    }
    if (!list) return recipe;
    if (!list->is(JsonValue::Kind::Array) || list->items.size() > kMaxExceptions)
        return wrong_field("override", "an array of up to 256 objects", *list);
    for (const JsonValue& item : list->items) {
        TSR_TRY(Recipe::Exception exception,
                read_exception(item, "override[" + std::to_string(recipe.exceptions.size()) + "]"));
        recipe.exceptions.push_back(std::move(exception));
    }
    return recipe;
}

std::span<const std::string_view> shipped_recipes() {
    static const std::vector<std::string_view> names = names_of(shipped_recipe_files());
    return names;
}

Result<Recipe> open_recipe(const std::string& name_or_path) {
    return open_shipped("recipe", shipped_recipe_files(), name_or_path, parse_recipe);
}

}  // namespace tessera::npu
