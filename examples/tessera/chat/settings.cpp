// Settings of the chat itself are rows of a table here; those of sampling are the library's own rows, whose
// ranges are checked at once, and whose texts when the next answer is asked for.
#include "examples/tessera/chat/settings.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "common/strings.h"

namespace tessera::repl {

namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;

/// One setting: get() is what set() takes.
struct Row {
    const char* name;
    const char* expected;
    const char* help;
    bool (*set)(Settings& settings, std::string_view value);
    std::string (*get)(const Settings& settings);
};

/// Index of a name in a list, or nothing.
std::optional<size_t> choice(std::string_view value, std::initializer_list<std::string_view> names) {
    const auto at = std::find(names.begin(), names.end(), value);
    if (at == names.end()) return std::nullopt;
    return static_cast<size_t>(at - names.begin());
}

bool set_flag(bool& flag, std::optional<size_t> which) {
    if (which) flag = *which == 1;
    return which.has_value();
}

constexpr Row kRows[] = {
    {"n_predict", "-1 or a whole number from 1", "Tokens of an answer; -1: until the model ends it.",
     [](Settings& settings, std::string_view value) {
         const std::optional<int64_t> n = parse_int(value);
         const bool fits = n && (*n == -1 || (*n >= 1 && *n <= kMostTokens));
         if (fits) settings.n_predict = *n;
         return fits;
     },
     [](const Settings& settings) { return std::to_string(settings.n_predict); }},
    {"reasoning", "show or hide", "Whether reasoning is shown as it comes.",
     [](Settings& settings, std::string_view value) {
         return set_flag(settings.shows_reasoning, choice(value, {"hide", "show"}));
     },
     [](const Settings& settings) { return std::string(settings.shows_reasoning ? "show" : "hide"); }},
    {"stats", "on or off", "A line of figures below each answer.",
     [](Settings& settings, std::string_view value) {
         return set_flag(settings.shows_stats, choice(value, {"off", "on"}));
     },
     [](const Settings& settings) { return std::string(settings.shows_stats ? "on" : "off"); }},
    {"think", "auto, on or off", "Whether the model reasons first, where its template has a switch.",
     [](Settings& settings, std::string_view value) {
         constexpr int kValues[] = {TSR_DEFAULT, TSR_YES, TSR_NO};
         const auto which = choice(value, {"auto", "on", "off"});
         if (which) settings.think = kValues[*which];
         return which.has_value();
     },
     [](const Settings& settings) {
         return std::string(settings.think == TSR_YES ? "on" : settings.think == TSR_NO ? "off" : "auto");
     }},
};

std::vector<tsr_param_info> sampling_rows(const tsr_model* model) {
    std::vector<tsr_param_info> out;
    tsr_param_info info{};
    info.size = sizeof info;
    const auto row = [&](size_t i) {
        return model ? tsr_model_sampling_param(model, i, &info, nullptr)
                     : tsr_sampling_param(i, &info, nullptr);
    };
    while (row(out.size()) == TSR_OK) out.push_back(info);
    return out;
}

Result<void> check_number(const tsr_param_info& info, std::string_view value) {
    const std::optional<double> number = parse_double(value);
    if (number && *number >= info.min && *number <= info.max) return {};
    return fail(ErrorCode::InvalidArgument, "%s: expected a number from %.16g to %.16g, found '%s'",
                info.name, info.min, info.max, printable(value).c_str());
}

std::string table_line(std::string_view name, const std::string& value, bool is_set, const char* help) {
    return strf("%c %-22s %-12s %s\n", is_set ? '*' : ' ', std::string(name).c_str(), value.c_str(), help);
}

}  // namespace

Result<void> Settings::set(std::string_view name, std::string_view value) {
    const bool to_default = value == "default";
    std::vector<std::string_view> names;
    for (const Row& row : kRows) {
        names.push_back(row.name);
        if (name != row.name) continue;
        const std::string text = to_default ? row.get(Settings()) : std::string(value);
        if (row.set(*this, text)) return {};
        return fail(ErrorCode::InvalidArgument, "%s: expected %s, found '%s'", row.name, row.expected,
                    printable(value).c_str());
    }
    for (const tsr_param_info& info : sampling_rows(nullptr)) {
        names.push_back(info.name);
        if (name != info.name) continue;
        if (to_default) {
            sampling_.erase(info.name);
            return {};
        }
        if (!info.is_text) TSR_TRY_VOID(check_number(info, value));
        sampling_[info.name] = value;
        return {};
    }
    const std::string_view nearest = nearest_name(name, names);
    const std::string hint = nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?";
    return fail(ErrorCode::NotFound, "there is no setting '%s'%s", printable(name).c_str(), hint.c_str());
}

std::map<std::string, std::string> Settings::changed() const {
    std::map<std::string, std::string> out = sampling_;
    for (const Row& row : kRows)
        if (row.get(*this) != row.get(Settings())) out[row.name] = row.get(*this);
    return out;
}

Result<void> Settings::replace(const std::map<std::string, std::string>& values) {
    Settings replaced;
    for (const auto& [name, value] : values) TSR_TRY_VOID(replaced.set(name, value));
    *this = replaced;
    return {};
}

std::string Settings::table(const tessera_api::Model& model) const {
    std::string out;
    for (const Row& row : kRows)
        out += table_line(row.name, row.get(*this), row.get(*this) != row.get(Settings()), row.help);
    for (const tsr_param_info& info : sampling_rows(model.get())) {
        const auto at = sampling_.find(info.name);
        const std::string preset = info.is_text ? printable(info.default_text ? info.default_text : "")
                                                : strf("%g", info.default_value);
        out += table_line(info.name, at == sampling_.end() ? preset : printable(at->second),
                          at != sampling_.end(), info.help);
    }
    return out;
}

}  // namespace tessera::repl
