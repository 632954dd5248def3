// tessera npu calibrate: the ranges of a model's activations over a text. They are found by
// src/measure/npu_calibration.cpp.
#include "src/measure/npu_calibration.h"

#include <algorithm>

#include "common/progress.h"
#include "common/strings.h"
#include "examples/tessera/blas_flag.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/model_loading.h"
#include "src/measure/perplexity.h"
#include "src/npu/model_digest.h"

namespace tessera {

namespace {

struct CalibrateArgs {
    ModelOptions model;
    std::string text_file, out;
    int64_t n_ctx = 512, n_samples = 128;
};

Result<measure::Windows> choose_samples(const CalibrateArgs& args, const gguf::File& file) {
    TSR_TRY(const auto tokenizer, load_tokenizer(file));
    const text::Vocab& vocab = tokenizer->vocab();
    const auto bos = vocab.add_bos() ? std::optional(vocab.special().bos) : std::nullopt;
    TSR_TRY(const std::string text, console::read_all(args.text_file));
    TSR_TRY(auto ids, tokenizer->encode(text, {.add_special = true}));
    return measure::cut_windows(std::move(ids), args.n_ctx, args.n_samples, bos);
}

Result<void> add_samples(const measure::Windows& samples, measure::NpuCalibration& calibration) {
    const auto n_tok = static_cast<uint64_t>(samples.n_ctx);
    ProgressBar bar("calibrating", static_cast<uint64_t>(samples.n_windows) * n_tok,
                    ProgressBar::Unit::Tokens, console::verbosity() != console::Verbosity::Quiet);
    for (int64_t i = 0; i < samples.n_windows; ++i) {
        bar.update(static_cast<uint64_t>(i) * n_tok);
        const std::span<const int32_t> sample = samples.window(i);
        std::vector<int32_t> tokens(sample.begin(), sample.end());
        if (samples.bos) tokens.front() = *samples.bos;
        auto added = calibration.add(tokens);
        if (!added && added.error().code == ErrorCode::Cancelled)
            return fail(ErrorCode::Cancelled, "interrupted after %lld of %lld samples",
                        static_cast<long long>(i), static_cast<long long>(samples.n_windows));
        TSR_TRY_VOID(added);
    }
    return {};
}

Result<void> calibrate(const CalibrateArgs& args) {
    TSR_TRY(gguf::File file, args.model.file.open());
    TSR_TRY(const measure::Windows samples, choose_samples(args, file));
    const int64_t n_batch = std::min<int64_t>(128, args.n_ctx);
    const engine::SessionOptions options{
        .n_ctx = args.n_ctx, .n_batch = n_batch, .max_out = n_batch, .all_floats = true};
    TSR_TRY(LoadedModel loaded, load_model(std::move(file), args.model, {options}));
    TSR_TRY(const auto session, engine::Session::create(loaded.model, *loaded.pool, options));
    TSR_TRY(const auto calibration, measure::NpuCalibration::create(*session, n_batch));
    console::note_replacement(args.out);
    const console::InterruptGuard guard(console::Signals::Ending);
    loaded.pool->set_abort_flag(&guard.flag());
    TSR_TRY_VOID(add_samples(samples, *calibration));
    TSR_TRY(const npu::Ranges ranges, calibration->take(npu::model_digest(loaded.model->file())));
    TSR_TRY_VOID(console::write_file(args.out, ranges.to_json()));
    console::note("wrote %s: the ranges of %zu activations over %lld tokens",
                  printable(args.out, 400).c_str(), ranges.of.size(), static_cast<long long>(ranges.n_tok));
    return {};
}

Action declare_npu_calibrate(Options& options) {
    auto args = std::make_shared<CalibrateArgs>();
    // Ranges are those of the exact activations, which the integers approximate.
    args->model.precise = true;
    args->model.file.declare(options);
    declare_blas(options, args->model.blas);
    options.flag("--force", args->model.force,
                 "Run even if the memory estimate (tessera plan) says it does not fit.");
    options.integer("-t,--threads", args->model.n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.group("Text");
    options.text("-f,--file", "FILE", args->text_file, "The text; - is standard input.");
    options.integer("-c,--ctx", args->n_ctx, 4, 1 << 20,
                    "Sample size in tokens; samples are independent of each other.");
    options.integer("--samples", args->n_samples, 0, 1 << 30, "Most samples to use; 0: all.");
    options.group("Ranges");
    options.text("-o,--out", "FILE", args->out, "The file to write.");
    options.check([args]() -> Result<void> {
        if (args->text_file.empty()) return fail(ErrorCode::InvalidArgument, "-f FILE is needed");
        if (args->out.empty()) return fail(ErrorCode::InvalidArgument, "-o FILE is needed");
        return {};
    });
    return [args] { return calibrate(*args); };
}

}  // namespace

const Command kNpuCalibrate = {
    .name = "npu calibrate",
    .summary = "find the activation ranges of a model",
    .help =
        "Runs a model over a text in float and writes the smallest and the largest value of each activation, "
        "which set the integer scales on an NPU. One file serves every device and recipe. The text should be "
        "similar to the text that the model will process.",
    .examples =
        "  tessera npu calibrate model.gguf -f wiki.train.raw -o model.ranges.json\n"
        "  tessera npu calibrate model.gguf -f wiki.train.raw --samples 16 -o model.ranges.json\n"
        "  tessera run model.gguf -p Hello --npu-device x-elite --npu-ranges model.ranges.json\n",
    .declare = declare_npu_calibrate};

}  // namespace tessera
