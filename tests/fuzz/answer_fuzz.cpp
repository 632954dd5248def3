// Any bytes as a model's answer, in any format: the same result for the whole text and for two pieces, with
// well-formed calls. Input: a byte for the format, one for the end of the prompt, two for the place of the
// cut; the rest is the text.
#include <cstdio>
#include <cstdlib>

#include "common/bytes.h"
#include "src/text/chat/parsers/output_parser.h"
#include "src/text/jinja/json.h"

namespace {

using namespace tessera;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

chat::Answer read(const chat::Format& format, const chat::ParserOptions& options, std::string_view text,
                  size_t cut) {
    const auto parser = chat::OutputParser::make(format, options);
    parser->push(text.substr(0, cut));
    parser->push(text.substr(cut));
    parser->finish();
    std::vector<std::string> arguments(parser->answer().calls.size());
    for (const chat::Delta& delta : parser->take_deltas()) {
        if (delta.kind == chat::Delta::Kind::CallArguments) arguments.at(delta.call_index) += delta.text;
        if (delta.kind == chat::Delta::Kind::Call)
            arguments.at(delta.call_index) = parser->answer().calls[delta.call_index].arguments;
    }
    for (size_t i = 0; i < arguments.size(); i++)
        require(arguments[i] == parser->answer().calls[i].arguments, "the stream tells all of the calls");
    return parser->answer();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const jinja::Value tools = *jinja::parse_json(
        R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}])");
    static constexpr const char* kOpenings[] = {"", "<think>\n", "<|start|>assistant", "[THINK]"};
    ByteReader in(std::as_bytes(std::span(data, size)));
    const chat::Format& format = chat::formats()[in.get<uint8_t>() % chat::formats().size()];
    const uint8_t opening = in.get<uint8_t>();
    const size_t place = in.get<uint16_t>();
    const std::string_view text = in.view(in.remaining());
    const chat::ParserOptions options = {tools, kOpenings[opening % 4], opening & 4 ? "<|im_end|>" : "",
                                         (opening & 8) != 0};
    const chat::Answer whole = read(format, options, text, 0);
    require(whole == read(format, options, text, text.empty() ? 0 : place % text.size()),
            "cuts change nothing");
    for (const chat::ToolCall& call : whole.calls) {
        require(!call.name.empty(), "calls have names");
        if (options.stream_calls) continue;  // they may break off
        const auto arguments = jinja::parse_json(call.arguments);
        require(arguments && arguments->is_dict(), "arguments are objects");
    }
    return 0;
}
