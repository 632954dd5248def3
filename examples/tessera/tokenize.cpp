// tessera tokenize: text to tokens, one per line for people, or ids for programs. The text is taken byte for
// byte, including a line feed at its end.
#include "common/strings.h"
#include "common/utf8.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"

namespace tessera {

namespace {

struct TokenizeArgs {
    FileOptions file;
    std::string text, text_file = "-";
    bool has_text = false, escape = false, ids_only = false, json = false;
    bool no_special = false, parse_special = false;
};

std::string as_ids(std::span<const int32_t> ids) {
    std::string out;
    for (const int32_t id : ids) out += strf("%s%d", out.empty() ? "" : " ", id);
    return out + "\n";
}

std::string as_lines(const text::Tokenizer& tokenizer, std::span<const int32_t> ids) {
    std::string out;
    for (const int32_t id : ids)
        out += strf("%8d  '%s'\n", id, printable(tokenizer.token_bytes(id), 400).c_str());
    return out;
}

std::string as_json(const text::Tokenizer& tokenizer, std::span<const int32_t> ids) {
    Json pieces = Json::array();
    for (const int32_t id : ids) {
        const std::string_view bytes = tokenizer.token_bytes(id);
        if (utf8::is_valid(bytes))
            pieces.push_back(bytes);
        else
            pieces.push_back(std::vector<uint8_t>(bytes.begin(), bytes.end()));
    }
    return json_line({{"n_tokens", ids.size()}, {"ids", ids}, {"pieces", pieces}});
}

Result<void> tokenize(const TokenizeArgs& args) {
    TSR_TRY(const gguf::File file, args.file.open());
    TSR_TRY(const auto loaded, load_tokenizer(file));
    const text::Tokenizer& tokenizer = *loaded;
    std::string text = args.escape ? unescape(args.text) : args.text;
    if (!args.has_text) {
        TSR_TRY(text, console::read_all(args.text_file));
    }
    TSR_TRY(const auto ids,
            tokenizer.encode(text, {.add_special = !args.no_special, .parse_special = args.parse_special}));
    return console::print(args.json       ? as_json(tokenizer, ids)
                          : args.ids_only ? as_ids(ids)
                                          : as_lines(tokenizer, ids));
}

Action declare_tokenize(Options& options) {
    auto args = std::make_shared<TokenizeArgs>();
    args->file.declare(options);
    options.positional("TEXT", args->text, "The text (default: from standard input).");
    options.group("Text");
    options.text("-p,--prompt", "TEXT", args->text, "The text, when MODEL is left out.");
    options.text("-f,--file", "FILE", args->text_file, "Read the text from a file; - is standard input.");
    options.flag("-e,--escape", args->escape,
                 "Process \\n, \\t, \\r, \\\\, \\\", \\' and \\xHH in TEXT and -p.");
    options.flag("--no-special", args->no_special, "Add no start and end tokens.");
    options.flag("--parse-special", args->parse_special,
                 "Turn text such as <|im_end|> into the control token it names.");
    options.group("Output");
    options.flag("--ids", args->ids_only, "Print ids only, on one line.");
    options.flag("--json", args->json,
                 "Print one JSON object with ids and pieces; a piece that is no UTF-8 is a list of bytes.");
    options.check([args, options]() -> Result<void> {
        const int n_texts = options.given("TEXT") + options.given("--prompt") + options.given("--file");
        args->has_text = options.given("TEXT") || options.given("--prompt");
        if (n_texts <= 1) return {};
        return fail(ErrorCode::InvalidArgument, "expected one of TEXT, -p and -f, found %d of them", n_texts);
    });
    return [args] { return tokenize(*args); };
}

}  // namespace

const Command kTokenize = {.name = "tokenize",
                           .summary = "show the tokens of a text",
                           .help = "Prints the tokens of a text: id and bytes, one token per line.",
                           .examples =
                               "  tessera tokenize model.gguf \"Once upon a time\"\n"
                               "  tessera tokenize model.gguf --ids < story.txt > ids.txt\n"
                               "  tessera tokenize -p \"Hello\" --no-special --json      the default model\n",
                           .declare = declare_tokenize};

}  // namespace tessera
