// Settings of the chat itself are rows of a table in this file; those of sampling are the library's own rows,
// whose numbers are checked at once and whose texts when the next answer is generated.
#include "examples/tessera/chat/settings.h"

#include <algorithm>
#include <iterator>

#include "common/strings.h"
#include "examples/tessera/chat/word_wrap.h"
#include "examples/tessera/console.h"
#include "examples/tessera/sampling_flags.h"

namespace tessera::repl {

namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;

/// One setting of the chat. `values` are separated by "|"; empty: a number or a text. set() says whether the
/// value is one of the expected ones; get() returns a text that set() accepts.
struct Row {
    const char* name;
    const char* values;
    const char* expected;
    const char* help;
    Result<bool> (*set)(Settings& settings, std::string_view value);
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

const char* on_off(bool on) { return on ? "on" : "off"; }

struct FormatKind {
    const char* name;
    tsr_grammar_kind kind;
};
constexpr FormatKind kFormats[] = {{"json", TSR_GRAMMAR_JSON_OBJECT},
                                   {"schema", TSR_GRAMMAR_JSON_SCHEMA},
                                   {"grammar", TSR_GRAMMAR_GBNF},
                                   {"regex", TSR_GRAMMAR_REGEX}};

/// "json", "schema TEXT|@FILE", ... Compiles the text, so that its errors are reported here. Only with
/// `reads_files` does @ stand for a file's contents.
Result<bool> set_format_from(Settings& settings, std::string_view value, bool reads_files) {
    const std::string_view name = value.substr(0, value.find_first_of(" \t"));
    const std::string_view rest = trim(value.substr(name.size()));
    if (name == "text" && rest.empty()) {
        settings.format = {};
        return true;
    }
    for (const FormatKind& row : kFormats) {
        if (name != row.name) continue;
        const bool takes_text = row.kind != TSR_GRAMMAR_JSON_OBJECT;
        if (takes_text == rest.empty()) return false;
        AnswerFormat format{row.kind, std::string(rest)};
        if (reads_files && rest.starts_with('@')) {
            TSR_TRY(format.text, console::read_all(std::string(rest.substr(1))));
        }
        tsr_grammar_options options{};
        options.kind = row.kind;
        options.text = format.text.data();
        options.n_text = format.text.size();
        try {
            const tessera_api::Grammar compiled(options);
        } catch (const tessera_api::Error& error) {
            return fail(ErrorCode::Malformed, "format: %s: %s", row.name, error.what());
        }
        settings.format = std::move(format);
        return true;
    }
    return false;
}

Result<bool> set_format(Settings& settings, std::string_view value) {
    return set_format_from(settings, value, true);
}

constexpr Row kRows[] = {
    {"n_predict", "", "-1 or a whole number from 1", "Most tokens of an answer; -1: until the model ends it.",
     [](Settings& settings, std::string_view value) -> Result<bool> {
         const std::optional<int64_t> n = parse_int(value);
         const bool fits = n && (*n == -1 || (*n >= 1 && *n <= kMostTokens));
         if (fits) settings.n_predict = *n;
         return fits;
     },
     [](const Settings& settings) { return std::to_string(settings.n_predict); }},
    {"format", "text|json|schema|grammar|regex",
     "text, json, schema TEXT|@FILE, grammar TEXT|@FILE or regex TEXT|@FILE",
     "The form of answers: text, json, schema TEXT|@FILE, grammar TEXT|@FILE, regex TEXT|@FILE.", set_format,
     [](const Settings& settings) { return settings.format.name(); }},
    {"compact_json", "on|off", "on or off", "No white space in JSON, where the format is json or schema.",
     [](Settings& settings, std::string_view value) -> Result<bool> {
         return set_flag(settings.compact_json, choice(value, {"off", "on"}));
     },
     [](const Settings& settings) { return std::string(on_off(settings.compact_json)); }},
    {"think", "auto|on|off", "auto, on or off",
     "Reasoning before the answer, if the model's template can switch it.",
     [](Settings& settings, std::string_view value) -> Result<bool> {
         constexpr int kValues[] = {TSR_DEFAULT, TSR_YES, TSR_NO};
         const auto which = choice(value, {"auto", "on", "off"});
         if (which) settings.think = kValues[*which];
         return which.has_value();
     },
     [](const Settings& settings) {
         return std::string(settings.think == TSR_YES ? "on" : settings.think == TSR_NO ? "off" : "auto");
     }},
    {"reasoning", "show|hide", "show or hide", "Whether reasoning is shown while it is generated.",
     [](Settings& settings, std::string_view value) -> Result<bool> {
         return set_flag(settings.shows_reasoning, choice(value, {"hide", "show"}));
     },
     [](const Settings& settings) { return std::string(settings.shows_reasoning ? "show" : "hide"); }},
    {"stats", "on|off", "on or off", "A line of figures after each answer.",
     [](Settings& settings, std::string_view value) -> Result<bool> {
         return set_flag(settings.shows_stats, choice(value, {"off", "on"}));
     },
     [](const Settings& settings) { return std::string(on_off(settings.shows_stats)); }},
    {"wrap", "on|off", "on or off", "Lines of answers break between words, on a terminal.",
     [](Settings& settings, std::string_view value) -> Result<bool> {
         return set_flag(settings.wraps, choice(value, {"off", "on"}));
     },
     [](const Settings& settings) { return std::string(on_off(settings.wraps)); }},
};

/// Names that llama.cpp, ollama and others give our settings, besides the spellings of our own options.
struct OtherName {
    std::string_view name, setting;
};
constexpr OtherName kOtherNames[] = {{"num_predict", "n_predict"},
                                     {"max_tokens", "n_predict"},
                                     {"predict", "n_predict"},
                                     {"n", "n_predict"},
                                     {"repetition_penalty", "repeat_penalty"},
                                     {"typical", "typical_p"},
                                     {"typ_p", "typical_p"},
                                     {"verbose", "stats"},
                                     {"thinking", "think"},
                                     {"wordwrap", "wrap"},
                                     {"sampler_seq", "sampling_seq"}};
constexpr std::string_view kFixedNames[] = {"num_ctx", "n_ctx", "ctx", "ctx_size", "context"};

/// Sampling parameters in groups: each begins with the parameter named here and ends before the next one.
struct Group {
    std::string_view first, title;
};
constexpr Group kGroups[] = {{"logit_bias", "Single tokens and strings"},   {"repeat_penalty", "Repetition"},
                             {"top_n_sigma", "Which tokens may be chosen"}, {"temperature", "Temperature"},
                             {"adaptive_target", "Other ways to choose"},   {"seed", "Seed and order"}};

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

/// "--top-k" as "top_k".
std::string with_underscores(std::string_view name) {
    while (name.starts_with('-')) name.remove_prefix(1);
    std::string out(name);
    std::replace(out.begin(), out.end(), '-', '_');
    return out;
}

/// Our name of a setting by any of its names; an unknown name as it is.
std::string own_name(std::string_view given) {
    const std::string name = with_underscores(given);
    for (const auto& [param, flag] : sampling_names())
        if (name == param || name == with_underscores(flag)) return param;
    for (const OtherName& other : kOtherNames)
        if (name == other.name) return std::string(other.setting);
    return name;
}

tl::unexpected<Error> unknown_setting(std::string_view name) {
    if (std::find(std::begin(kFixedNames), std::end(kFixedNames), with_underscores(name)) !=
        std::end(kFixedNames))
        return fail(ErrorCode::NotFound,
                    "%s: the context's length is fixed while a chat runs (tessera chat --ctx N sets it)",
                    printable(name).c_str());
    std::vector<std::string> known = Settings::names();
    for (const auto& [param, flag] : sampling_names()) known.push_back(with_underscores(flag));
    for (const OtherName& other : kOtherNames) known.emplace_back(other.name);
    const std::vector<std::string_view> views(known.begin(), known.end());
    const std::string nearest(nearest_name(with_underscores(name), views));
    const std::string hint =
        nearest.empty() ? " (/set lists the settings)" : "; did you mean " + own_name(nearest) + "?";
    return fail(ErrorCode::NotFound, "unknown setting '%s'%s", printable(name).c_str(), hint.c_str());
}

Result<void> check_number(const tsr_param_info& info, std::string_view value) {
    const std::optional<double> number = parse_double(value);
    if (number && *number >= info.min && *number <= info.max) return {};
    return fail(ErrorCode::InvalidArgument, "%s: expected a number from %.16g to %.16g, found '%s'",
                info.name, info.min, info.max, printable(value).c_str());
}

/// `* name   value   help`, the help in a column of its own where the terminal is wide enough.
std::string row_text(std::string_view name, const std::string& value, bool is_set, const char* help,
                     size_t width) {
    constexpr size_t kLeft = 38, kNarrowest = 72, kIndent = 6;
    const std::string left =
        strf("%c %-22s %-12s ", is_set ? '*' : ' ', std::string(name).c_str(), value.c_str());
    if (width == 0) return left + help + "\n";
    if (width < kNarrowest || text_width(left) > kLeft)
        return left + "\n" + std::string(kIndent, ' ') + wrapped(help, width - kIndent, kIndent) + "\n";
    std::string out = left;
    // Continuation lines begin below the help.
    const std::string text = wrapped(help, width - kLeft);
    for (const char c : text) out += c == '\n' ? "\n" + std::string(kLeft, ' ') : std::string(1, c);
    return out + "\n";
}

std::string chat_row(const Settings& settings, const Row& row, size_t width) {
    const std::string value = row.get(settings);
    return row_text(row.name, printable(value, 40), value != row.get(Settings()), row.help, width);
}

std::string sampling_row(const Settings& settings, const tsr_param_info& info, size_t width) {
    const auto at = settings.sampling().find(info.name);
    const std::string preset =
        info.is_text ? printable(info.default_text ? info.default_text : "") : strf("%g", info.default_value);
    return row_text(info.name, at == settings.sampling().end() ? preset : printable(at->second, 40),
                    at != settings.sampling().end(), info.help, width);
}

}  // namespace

std::string AnswerFormat::name() const {
    if (!kind) return "text";
    for (const FormatKind& row : kFormats)
        if (row.kind == *kind) return row.name + (text.empty() ? "" : " " + text);
    return "text";
}

std::optional<int64_t> Settings::seed() const {
    const auto at = sampling_.find("seed");
    const std::optional<int64_t> seed = at == sampling_.end() ? std::nullopt : parse_int(at->second);
    return seed && *seed >= 0 ? seed : std::nullopt;
}

Result<void> Settings::set(std::string_view given, std::string_view value) {
    const bool to_default = value == "default";
    const std::string name = own_name(given);
    for (const Row& row : kRows) {
        if (name != row.name) continue;
        const std::string text = to_default ? row.get(Settings()) : std::string(value);
        TSR_TRY(const bool fits, row.set(*this, text));
        if (fits) return {};
        return fail(ErrorCode::InvalidArgument, "%s: expected %s, found '%s'", row.name, row.expected,
                    printable(value).c_str());
    }
    for (const tsr_param_info& info : sampling_rows(nullptr)) {
        if (name != info.name) continue;
        if (to_default) {
            sampling_.erase(info.name);
            return {};
        }
        if (!info.is_text) TSR_TRY_VOID(check_number(info, value));
        sampling_[info.name] = value;
        return {};
    }
    return unknown_setting(given);
}

std::map<std::string, std::string> Settings::changed() const {
    std::map<std::string, std::string> out = sampling_;
    for (const Row& row : kRows)
        if (row.get(*this) != row.get(Settings())) out[row.name] = row.get(*this);
    return out;
}

Result<void> Settings::replace(const std::map<std::string, std::string>& values) {
    Settings replaced;
    for (const auto& [name, value] : values) {
        if (name != "format") {
            TSR_TRY_VOID(replaced.set(name, value));
            continue;
        }
        // A conversation's file has the text itself, and names no other file.
        TSR_TRY(const bool fits, set_format_from(replaced, value, false));
        if (!fits)
            return fail(ErrorCode::Malformed, "format: expected a form of answers, found '%s'",
                        printable(value).c_str());
    }
    *this = replaced;
    return {};
}

std::string Settings::table(const tessera_api::Model& model, size_t width) const {
    std::string out = "Answers:\n";
    for (const Row& row : kRows) out += chat_row(*this, row, width);
    for (const tsr_param_info& info : sampling_rows(model.get())) {
        for (const Group& group : kGroups)
            if (group.first == info.name) out += "\n" + std::string(group.title) + ":\n";
        out += sampling_row(*this, info, width);
    }
    return out;
}

Result<std::string> Settings::table_row(const tessera_api::Model& model, std::string_view given,
                                        size_t width) const {
    const std::string name = own_name(given);
    for (const Row& row : kRows)
        if (name == row.name) return chat_row(*this, row, width);
    for (const tsr_param_info& info : sampling_rows(model.get()))
        if (name == info.name) return sampling_row(*this, info, width);
    return unknown_setting(given);
}

std::vector<std::string> Settings::names() {
    std::vector<std::string> out;
    for (const Row& row : kRows) out.emplace_back(row.name);
    for (const auto& [param, flag] : sampling_names()) out.push_back(param);
    return out;
}

std::vector<std::string> Settings::values(std::string_view given) {
    std::vector<std::string> out;
    const std::string name = own_name(given);
    for (const Row& row : kRows) {
        if (name != row.name || !*row.values) continue;
        for (const std::string_view value : split(row.values, '|')) out.emplace_back(value);
    }
    return out;
}

}  // namespace tessera::repl
