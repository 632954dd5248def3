// Parses and checks sampling parameters, and renders their table. The rows are in the samplers' files and
// registry.cpp. Values are doubles, so integers are exact up to 2^53, which every row's range respects. Next:
// registry.cpp (the rows), chain.cpp (their use).
#include "src/sample/params.h"

#include <cmath>
#include <optional>

#include "common/strings.h"
#include "src/sample/sampler.h"
#include "src/sample/string_list.h"

namespace tessera::sample {

namespace {

std::string format_number(double value) { return strf("%.16g", value); }

tl::unexpected<Error> unknown_name(std::string_view name) {
    std::vector<std::string_view> names;
    for (const ParamInfo& param : all_params()) names.push_back(param.name);
    const std::string_view nearest = nearest_name(name, names);
    const std::string shown = printable(name);
    if (nearest.empty()) {
        return fail(ErrorCode::InvalidArgument, "'%s' is not a sampling parameter", shown.c_str());
    }
    return fail(ErrorCode::InvalidArgument, "'%s' is not a sampling parameter; did you mean '%s'?",
                shown.c_str(), std::string(nearest).c_str());
}

tl::unexpected<Error> bad_number(const ParamInfo& param, const std::string& found) {
    return fail(ErrorCode::InvalidArgument, "%s: expected a %s from %s to %s, found %s",
                std::string(param.name).c_str(), param.kind == ParamKind::Int ? "whole number" : "number",
                format_number(param.min).c_str(), format_number(param.max).c_str(), found.c_str());
}

bool fits(const ParamInfo& param, double value) {
    const bool in_range = value >= param.min && value <= param.max;  // false for NaN
    return in_range && (param.kind != ParamKind::Int || value == std::trunc(value));
}

/// A bar ends a table cell even within backquotes.
std::string escape_bars(std::string_view text) {
    std::string out;
    for (char c : text) {
        if (c == '|') out += '\\';
        out += c;
    }
    return out;
}

size_t index_of(const ParamInfo& param) { return static_cast<size_t>(&param - all_params().data()); }

}  // namespace

const ParamInfo* find_param(std::string_view name) {
    for (const ParamInfo& param : all_params()) {
        if (name == param.name || (name.starts_with("--") && name == flag_of(param))) return &param;
    }
    return nullptr;
}

std::string flag_of(const ParamInfo& param) {
    if (!param.flag.empty()) return std::string(param.flag);
    std::string flag = "--";
    flag += param.name;
    for (char& c : flag) {
        if (c == '_') c = '-';
    }
    return flag;
}

std::string default_of(const ParamInfo& param) {
    if (param.is_number()) return format_number(param.default_value);
    return param.default_text.empty() ? "empty" : std::string(param.default_text);
}

Params::Params() {
    for (const ParamInfo& param : all_params())
        values_.push_back({param.default_value, std::string(param.default_text), false});
}

Result<void> Params::set(std::string_view name, std::string_view text) {
    const ParamInfo* param = find_param(name);
    if (!param) return unknown_name(name);
    Value& slot = values_[index_of(*param)];
    if (param->is_number()) {
        const std::optional<double> value = parse_double(text);
        if (!value || !fits(*param, *value)) return bad_number(*param, strf("'%s'", printable(text).c_str()));
        slot.number = *value;
    } else {
        TSR_TRY_VOID(param->check(text));
        slot.text = text;
    }
    slot.given = true;
    return {};
}

Result<void> Params::set(std::string_view name, double value) {
    const ParamInfo* param = find_param(name);
    if (!param) return unknown_name(name);
    if (!param->is_number()) {
        return fail(ErrorCode::InvalidArgument, "%s: expected text such as %s, found the number %s",
                    std::string(param->name).c_str(), std::string(param->form).c_str(),
                    format_number(value).c_str());
    }
    if (!fits(*param, value)) return bad_number(*param, format_number(value));
    values_[index_of(*param)].number = value;
    values_[index_of(*param)].given = true;
    return {};
}

Result<void> Params::set(std::string_view name, std::span<const std::string> strings) {
    const ParamInfo* param = find_param(name);
    if (!param) return unknown_name(name);
    if (param->kind != ParamKind::List) {
        return fail(ErrorCode::InvalidArgument, "%s: expected a single value, found a list of %zu strings",
                    std::string(param->name).c_str(), strings.size());
    }
    for (const std::string& string : strings) {  // an empty string cannot be written in a list
        if (string.empty())
            return fail(ErrorCode::InvalidArgument, "%s: expected strings that are not empty",
                        std::string(param->name).c_str());
    }
    return set(name, std::string_view(format_string_list(strings)));
}

bool Params::given(std::string_view name) const {
    const ParamInfo* param = find_param(name);
    return param && values_[index_of(*param)].given;
}

void Params::forget_given(std::string_view name) { values_[index_of(*find_param(name))].given = false; }

double Params::number(std::string_view name) const {
    const ParamInfo* param = find_param(name);
    TSR_CHECK(param && param->is_number());
    return values_[index_of(*param)].number;
}

const std::string& Params::text(std::string_view name) const {
    const ParamInfo* param = find_param(name);
    TSR_CHECK(param && !param->is_number());
    return values_[index_of(*param)].text;
}

std::vector<std::string> Params::list(std::string_view name) const {
    auto strings = parse_string_list(text(name));
    TSR_CHECK(strings);  // checked by set() and, for the defaults, by the tests
    return *strings;
}

std::string params_markdown() {
    std::string out =
        "| JSON field | flag | kind | default | range or form | meaning |\n"
        "|---|---|---|---|---|---|\n";
    constexpr const char* kKinds[] = {"int", "float", "text", "list"};
    for (const ParamInfo& param : all_params()) {
        const bool coded = !param.is_number() && !param.default_text.empty();
        const std::string value = coded ? "`" + escape_bars(param.default_text) + "`" : default_of(param);
        const std::string range = param.is_number() ? strf("%s to %s", format_number(param.min).c_str(),
                                                           format_number(param.max).c_str())
                                                    : strf("`%s`", escape_bars(param.form).c_str());
        out += strf("| `%s` | `%s` | %s | %s | %s | %s |\n", std::string(param.name).c_str(),
                    flag_of(param).c_str(), kKinds[static_cast<size_t>(param.kind)], value.c_str(),
                    range.c_str(), std::string(param.help).c_str());
    }
    return out;
}

std::string order_markdown() {
    constexpr size_t kPerLine = 7;
    std::string out;
    for (size_t i = 0; const SamplerInfo& sampler : all_samplers()) {
        if (i > 0) out += i % kPerLine == 0 ? "\n    → " : " → ";
        out += sampler.name;
        i++;
    }
    return out;
}

}  // namespace tessera::sample
