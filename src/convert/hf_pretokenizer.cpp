// Converts the steps of a tokenizer.json to an equivalent list of regular expressions, and searches a row of
// src/text/pretokenizers.cpp with the same list.
#include "src/convert/hf_pretokenizer.h"

#include <algorithm>
#include <vector>

#include "common/log.h"
#include "common/strings.h"
#include "src/text/pretokenizers.h"

namespace tessera::convert {

namespace {

constexpr const char* kHint =
    "choose a name from docs/reference/tokenizers.md by --pre NAME if you know that it splits text the same "
    "way";

std::string text_at(const JsonValue& value, std::string_view pointer) {
    const JsonValue* at = find_pointer(value, pointer);
    return at && at->is(JsonValue::Kind::String) ? at->text : "";
}

bool flag_at(const JsonValue& value, std::string_view name, bool usual) {
    const JsonValue* at = value.find(name);
    return at && at->is(JsonValue::Kind::Boolean) ? at->boolean : usual;
}

/// Appends the expressions of one step.
Result<void> add_step(const JsonValue& step, std::vector<std::string>& patterns) {
    const std::string type = text_at(step, "/type");
    if (type == "Sequence") {
        const JsonValue* steps = step.find("pretokenizers");
        if (!steps || !steps->is(JsonValue::Kind::Array))
            return fail(ErrorCode::Malformed, "tokenizer.json: pre_tokenizer: expected a list of steps");
        for (const JsonValue& inner : steps->items) TSR_TRY_VOID(add_step(inner, patterns));
        return {};
    }
    if (type == "ByteLevel") {
        if (flag_at(step, "add_prefix_space", true))
            return fail(ErrorCode::Unsupported,
                        "tokenizer.json: pre_tokenizer: ByteLevel with add_prefix_space is not supported");
        if (flag_at(step, "use_regex", true))
            patterns.emplace_back(text::find_pre_tokenizer("gpt-2")->patterns[0]);
        return {};
    }
    if (type == "Digits") {
        patterns.emplace_back(flag_at(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
        return {};
    }
    if (type == "Split") {
        const std::string regex = text_at(step, "/pattern/Regex"), behavior = text_at(step, "/behavior");
        const bool inverted = flag_at(step, "invert", false);
        const bool keeps_matches = behavior == "Isolated" || (behavior == "Removed" && inverted);
        if (!regex.empty() && keeps_matches) {
            patterns.push_back(regex);
            return {};
        }
        return fail(ErrorCode::Unsupported,
                    "tokenizer.json: pre_tokenizer: Split with behavior '%s'%s is not recognized; %s",
                    printable(behavior).c_str(), regex.empty() ? " and no Regex" : "", kHint);
    }
    return fail(ErrorCode::Unsupported, "tokenizer.json: pre_tokenizer: step '%s' is not recognized; %s",
                printable(type).c_str(), kHint);
}

}  // namespace

Result<std::string> recognise_pre_tokenizer(const JsonValue& tokenizer) {
    const JsonValue* rules = tokenizer.find("pre_tokenizer");
    if (!rules || !rules->is(JsonValue::Kind::Object))
        return fail(ErrorCode::Unsupported, "tokenizer.json: pre_tokenizer: expected rules, found none; %s",
                    kHint);
    std::vector<std::string> patterns;
    TSR_TRY_VOID(add_step(*rules, patterns));
    const JsonValue* model = tokenizer.find("model");
    const bool whole_words = model && flag_at(*model, "ignore_merges", false);
    const text::PreTokenizer* near = nullptr;
    for (const text::PreTokenizer& row : text::pre_tokenizers()) {
        if (!std::equal(patterns.begin(), patterns.end(), row.patterns.begin(), row.patterns.end())) continue;
        if (row.whole_words == whole_words && !row.ranks_are_ids) return std::string(row.name);
        if (!near) near = &row;
    }
    if (near)
        return fail(ErrorCode::Unsupported,
                    "tokenizer.json: the text is split like '%s', but ignore_merges is %s; %s",
                    std::string(near->name).c_str(), whole_words ? "true" : "false", kHint);
    std::string list;
    for (const std::string& pattern : patterns)
        list += (list.empty() ? "\"" : ", \"") + printable(pattern, 200) + "\"";
    return fail(ErrorCode::Unsupported,
                "tokenizer.json: pre_tokenizer: no known pre-tokenizer splits text by the rules %s; %s",
                list.empty() ? "(none)" : list.c_str(), kHint);
}

}  // namespace tessera::convert
