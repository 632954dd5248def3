// Declares options with CLI11 and parses with it; the only file that knows CLI11. Assumes that spellings.cpp
// has rewritten the command line, so that CLI11 sees long names only. Errors of value parsers are kept,
// because CLI11 reports through exceptions, and returned by parse().
#include "examples/tessera/options.h"

#include <algorithm>
#include <optional>

#include <CLI/CLI.hpp>

#include "common/strings.h"
#include "examples/tessera/options_impl.h"

namespace tessera {

namespace {

std::vector<std::string> name_list(const char* names) {
    std::vector<std::string> out;
    for (const std::string_view name : split(names, ',')) out.emplace_back(name);
    return out;
}

/// Bounds this large are limits against overflow, of no use to a reader.
constexpr int64_t kLargeBound = int64_t{1} << 20;

std::string range_text(int64_t min, int64_t max) {
    if (max < kLargeBound)
        return strf("%lld to %lld", static_cast<long long>(min), static_cast<long long>(max));
    return strf("%lld or more", static_cast<long long>(min));
}

Options::Parse assign(std::string& value) {
    return [&value](const std::string& text) -> Result<void> {
        value = text;
        return {};
    };
}

}  // namespace

std::string Options::Impl::Option::all_names() const {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : "/") + name;
    return out;
}

Options::Impl::Option* Options::Impl::find(std::string_view name) {
    for (Option& option : options)
        if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return &option;
    return nullptr;
}

Options::Impl::Impl(const Command& of) : command(of), app_(std::make_unique<CLI::App>()) {
    app_->set_help_flag();  // help.cpp prints the help
    app_->allow_extras();   // reported by parse()
}

Options::Impl::~Impl() = default;

Options::Impl::Option& Options::Impl::add(const char* names, const std::string& form, const std::string& help,
                                          Options::Parse take, bool repeats, bool required) {
    Option& option = options.emplace_back();
    option.names = name_list(names);
    option.form = form;
    option.group = group;
    option.help = help;
    option.repeats = repeats;
    option.required = required;
    const CLI::callback_t callback = [this, name = option.long_name(),
                                      take = std::move(take)](const CLI::results_t& values) {
        for (const std::string& value : values)
            if (auto taken = take(value); !taken) {
                rejected_ = fail_in(name, std::move(taken.error())).value();
                return false;
            }
        return true;
    };
    // MODEL is both an argument and an option, as in llama.cpp.
    const std::string spellings = std::string(names) + (option.names.front() == "MODEL" ? ",-m,--model" : "");
    option.parsed = form.empty() ? app_->add_flag_callback(spellings, [callback] { callback({""}); })
                                 : app_->add_option(spellings, callback);
    option.parsed->multi_option_policy(repeats ? CLI::MultiOptionPolicy::TakeAll
                                               : CLI::MultiOptionPolicy::TakeLast);
    if (repeats && option.is_positional()) option.parsed->expected(0, 1 << 20)->allow_extra_args();
    option.parsed->required(required);
    return option;
}

void Options::positional(const char* name, std::string& value, const char* help) {
    text(name, name, value, help);
}

void Options::required(const char* name, std::string& value, const char* help) {
    impl_.add(name, name, help, assign(value), false, true);
}

void Options::positionals(const char* name, std::vector<std::string>& values, const char* help) {
    const auto read = [&values](const std::string& text) -> Result<void> {
        values.push_back(text);
        return {};
    };
    repeated(name, name, read, help);
}

void Options::flag(const char* names, bool& value, const char* help) {
    const auto read = [&value](const std::string&) -> Result<void> {
        value = true;
        return {};
    };
    impl_.add(names, "", help, read);
}

void Options::integer(const char* names, int64_t& value, int64_t min, int64_t max, const char* help) {
    const auto read = [&value, min, max](const std::string& text) -> Result<void> {
        const std::optional<int64_t> number = parse_int(text);
        if (!number || *number < min || *number > max)
            return fail(ErrorCode::InvalidArgument, "expected a whole number from %lld to %lld, found '%s'",
                        static_cast<long long>(min), static_cast<long long>(max), printable(text).c_str());
        value = *number;
        return {};
    };
    parsed(names, "N", read,
           help + strf(" (%s; default: %lld)", range_text(min, max).c_str(), static_cast<long long>(value)));
}

void Options::text(const char* names, const char* form, std::string& value, const char* help) {
    parsed(names, form, assign(value), help);
}

void Options::parsed(const char* names, const std::string& form, Parse parse, const std::string& help) {
    impl_.add(names, form, help, std::move(parse));
}

void Options::repeated(const char* names, const std::string& form, Parse parse, const std::string& help) {
    impl_.add(names, form, help, std::move(parse), true);
}

void Options::group(const char* title) { impl_.group = title; }

void Options::check(std::function<Result<void>()> check) { impl_.checks.push_back(std::move(check)); }

void Options::hand_over(const Command& to, std::function<bool()> when) {
    impl_.successor = &to;
    impl_.hands_over = std::move(when);
}

bool Options::given(const char* name) const {
    const Impl::Option* option = impl_.find(name);
    return option && option->parsed->count() > 0;
}

Result<void> Options::Impl::parse(std::span<char* const> arguments) {
    TSR_TRY(std::vector<std::string> line, canonical_arguments(*this, arguments));
    if (wants_help || wants_all_help) return {};
    std::reverse(line.begin(), line.end());  // the order in which CLI11 takes them
    try {
        app_->parse(std::move(line));
    } catch (const CLI::RequiredError&) {
        for (const Option& option : options)
            if (option.required && option.parsed->count() == 0)
                return fail(ErrorCode::InvalidArgument, "missing argument %s", option.names.front().c_str());
    } catch (const CLI::Error& error) {
        if (rejected_) return tl::unexpected(std::move(*rejected_));
        return fail(ErrorCode::InvalidArgument, "%s", error.what());
    }
    // Some versions of CLI11 count the "--" in front of the positional arguments.
    std::vector<std::string> extras = app_->remaining();
    if (!extras.empty() && extras.front() == "--") extras.erase(extras.begin());
    if (!extras.empty())
        return fail(ErrorCode::InvalidArgument, "unexpected argument '%s'%s",
                    printable(extras.front()).c_str(),
                    find("PROMPT") ? " (a prompt of several words needs quotes)" : "");
    return {};
}

}  // namespace tessera
