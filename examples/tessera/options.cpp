// Parses a command line. Options are whole words: "-hf" is one option and never -h with something behind it.
// A value is the next argument, even if it looks like an option, or the text behind "=". An unknown option is
// reported before anything else that is wrong. foreign_options.cpp knows the spellings of other programs.
#include "examples/tessera/options.h"

#include <algorithm>
#include <optional>

#include "common/strings.h"
#include "examples/tessera/foreign_options.h"
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

Options::Impl::Option& Options::Impl::add(const char* names, const std::string& form, const std::string& help,
                                          Options::Parse take) {
    Option& option = options.emplace_back();
    option.names = name_list(names);
    option.form = form;
    option.group = group;
    option.help = help;
    option.take = std::move(take);
    return option;
}

void Options::positional(const char* name, std::string& value, const char* help) {
    text(name, name, value, help);
}

void Options::required(const char* name, std::string& value, const char* help) {
    text(name, name, value, help);
    impl_.options.back().required = true;
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
    const auto read = [&value](const std::string& text) -> Result<void> {
        value = text;
        return {};
    };
    parsed(names, form, read, help);
}

void Options::parsed(const char* names, const std::string& form, Parse parse, const std::string& help) {
    impl_.add(names, form, help, std::move(parse));
}

void Options::repeated(const char* names, const std::string& form, Parse parse, const std::string& help) {
    impl_.add(names, form, help, std::move(parse)).repeats = true;
}

void Options::group(const char* title) { impl_.group = title; }

void Options::check(std::function<Result<void>()> check) { impl_.checks.push_back(std::move(check)); }

void Options::hand_over(const Command& to, std::function<bool()> when) {
    impl_.successor = &to;
    impl_.hands_over = std::move(when);
}

bool Options::given(const char* name) const {
    const Impl::Option* option = impl_.find(name);
    return option && !option->values.empty();
}

/// Sorts the arguments out: values go to their options, the first mistake of each kind is kept.
class Options::Impl::Scan {
  public:
    Scan(Impl& impl, std::span<char* const> arguments) : impl_(impl), arguments_(arguments) {}

    /// Stops early where help is wanted. Errors: an unknown option before a missing or superfluous value.
    Result<void> run();

    std::vector<std::string> positionals;
    CacheTypes cache_types;

  private:
    using Value = std::optional<std::string>;

    void own(Option& option, Value value);
    void foreign(const std::string& name, const Value& value);
    static void keep_first(std::string& message, const std::string& found) {
        if (message.empty()) message = found;
    }

    Impl& impl_;
    std::span<char* const> arguments_;
    size_t at_ = 0;
    std::string unknown_, mistake_;
};

namespace {

/// "; did you mean --temp?" for a name that no option has.
std::string spelling_hint(const Options::Impl& impl, const std::string& name) {
    const auto has_option = [&impl](std::string_view own) { return impl.find(own) != nullptr; };
    std::vector<std::string_view> candidates;
    for (const Options::Impl::Option& option : impl.options)
        for (const std::string& own : option.names)
            if (own.starts_with("--")) candidates.push_back(own);
    for (const std::string_view foreign : foreign_names())
        if (const ForeignOption* row = find_foreign(foreign, has_option); row && row->same_as)
            candidates.push_back(foreign);
    if (const std::string_view nearest = nearest_name(name, candidates); !nearest.empty()) {
        const char* meant = find_foreign(nearest, has_option) && !has_option(nearest)
                                ? find_foreign(nearest, has_option)->same_as
                                : nullptr;
        return strf("; did you mean %s?", meant ? meant : std::string(nearest).c_str());
    }
    // "-n5", as other programs allow it.
    const Options::Impl::Option* letter = name[1] == '-' ? nullptr : impl.find(name.substr(0, 2));
    if (letter && !letter->form.empty())
        return strf("; a value stands apart: %s %s", name.substr(0, 2).c_str(), name.substr(2).c_str());
    return "";
}

}  // namespace

