// The engine against the reference implementation: its snippets, and every chat template with every dialogue.
#include "tests/jinja/support.h"

namespace tessera::jinja {
namespace {

// Whether a case gives the reference's result; otherwise adds a failure that shows both.
void check_case(const Value& expected, const tl::expected<std::string, Failure>& found,
                const std::string& name) {
    const Value* output = expected.find("output");
    if (output) {
        ASSERT_TRUE(found.has_value()) << name << ": " << found.error().to_string();
        ASSERT_EQ(*found, output->as_text()) << name;
        return;
    }
    const Value* error = expected.find("error");
    ASSERT_NE(error, nullptr) << name;
    ASSERT_FALSE(found.has_value()) << name << ": expected an error, found: " << *found;
    const bool raised = error->find("type")->as_text() == "TemplateError";
    ASSERT_EQ(found.error().kind == Failure::Kind::Raised, raised)
        << name << ": " << found.error().to_string();
    if (raised) {
        ASSERT_EQ(found.error().message, error->find("message")->as_text()) << name;
    }
    ASSERT_GE(found.error().line, 1u);
}

tl::expected<std::string, Failure> parse_and_render(std::string_view source, const Value& context,
                                                    const DateTime& now) {
    const auto parsed = Template::parse(source);
    if (!parsed) return tl::unexpected<Failure>(parsed.error());
    return parsed->render(context, now);
}

TEST(JinjaGolden, snippets) {
    TSR_NEED_SHARED("golden/jinja/conformance.json");
    const Value suite = test::read_json("golden/jinja/conformance.json");
    const DateTime now = *DateTime::parse(suite.find("now")->as_text());
    for (const Value& row : suite.find("cases")->items()) {
        SCOPED_TRACE(row.find("template")->as_text());
        check_case(row, parse_and_render(row.find("template")->as_text(), *suite.find("context"), now),
                   row.find("id")->as_text());
    }
    EXPECT_EQ(suite.find("cases")->items().size(), 200u);
}

TEST(JinjaGolden, chat_templates) {
    TSR_NEED_SHARED("golden/templates");
    size_t n_files = 0, n_cases = 0;
    for (const auto& path : test::golden_templates()) {
        const Value suite = test::read_json("golden/templates/" + path.filename().string());
        const std::string source =
            test::read_file(test::shared("data/templates/" + suite.find("template")->as_text()));
        const auto parsed = Template::parse(source);
        ASSERT_TRUE(parsed.has_value()) << path << ": " << parsed.error().to_string();
        const DateTime now = *DateTime::parse(suite.find("now")->as_text());
        n_files++;
        for (const Value& row : suite.find("cases")->items()) {
            n_cases++;
            const Value context = test::golden_context(suite, *row.find("input"));
            check_case(row, parsed->render(context, now),
                       path.stem().string() + "/" + row.find("dialogue")->as_text());
        }
    }
    EXPECT_GE(n_files, 47u);
    EXPECT_GE(n_cases, 1081u);
}

}  // namespace
}  // namespace tessera::jinja
