// tessera imatrix: the importance of each matrix's inputs, collected over a text. The file is written every
// few chunks, so that an interrupted run can be resumed. The collector is in src/measure/imatrix.cpp.
#include "src/measure/imatrix.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/progress.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "ggml-like/gguf/output_path.h"
#include "src/measure/perplexity.h"

namespace tessera {

namespace {

using convert::Imatrix;

struct ImatrixArgs {
    ModelOptions model;
    SessionFlags session{.n_ctx = 512};
    std::string text_file, out;
    std::vector<std::string> sources;
    int64_t n_chunks = 0, save_every = 10;
    bool resume = false, json = false;
};

Result<Imatrix> read_imatrix(const std::string& path) {
    TSR_TRY(const gguf::File file, gguf::File::open(path));
    return Imatrix::read(file);
}

std::string written_json(const ImatrixArgs& args, const Imatrix& imatrix) {
    return json_line({{"out", args.out},
                      {"tensors", imatrix.entries.size()},
                      {"chunks", imatrix.n_chunks},
                      {"chunk_size", imatrix.chunk_size},
                      {"datasets", imatrix.datasets}});
}

Result<void> merge(const ImatrixArgs& args) {
    Imatrix sum;
    for (const std::string& path : args.sources) {
        TSR_TRY(const Imatrix one, read_imatrix(path));
        if (auto added = sum.add(one); !added) return fail_in(path, std::move(added.error()));
    }
    console::note_replacement(args.out);
    TSR_TRY_VOID(sum.write(args.out));
    return console::report(
        args.json, written_json(args, sum),
        strf("wrote %s: %zu tensors, %lld chunks of %zu files", printable(args.out, 400).c_str(),
             sum.entries.size(), static_cast<long long>(sum.n_chunks), args.sources.size()));
}

/// Adds the chunks that OUT already holds of the same text, and returns their number.
Result<int64_t> resume(const ImatrixArgs& args, const std::string& dataset, Imatrix& imatrix) {
    TSR_TRY(const Imatrix known, read_imatrix(args.out));
    if (known.chunk_size != args.session.n_ctx || known.datasets != std::vector<std::string>{dataset})
        return fail(ErrorCode::InvalidArgument,
                    "%s: expected chunks of %lld tokens of '%s' alone, found chunks of %lld of %s",
                    printable(args.out, 400).c_str(), static_cast<long long>(args.session.n_ctx),
                    printable(dataset, 400).c_str(), static_cast<long long>(known.chunk_size),
                    known.datasets.size() == 1 ? ("'" + printable(known.datasets[0], 400) + "'").c_str()
                                               : strf("%zu texts", known.datasets.size()).c_str());
    TSR_TRY_VOID(imatrix.add(known));
    return known.n_chunks;
}

Result<void> add_chunks(const ImatrixArgs& args, const measure::Windows& windows, int64_t first,
                        measure::ImatrixCollector& collector) {
    const auto chunk_tokens = static_cast<uint64_t>(windows.n_ctx);
    ProgressBar bar("collecting", static_cast<uint64_t>(windows.n_windows) * chunk_tokens,
                    ProgressBar::Unit::Tokens, console::verbosity() != console::Verbosity::Quiet);
    for (int64_t w = first; w < windows.n_windows; ++w) {
        bar.update(static_cast<uint64_t>(w) * chunk_tokens);
        const std::span<const int32_t> window = windows.window(w);
        std::vector<int32_t> tokens(window.begin(), window.end());
        if (windows.bos) tokens.front() = *windows.bos;
        if (auto added = collector.add_chunk(tokens); !added)
            return fail_in(strf("chunk %lld", static_cast<long long>(w)), std::move(added.error()));
        if ((w + 1 - first) % args.save_every == 0) TSR_TRY_VOID(collector.imatrix().write(args.out));
    }
    return {};
}

Result<void> collect(const ImatrixArgs& args) {
    TSR_TRY(gguf::File file, args.model.file.open());
    TSR_TRY_VOID(gguf::resolve_output(args.out, file));
    TSR_TRY(const auto tokenizer, load_tokenizer(file));
    const text::Vocab& vocab = tokenizer->vocab();
    const auto bos = vocab.add_bos() ? std::optional(vocab.special().bos) : std::nullopt;
    TSR_TRY(const std::string text, console::read_all(args.text_file));
    TSR_TRY(auto ids, tokenizer->encode(text, {.add_special = true}));
    TSR_TRY(const measure::Windows windows,
            measure::cut_windows(std::move(ids), args.session.n_ctx, args.n_chunks, bos));
    const std::string dataset = std::filesystem::path(args.text_file).filename().string();

    engine::SessionOptions options = args.session.session();
    options.n_batch = options.max_out = std::min(options.n_batch, options.n_ctx);
    options.all_floats = true;
    TSR_TRY(LoadedModel loaded, load_model(std::move(file), args.model, {options}));
    TSR_TRY(const auto session, engine::Session::create(loaded.model, *loaded.pool, options));
    measure::ImatrixCollector collector(*session);
    Imatrix& imatrix = collector.imatrix();
    imatrix.datasets.push_back(dataset);
    imatrix.chunk_size = options.n_ctx;
    int64_t first = 0;
    std::error_code ignored;
    if (args.resume && std::filesystem::exists(args.out, ignored)) {
        TSR_TRY(first, resume(args, dataset, imatrix));
    } else {
        console::note_replacement(args.out);
    }
    const console::InterruptGuard guard(console::Signals::Ending);
    loaded.pool->set_abort_flag(&guard.flag());
    const auto added = add_chunks(args, windows, first, collector);
    if (imatrix.n_chunks > first) TSR_TRY_VOID(imatrix.write(args.out));
    if (!added && added.error().code == ErrorCode::Cancelled)
        return fail(ErrorCode::Cancelled, "interrupted after %lld of %lld chunks; continue with --resume",
                    static_cast<long long>(imatrix.n_chunks), static_cast<long long>(windows.n_windows));
    TSR_TRY_VOID(added);
    return console::report(
        args.json, written_json(args, imatrix),
        strf("wrote %s: %zu tensors, %lld chunks of %lld tokens", printable(args.out, 400).c_str(),
             imatrix.entries.size(), static_cast<long long>(imatrix.n_chunks),
             static_cast<long long>(imatrix.chunk_size)));
}

Result<void> check(const ImatrixArgs& args) {
    if (args.out.empty()) return fail(ErrorCode::InvalidArgument, "-o FILE is needed");
    if (args.text_file.empty() == args.sources.empty())
        return fail(ErrorCode::InvalidArgument, "expected either a text (-f FILE) or files to --merge");
    if (!args.sources.empty() && args.resume)
        return fail(ErrorCode::InvalidArgument, "--resume continues with a text; --merge has none");
    return {};
}

Action declare_imatrix(Options& options) {
    auto args = std::make_shared<ImatrixArgs>();
    args->model.declare(options);
    options.group("Text");
    options.text("-f,--file", "FILE", args->text_file, "The text; - is standard input.");
    options.integer("-c,--ctx", args->session.n_ctx, 4, 1 << 20,
                    "Chunk size in tokens; chunks are independent of each other.");
    options.integer("--chunks", args->n_chunks, 0, 1 << 30, "Most chunks to use; 0: all.");
    args->session.declare_batch(options);
    options.group("Matrix");
    options.text("-o,--out", "FILE", args->out, "The file to write.");
    options.flag("--resume", args->resume, "Continue after the chunks that the file already holds.");
    options.integer("--save-every", args->save_every, 1, 1 << 20, "Write the file after this many chunks.");
    options.repeated(
        "--merge", "FILE",
        [args](const std::string& path) -> Result<void> {
            args->sources.push_back(path);
            return {};
        },
        "Add up files of one model instead of running it. Give it once per file.");
    options.flag("--json", args->json, "Print one JSON object with the sums' sizes.");
    options.check([args] { return check(*args); });
    return [args] { return args->sources.empty() ? collect(*args) : merge(*args); };
}

}  // namespace

const Command kImatrix = {
    .name = "imatrix",
    .summary = "collect an importance matrix for quantize",
    .help =
        "Runs a model over a text and sums the squared inputs of each matrix: an importance matrix for "
        "`tessera quantize --imatrix`. llama.cpp reads and writes the same files.",
    .examples =
        "  tessera imatrix model-f16.gguf -f calibration.txt -o model.imatrix.gguf\n"
        "  tessera imatrix model-f16.gguf -f calibration.txt -o model.imatrix.gguf --resume\n"
        "  tessera imatrix --merge prose.gguf --merge code.gguf -o both.gguf\n",
    .declare = declare_imatrix};

}  // namespace tessera
