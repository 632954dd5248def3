// tessera detokenize: turns token ids into text.
#include <unistd.h>

#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"

namespace tessera {

namespace {

struct DetokenizeArgs {
    FileOptions file;
    std::vector<std::string> ids;
    bool special = false, json = false;
};

Result<std::vector<int32_t>> read_ids(const DetokenizeArgs& args) {
    std::string text;
    for (const std::string& part : args.ids) text += part + " ";
    if (args.ids.empty()) {
        TSR_TRY(text, console::read_all("-"));
    }
    return parse_ids(text);
}

Result<void> detokenize(const DetokenizeArgs& args) {
    TSR_TRY(const gguf::File file, args.file.open());
    TSR_TRY(const auto tokenizer, load_tokenizer(file));
    TSR_TRY(const auto ids, read_ids(args));
    const text::Vocab& vocab = tokenizer->vocab();
    for (size_t i = 0; i < ids.size(); i++)
        if (!vocab.contains(ids[i]))
            return fail(ErrorCode::InvalidArgument,
                        "token id %d (number %zu of the list) is outside this vocabulary, 0 to %d", ids[i],
                        i + 1, vocab.size() - 1);
    std::string text = tokenizer->decode(ids, {.show_special = args.special});
    if (args.json) return console::print(json_line({{"n_tokens", ids.size()}, {"text", text}}));
    if (console::is_terminal(STDOUT_FILENO) && !text.ends_with('\n')) text += '\n';
    return console::print(text);
}

Action declare_detokenize(Options& options) {
    auto args = std::make_shared<DetokenizeArgs>();
    args->file.declare(options);
    options.positionals("IDS", args->ids,
                        "Token ids, separated by spaces, commas or lines (default: from standard input).");
    options.group("Output");
    options.flag("--special", args->special, "Also print control tokens.");
    options.flag("--json", args->json, "Print one JSON object with the text.");
    return [args] { return detokenize(*args); };
}

}  // namespace

const Command kDetokenize = {
    .name = "detokenize",
    .summary = "turn token ids back into text",
    .help = "Prints the text of token ids. Bytes that form no character come out as U+FFFD.",
    .examples =
        "  tessera detokenize model.gguf 1 403 263 1\n"
        "  tessera tokenize model.gguf --ids < story.txt | tessera detokenize model.gguf\n",
    .declare = declare_detokenize};

}  // namespace tessera