Result<void> Options::Impl::take_values(const Scan& scan) {
    if (!scan.cache_types.k.empty() || !scan.cache_types.v.empty())
        find("--kv")->values.push_back(scan.cache_types.joined());
    size_t next = 0;
    for (Option& option : options)
        if (option.is_positional() && (option.values.empty() || option.repeats))
            while (next < scan.positionals.size()) {
                option.values.push_back(scan.positionals[next++]);
                if (!option.repeats) break;
            }
    for (Option& option : options) {
        const size_t first = option.repeats || option.values.empty() ? 0 : option.values.size() - 1;
        for (size_t i = first; i < option.values.size(); i++)
            if (auto taken = option.take(option.values[i]); !taken)
                return fail_in(option.long_name(), std::move(taken.error()));
    }
    if (next < scan.positionals.size())
        return fail(ErrorCode::InvalidArgument, "unexpected argument '%s'%s",
                    printable(scan.positionals[next]).c_str(),
                    find("PROMPT") ? " (a prompt of several words needs quotes)" : "");
    for (const Option& option : options)
        if (option.required && option.values.empty())
            return fail(ErrorCode::InvalidArgument, "missing argument %s", option.names.front().c_str());
    return {};
}

Result<void> Options::Impl::Scan::run() {
    for (; at_ < arguments_.size(); at_++) {
        const std::string argument = arguments_[at_];
        if (argument == "--") {
            const auto rest = arguments_.subspan(at_ + 1);
            positionals.insert(positionals.end(), rest.begin(), rest.end());
            break;
        }
        if (argument.size() < 2 || argument[0] != '-') {
            positionals.push_back(argument);
            continue;
        }
        const size_t equals = argument.find('=');
        const std::string name = argument.substr(0, equals);
        impl_.wants_help |= name == "-h" || name == "--help" || name == "--usage";
        impl_.wants_all_help |= name == "--help-all";
        if (impl_.wants_help || impl_.wants_all_help) return {};
        Value value;
        if (equals != std::string::npos) value = argument.substr(equals + 1);
        Option* option = impl_.find(name);
        if (!option && (name == "-m" || name == "--model")) option = impl_.find("MODEL");
        if (option)
            own(*option, std::move(value));
        else
            foreign(name, value);
    }
    for (const std::string& message : {unknown_, mistake_})
        if (!message.empty()) return fail(ErrorCode::InvalidArgument, "%s", message.c_str());
    return {};
}

void Options::Impl::Scan::own(Option& option, Value value) {
    const std::string names = option.all_names();
    if (option.form.empty()) {
        if (value)
            keep_first(mistake_,
                       strf("%s takes no value, found '%s'", names.c_str(), printable(*value).c_str()));
        option.values.emplace_back();
        return;
    }
    if (!value && at_ + 1 < arguments_.size()) value = arguments_[++at_];
    if (value)
        option.values.push_back(*value);
    else
        keep_first(mistake_, strf("%s needs a value: %s", names.c_str(), option.form.c_str()));
}

void Options::Impl::Scan::foreign(const std::string& name, const Value& value) {
    std::optional<std::string_view> following;
    if (at_ + 1 < arguments_.size()) following = arguments_[at_ + 1];
    const ForeignUse use =
        use_foreign(name, value, following, [this](std::string_view own) { return impl_.find(own); });
    at_ += use.takes_following;
    switch (use.kind) {
        case ForeignUse::Kind::Unknown:
            keep_first(unknown_, "unknown option " + printable(name) + spelling_hint(impl_, name));
            break;
        case ForeignUse::Kind::Refused:
            keep_first(unknown_, name + ": " + use.text);
            break;
        case ForeignUse::Kind::Nothing:
            break;
        case ForeignUse::Kind::KType:
            cache_types.k = use.text;
            break;
        case ForeignUse::Kind::VType:
            cache_types.v = use.text;
            break;
        case ForeignUse::Kind::Same:
            impl_.find(use.own)->values.push_back(use.text);
            break;
    }
}

Result<void> Options::Impl::parse(std::span<char* const> arguments) {
    Scan scan(*this, arguments);
    TSR_TRY_VOID(scan.run());
    return wants_help || wants_all_help ? Result<void>() : take_values(scan);
}

}  // namespace tessera
