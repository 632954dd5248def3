// Makes a grammar of the text of an option, or of the file that it names.
#include "examples/tessera/constraint_flags.h"

#include "examples/tessera/console.h"

namespace tessera {

namespace {

/// "@FILE" stands for the content of the file.
Result<std::string> text_of(const std::string& value) {
    return value.starts_with('@') ? console::read_all(value.substr(1)) : Result<std::string>(value);
}

}  // namespace

void ConstraintFlags::declare(Options& options) {
    options.group("Constrained output");
    options.text("--grammar", "TEXT|@FILE", grammar, "Constrain output to a GBNF grammar.");
    options.text("--regex", "TEXT|@FILE", regex, "Constrain output to match a regular expression.");
    options.text("--json-schema", "TEXT|@FILE", schema, "Constrain output to a JSON schema.");
    options.flag("--json-object", json_object, "Constrain output to a JSON object.");
    options.flag("--compact-json", compact, "Write JSON without white space.");
}

Result<void> ConstraintFlags::check() const {
    const int n = !grammar.empty() + !regex.empty() + !schema.empty() + json_object;
    if (n <= 1) return {};
    return fail(ErrorCode::InvalidArgument,
                "expected one of --grammar, --regex, --json-schema and --json-object, found %d of them", n);
}

Result<std::shared_ptr<const grammar::Grammar>> ConstraintFlags::create() const {
    using grammar::Grammar;
    const grammar::SchemaOptions layout{.layout = compact ? grammar::JsonLayout::Compact
                                                          : grammar::JsonLayout::Free};
    const auto named =
        [](const char* option,
           Result<std::shared_ptr<const Grammar>> made) -> Result<std::shared_ptr<const Grammar>> {
        if (!made) return fail_in(option, std::move(made.error()));
        return made;
    };
    if (json_object) return Grammar::json_object(layout);
    if (!grammar.empty()) {
        TSR_TRY(const std::string text, text_of(grammar));
        return named("--grammar", Grammar::from_gbnf(text));
    }
    if (!regex.empty()) {
        TSR_TRY(const std::string text, text_of(regex));
        return named("--regex", Grammar::from_regex(text));
    }
    if (!schema.empty()) {
        TSR_TRY(const std::string text, text_of(schema));
        return named("--json-schema", Grammar::from_json_schema(text, layout));
    }
    return std::shared_ptr<const Grammar>();
}

}  // namespace tessera
