// Rewrites a command line before CLI11 parses it. Options are whole words: "-hf" is one option and never -h
// with something behind it. A value is the next argument, even if it looks like an option, or the text behind
// "=". An unknown option is reported before anything else that is wrong. foreign_options.cpp knows the
// spellings of other programs, options.cpp parses the result.
#include <optional>

#include "common/strings.h"
#include "examples/tessera/foreign_options.h"
#include "examples/tessera/options_impl.h"

namespace tessera {

namespace {

/// One reading of the command line. The first mistake of each kind is kept.
class Scan {
  public:
    Scan(Options::Impl& impl, std::span<char* const> arguments) : impl_(impl), arguments_(arguments) {}

    Result<std::vector<std::string>> run();

  private:
    using Option = Options::Impl::Option;
    using Value = std::optional<std::string>;

    void put(const Option& option, const std::string& value) {
        line_.push_back(option.is_positional() ? "--model" : option.long_name());
        if (!option.form.empty()) line_.push_back(value);
    }

    void own(const Option& option, Value value);
    void foreign(const std::string& name, const Value& value);
    static void keep_first(std::string& message, const std::string& found) {
        if (message.empty()) message = found;
    }

    Options::Impl& impl_;
    std::span<char* const> arguments_;
    size_t at_ = 0;
    std::vector<std::string> line_, positionals_;
    CacheTypes cache_types_;
    std::string unknown_, mistake_;
};

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

Result<std::vector<std::string>> Scan::run() {
    for (; at_ < arguments_.size(); at_++) {
        const std::string argument = arguments_[at_];
        if (argument == "--") {
            const auto rest = arguments_.subspan(at_ + 1);
            positionals_.insert(positionals_.end(), rest.begin(), rest.end());
            break;
        }
        if (argument.size() < 2 || argument[0] != '-') {
            positionals_.push_back(argument);
            continue;
        }
        const size_t equals = argument.find('=');
        const std::string name = argument.substr(0, equals);
        impl_.wants_help |= name == "-h" || name == "--help" || name == "--usage";
        impl_.wants_all_help |= name == "--help-all";
        if (impl_.wants_help || impl_.wants_all_help) return line_;
        Value value;
        if (equals != std::string::npos) value = argument.substr(equals + 1);
        const Option* option = impl_.find(name);
        if (!option && (name == "-m" || name == "--model")) option = impl_.find("MODEL");
        if (option)
            own(*option, std::move(value));
        else
            foreign(name, value);
    }
    for (const std::string& message : {unknown_, mistake_})
        if (!message.empty()) return fail(ErrorCode::InvalidArgument, "%s", message.c_str());
    if (!cache_types_.k.empty() || !cache_types_.v.empty()) put(*impl_.find("--kv"), cache_types_.joined());
    line_.push_back("--");
    line_.insert(line_.end(), positionals_.begin(), positionals_.end());
    return std::move(line_);
}

void Scan::own(const Option& option, Value value) {
    const std::string names = option.all_names();
    if (option.form.empty()) {
        if (value)
            keep_first(mistake_,
                       strf("%s takes no value, found '%s'", names.c_str(), printable(*value).c_str()));
        put(option, "");
        return;
    }
    if (!value && at_ + 1 < arguments_.size()) value = arguments_[++at_];
    if (value)
        put(option, *value);
    else
        keep_first(mistake_, strf("%s needs a value: %s", names.c_str(), option.form.c_str()));
}

void Scan::foreign(const std::string& name, const Value& value) {
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
            cache_types_.k = use.text;
            break;
        case ForeignUse::Kind::VType:
            cache_types_.v = use.text;
            break;
        case ForeignUse::Kind::Same:
            put(*impl_.find(use.own), use.text);
            break;
    }
}

}  // namespace

Result<std::vector<std::string>> canonical_arguments(Options::Impl& impl, std::span<char* const> arguments) {
    return Scan(impl, arguments).run();
}

}  // namespace tessera
