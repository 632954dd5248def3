// Truncated and damaged templates: parsed or refused with a place, rendered or failed, never a crash. Most
// useful under sanitizers.
#include "common/rng.h"
#include "tests/jinja/support.h"

namespace tessera::jinja {
namespace {

const Limits kSmall = {
    .max_steps = 20000, .max_output_bytes = 1 << 20, .max_live_bytes = 4 << 20, .max_depth = 200};

Value dialogue() {
    return *parse_json(R"({
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                     {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [
                         {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"a": [1]}}}]},
                     {"role": "tool", "content": "1", "name": "f", "tool_call_id": "call00001"},
                     {"role": "user", "content": [{"type": "text", "text": "Bye"}]}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d",
                   "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}}],
        "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true})");
}

// Whether it parsed.
bool survive(std::string_view source, const Value& context) {
    const auto parsed = Template::parse(source);
    if (!parsed) {
        EXPECT_GE(parsed.error().line, 1u);
        EXPECT_GE(parsed.error().column, 1u);
        return false;
    }
    (void)parsed->render(context, {}, kSmall);
    return true;
}

TEST(JinjaMalformed, every_prefix) {
    TSR_NEED_SHARED("data/templates");
    const Value context = dialogue();
    size_t n_prefixes = 0, n_parsed = 0;
    for (const auto& path : test::files_in("data/templates", ".jinja")) {
        const std::string source = test::read_file(path.string());
        // Every cut of short templates, every 31st of long ones, with another offset for each file.
        const size_t step = source.size() < 1500 ? 1 : 31;
        for (size_t n = n_prefixes % step; n <= source.size(); n += step, n_prefixes++)
            n_parsed += survive(std::string_view(source).substr(0, n), context);
    }
    EXPECT_GT(n_prefixes, 10000u);
    EXPECT_GT(n_parsed, 100u);
    EXPECT_LT(n_parsed, n_prefixes);
}

TEST(JinjaMalformed, mutations) {
    TSR_NEED_SHARED("data/templates");
    const Value context = dialogue();
    std::vector<std::string> sources;
    for (const auto& path : test::files_in("data/templates", ".jinja"))
        sources.push_back(test::read_file(path.string()));
    Rng rng(7);
    const auto below = [&](size_t n) { return static_cast<size_t>(rng.next_u64() % n); };
    static constexpr std::string_view kPieces[] = {
        "{%", "%}", "{{", "}}",   "-%}",   "{#",   "#}", "(",  ")", "[",  "]", "'", "|",    ".",
        ",",  " ",  "\n", " is ", " not ", " if ", "0",  "-1", ":", "**", "~", "x", "loop", "{% endif %}"};
    for (int round = 0; round < 4000; round++) {
        std::string source = sources[below(sources.size())];
        for (size_t n = 1 + below(4); n > 0; n--) {
            const size_t at = below(source.size() + 1);
            const std::string_view piece = kPieces[below(std::size(kPieces))];
            switch (below(3)) {
                case 0:
                    source.insert(at, piece);
                    break;
                case 1:
                    source.erase(at, 1 + below(8));
                    break;
                default:
                    source.replace(at, std::min(piece.size(), source.size() - at), piece);
            }
        }
        survive(source, context);
    }
}

}  // namespace
}  // namespace tessera::jinja
