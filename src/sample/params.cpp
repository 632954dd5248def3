// Reads and checks sampling parameters, and renders their table. Owns no rows: those lie with the samplers
// and in registry.cpp. Values are doubles, so whole numbers are exact up to 2^53; every row's range keeps to
// that. Next: registry.cpp (the rows), chain.cpp (their use).
#include "src/sample/params.h"

#include <cmath>
#include <optional>

#include "common/strings.h"
#include "src/sample/sampler.h"

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

Params::Params() {
    for (const ParamInfo& param : all_params()) values_.push_back({param.default_value, {}});
}

Result<void> Params::set(std::string_view name, std::string_view text) {
    const ParamInfo* param = find_param(name);
    if (!param) return unknown_name(name);
    if (param->kind == ParamKind::Text) {
        TSR_TRY_VOID(param->check(text));
        values_[index_of(*param)].text = text;
        return {};
    }
    const std::optional<double> value = parse_double(text);
    if (!value || !fits(*param, *value)) return bad_number(*param, strf("'%s'", printable(text).c_str()));
    values_[index_of(*param)].number = *value;
    return {};
}

Result<void> Params::set(std::string_view name, double value) {
    const ParamInfo* param = find_param(name);
    if (!param) return unknown_name(name);
    if (param->kind == ParamKind::Text) {
        return fail(ErrorCode::InvalidArgument, "%s: expected text such as %s, found the number %s",
                    std::string(param->name).c_str(), std::string(param->form).c_str(),
                    format_number(value).c_str());
    }
    if (!fits(*param, value)) return bad_number(*param, format_number(value));
    values_[index_of(*param)].number = value;
    return {};
}

double Params::number(std::string_view name) const {
    const ParamInfo* param = find_param(name);
    TSR_CHECK(param && param->kind != ParamKind::Text);
    return values_[index_of(*param)].number;
}

const std::string& Params::text(std::string_view name) const {
    const ParamInfo* param = find_param(name);
    TSR_CHECK(param && param->kind == ParamKind::Text);
    return values_[index_of(*param)].text;
}

std::string params_markdown() {
    std::string out =
        "| JSON field | flag | kind | default | range or form | meaning |\n"
        "|---|---|---|---|---|---|\n";
    for (const ParamInfo& param : all_params()) {
        const bool is_text = param.kind == ParamKind::Text;
        const char* kind = is_text ? "text" : param.kind == ParamKind::Int ? "int" : "float";
        const std::string value = is_text ? "empty" : format_number(param.default_value);
        const std::string range =
            is_text ? strf("`%s`", escape_bars(param.form).c_str())
                    : strf("%s to %s", format_number(param.min).c_str(), format_number(param.max).c_str());
        out +=
            strf("| `%s` | `%s` | %s | %s | %s | %s |\n", std::string(param.name).c_str(),
                 flag_of(param).c_str(), kind, value.c_str(), range.c_str(), std::string(param.help).c_str());
    }
    return out;
}

}  // namespace tessera::sample
