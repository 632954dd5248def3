// Any bytes as a template: parsed or refused, rendered or failed within its limits, twice with the same
// result.
#include <cstdio>
#include <cstdlib>

#include "src/text/jinja/json.h"
#include "src/text/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tessera::jinja;
    static const Value context = *parse_json(R"({
        "messages": [{"role": "user", "content": "Hi é"}, {"role": "assistant", "content": null, "tool_calls": [
            {"function": {"name": "f", "arguments": {"a": 1.5, "b": [true, "x"]}}}]}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "x": 7, "s": "some text here", "xs": [3, 1, 2], "d": {"b": 1, "a": 2}, "bos_token": "<s>"})");
    const Limits limits = {
        .max_steps = 20000, .max_output_bytes = 1 << 20, .max_live_bytes = 4 << 20, .max_depth = 200};
    const auto parsed = Template::parse({reinterpret_cast<const char*>(data), size});
    if (!parsed) return 0;
    const auto first = parsed->render(context, {}, limits), second = parsed->render(context, {}, limits);
    if (first.has_value() != second.has_value() || (first && *first != *second)) {
        std::fprintf(stderr, "violated: two renders are equal\n");
        std::abort();
    }
    return 0;
}
