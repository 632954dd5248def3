// tessera bench: the speed of a model beside the peak of the machine. Samples of both are interleaved and run
// on the same threads, so that a machine that slows down slows both. The formulas of work() are those of the
// help text.
#include <algorithm>

#include "common/quantile.h"
#include "common/rng.h"
#include "common/strings.h"
#include "examples/tessera/bench_load.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "examples/tessera/parallel_decode.h"
#include "examples/tessera/roofline.h"

namespace tessera {

namespace {

struct BenchArgs {
    ModelOptions model;
    SessionFlags session;
    NpuFlags npu;
    int64_t n_prompt = 512, n_generate = 128, depth = 0, n_seq = 1, n_samples = 5;
    bool json = false;
    LoadTest load;
};

/// One kind of pass, after `depth` positions are filled.
struct Test {
    bool is_prompt;  // all tokens at once, else one at a time
    int64_t n_tok;
    int64_t depth;
    int64_t n_seq;  // sequences that decode side by side

    std::string name() const {
        const std::string by = n_seq > 1 ? strf("xB%lld", static_cast<long long>(n_seq)) : "";
        const std::string at = depth > 0 ? strf("@d%lld", static_cast<long long>(depth)) : "";
        return strf("%s%lld", is_prompt ? "pp" : "tg", static_cast<long long>(n_tok)) + by + at;
    }
    int64_t all_tokens() const { return n_tok * n_seq; }
};

/// Bytes moved and products computed by a test.
struct Work {
    double bytes = 0, macs = 0;
};

struct Outcome {
    std::vector<double> samples;  // tokens per second
    double best = 0, median = 0;
    Roofline::Rates in_turn{};  // medians of sample / peak, the peak measured right before and after each
};

Work work(const Model& model, const SessionFlags& flags, const Test& test) {
    const Hparams& h = model.hparams();
    double kv_row = 0, attention_row = 0;  // bytes and products of one position
    for (const LayerSpec& layer : h.layers) {
        kv_row += static_cast<double>(layer.n_head_kv * (type_info(flags.k_type).row_bytes(layer.k_dim) +
                                                         type_info(flags.v_type).row_bytes(layer.v_dim)));
        attention_row += static_cast<double>(layer.n_q() + layer.n_attn());
    }
    const int64_t n_pass = test.is_prompt ? std::min(flags.n_batch, test.n_tok) : 1;
    Work work;
    for (int64_t at = 0; at < test.n_tok; at += n_pass) {
        const auto end = static_cast<double>(test.depth + std::min(at + n_pass, test.n_tok));
        work.bytes +=
            static_cast<double>(model.bytes_per_token()) + kv_row * end * static_cast<double>(test.n_seq);
    }
    const auto n_tok = static_cast<double>(test.all_tokens());
    const double n_keys = n_tok * (static_cast<double>(test.depth) + static_cast<double>(test.n_tok + 1) / 2);
    const double n_heads = test.is_prompt ? 1 : n_tok;
    work.macs = static_cast<double>(model.macs_per_token()) * n_tok + attention_row * n_keys +
                static_cast<double>(model.head_macs()) * n_heads;
    return work;
}

class Bench {
  public:
    explicit Bench(const BenchArgs& args) : args_(args) {}

    Result<void> run();

  private:
    Result<void> prepare();
    Result<double> time_once(const Test& test);
    Result<double> time_parallel(const Test& test);
    Result<Outcome> measure(const Test& test);
    Json as_json(const Test& test, const Outcome& outcome) const;
    std::string as_row(const Test& test, const Outcome& outcome) const;
    std::string heading() const;

    const BenchArgs& args_;
    LoadedModel loaded_;
    std::unique_ptr<engine::Session> session_;
    std::unique_ptr<ParallelDecode> parallel_;  // only with several sequences
    std::unique_ptr<Roofline> roofline_;
    std::vector<int32_t> tokens_;  // fixed, for depth and test
};

Result<void> Bench::prepare() {
    const int64_t n_tok = args_.depth + std::max(args_.n_prompt, args_.n_generate);
    engine::SessionOptions options = args_.session.session();
    options.n_ctx = n_tok;
    TSR_TRY(gguf::File file, args_.model.file.open());
    TSR_TRY(auto npu, load_npu(args_.npu, args_.model.file));
    TSR_TRY(loaded_, load_model(std::move(file), args_.model,
                                {options, args_.n_seq > 1 ? args_.n_seq + 1 : 1}, npu.get()));
    options.npu = std::move(npu);
    TSR_TRY(session_, engine::Session::create(loaded_.model, *loaded_.pool, options));
    TSR_TRY(roofline_, Roofline::create(*loaded_.pool, loaded_.isa->table->name));
    Rng rng(1);
    const auto n_vocab = static_cast<uint64_t>(loaded_.model->hparams().n_vocab);
    for (int64_t i = 0; i < n_tok; i++) tokens_.push_back(static_cast<int32_t>(rng.next_u64() % n_vocab));
    const auto filled = std::span(tokens_).first(static_cast<size_t>(args_.depth));
    if (args_.n_seq > 1) {
        TSR_TRY(parallel_, ParallelDecode::create(loaded_.model, *loaded_.pool, options, args_.n_seq));
        if (!parallel_->fill(filled)) return fail(ErrorCode::Cancelled, "interrupted");
    }
    return eval_prompt(*session_, filled, args_.session.n_batch);
}

/// The same for sequences side by side; each gets the same tokens.
Result<double> Bench::time_parallel(const Test& test) {
    parallel_->truncate(test.depth);
    const auto tokens =
        std::span(tokens_).subspan(static_cast<size_t>(test.depth), static_cast<size_t>(test.n_tok));
    const double start = now_seconds();
    for (const int32_t token : tokens)
        if (!parallel_->step(token)) return fail(ErrorCode::Cancelled, "interrupted");
    return now_seconds() - start;
}

/// Seconds of the test's passes; the session is left at its end.
Result<double> Bench::time_once(const Test& test) {
    if (test.n_seq > 1) return time_parallel(test);
    session_->truncate(test.depth);
    const auto tokens =
        std::span(tokens_).subspan(static_cast<size_t>(test.depth), static_cast<size_t>(test.n_tok));
    const size_t n_pass = test.is_prompt ? tokens.size() : 1;
    const double start = now_seconds();
    for (size_t at = 0; at < tokens.size(); at += n_pass)
        TSR_TRY_VOID(session_->eval(tokens.subspan(at, n_pass),
                                    test.is_prompt ? engine::Phase::Prefill : engine::Phase::Decode));
    return now_seconds() - start;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return quantile(values, 0.5);
}

Result<Outcome> Bench::measure(const Test& test) {
    TSR_TRY_VOID(time_once(test));  // caches and pages are warm from here on
    const Work done = work(*loaded_.model, args_.session, test);
    Outcome outcome;
    std::vector<double> of_read, of_int8, of_fma;
    Roofline::Rates before = roofline_->sample();
    for (int64_t i = 0; i < args_.n_samples; i++) {
        TSR_TRY(const double seconds, time_once(test));
        outcome.samples.push_back(static_cast<double>(test.all_tokens()) / seconds);
        const Roofline::Rates after = roofline_->sample();
        const double twice = 2e-9 / seconds;  // the mean of two is half their sum
        of_read.push_back(twice * done.bytes / (before.read + after.read));
        of_int8.push_back(twice * done.macs / (before.int8 + after.int8));
        of_fma.push_back(twice * done.macs / (before.fma + after.fma));
        before = after;
    }
    outcome.best = *std::max_element(outcome.samples.begin(), outcome.samples.end());
    outcome.median = median(outcome.samples);
    outcome.in_turn = {.read = median(of_read), .int8 = median(of_int8), .fma = median(of_fma)};
    return outcome;
}

/// Work per second at the median, in 10^9.
Work rates(const Work& work, const Test& test, const Outcome& outcome) {
    const double per_second = outcome.median / static_cast<double>(test.all_tokens()) / 1e9;
    return {work.bytes * per_second, work.macs * per_second};
}

Json Bench::as_json(const Test& test, const Outcome& outcome) const {
    const Model& model = *loaded_.model;
    const Work rate = rates(work(model, args_.session, test), test, outcome);
    Json samples = Json::array();
    for (const double sample : outcome.samples) samples.push_back(rounded(sample));
    return {{"test", test.name()},
            {"model", model.file().path()},
            {"architecture", model.hparams().arch},
            {"type", type_info(model.main_type()).name},
            {"parameters", model.n_params()},
            {"isa", loaded_.isa->name},
            {"threads", loaded_.pool->n_threads()},
            {"kv", args_.session.kv_name()},
            {"batch", args_.session.n_batch},
            {"precise", args_.model.precise},
            {"blas", args_.model.blas},
            {"tokens_per_s", rounded(outcome.median)},
            {"best", rounded(outcome.best)},
            {"samples", samples},
            {"gb_per_s", rounded(rate.bytes)},
            {"gmac_per_s", rounded(rate.macs)},
            {"roofline", roofline_json(*roofline_)},
            {"of_read_bw", rounded(rate.bytes / roofline_->read_gb_per_s())},
            {"of_int8_peak", rounded(rate.macs / roofline_->int8_gmac_per_s())},
            {"of_fma_peak", rounded(rate.macs / roofline_->fma_gmac_per_s())},
            {"in_turn",
             {{"of_read_bw", rounded(outcome.in_turn.read)},
              {"of_int8_peak", rounded(outcome.in_turn.int8)},
              {"of_fma_peak", rounded(outcome.in_turn.fma)}}}};
}

std::string Bench::heading() const {
    return printable(loaded_.model->file().path(), 400) + ": " + loaded_.description() +
           strf("\n%-14s %12s %12s %10s %10s %10s %10s %10s\n", "test", "tokens/s", "best", "GB/s", "of peak",
                "GMAC/s", "of int8", "of float");
}

std::string Bench::as_row(const Test& test, const Outcome& outcome) const {
    const Work rate = rates(work(*loaded_.model, args_.session, test), test, outcome);
    const Roofline::Rates& in_turn = outcome.in_turn;
    return strf("%-14s %12.2f %12.2f %10.2f %9.1f%% %10.2f %9.1f%% %9.1f%%\n", test.name().c_str(),
                outcome.median, outcome.best, rate.bytes, 100 * rate.bytes / roofline_->read_gb_per_s(),
                rate.macs, 100 * rate.macs / roofline_->int8_gmac_per_s(),
                100 * rate.macs / roofline_->fma_gmac_per_s()) +
           strf("%-50s %9.1f%% %20.1f%% %9.1f%%\n", "  of the peak around each sample", 100 * in_turn.read,
                100 * in_turn.int8, 100 * in_turn.fma);
}

Result<void> Bench::run() {
    TSR_TRY_VOID(prepare());
    if (!args_.json) TSR_TRY_VOID(console::print(heading()));
    for (const Test& test : {Test{true, args_.n_prompt, args_.depth, 1},
                             Test{false, args_.n_generate, args_.depth, args_.n_seq}}) {
        if (test.n_tok == 0) continue;
        TSR_TRY(const Outcome outcome, measure(test));
        TSR_TRY_VOID(console::print(args_.json ? json_line(as_json(test, outcome)) : as_row(test, outcome)));
    }
    if (args_.json) return {};
    return console::print(strf("%-14s read %.1f GB/s, int8 %.1f GMAC/s, float %.1f GMAC/s\n", "peak",
                               roofline_->read_gb_per_s(), roofline_->int8_gmac_per_s(),
                               roofline_->fma_gmac_per_s()));
}

Result<void> measure_load(BenchArgs& args) {
    args.load.n_prompt = args.n_prompt;
    args.load.n_generate = args.n_generate;
    args.load.json = args.json;
    TSR_TRY(gguf::File file, args.model.file.open());
    TSR_TRY(const auto tokenizer, load_tokenizer(file));
    const engine::EngineOptions options = load_test_engine(args.session, args.load);
    const engine::SessionOptions one{.n_ctx = options.n_ctx,
                                     .n_batch = options.n_batch,
                                     .max_out = options.max_running,
                                     .k_type = options.k_type,
                                     .v_type = options.v_type};
    TSR_TRY(const LoadedModel loaded,
            load_model(std::move(file), args.model, {one, options.max_running, true}));
    return run_load_tests(loaded, tokenizer, options, args.load);
}

Result<void> declare_number(double& value, double max, const std::string& text) {
    const auto number = parse_double(text);
    if (!number || !(*number >= 0 && *number <= max))
        return fail(ErrorCode::InvalidArgument, "expected a number from 0 to %g, found '%s'", max,
                    printable(text).c_str());
    value = *number;
    return {};
}

void declare_load(Options& options, BenchArgs& args) {
    LoadTest& load = args.load;
    options.group("Requests");
    options.parsed(
        "--concurrency", "N,N,...",
        [&load](const std::string& text) -> Result<void> {
            load.concurrency.clear();
            for (const std::string_view part : split(text, ',')) {
                const auto n = parse_int(part);
                if (!n || *n < 1 || *n > 256)
                    return fail(ErrorCode::InvalidArgument, "expected numbers from 1 to 256, found '%s'",
                                printable(part).c_str());
                load.concurrency.push_back(*n);
            }
            return {};
        },
        "Benchmark the engine at these concurrency levels, a test for each.");
    options.integer("--requests", load.n_requests, 0, 1 << 20,
                    "Requests per test; 0: three times the concurrency.");
    options.parsed(
        "--shared-prefix", "X",
        [&load](const std::string& text) { return declare_number(load.shared, 1, text); },
        "Part of each prompt that is common to all, 0 to 1. (default: 0)");
    options.parsed(
        "--arrival-rate", "X",
        [&load](const std::string& text) { return declare_number(load.rate, 1e6, text); },
        "Requests per second, at random times; 0: a new one when one ends. (default: 0)");
    options.integer("--beside", load.n_beside, 0, 1 << 20,
                    "Measure decode latency while another request prefills N tokens.");
    options.flag("--mixed", load.mixed, "Vary the lengths of prompts and answers between 25 % and 100 %.");
}

Action declare_bench(Options& options) {
    auto args = std::make_shared<BenchArgs>();
    args->model.declare(options);
    options.group("Test");
    constexpr int64_t kMost = int64_t{1} << 20;
    options.integer("-p,--n-prompt", args->n_prompt, 0, kMost, "Tokens of the prompt test; 0: skip it.");
    options.integer("-n,--n-predict", args->n_generate, 0, kMost, "Tokens of the decode test; 0: skip it.");
    options.integer("-d,--depth", args->depth, 0, kMost, "Tokens in the context before each test.");
    options.integer("-b,--sequences", args->n_seq, 1, 256,
                    "Sequences that the decode test advances together, one token each per step.");
    options.integer("-r,--repetitions", args->n_samples, 1, 1000, "Samples per test.");
    args->session.declare_batch(options, "--batch");
    args->session.declare_kv(options);
    args->npu.declare(options);
    declare_load(options, *args);
    options.group("Output");
    options.flag("--json", args->json, "Print one JSON object per test, a line each.");
    options.check([args]() -> Result<void> {
        if (args->npu.is_on() && (!args->load.concurrency.empty() || args->n_seq > 1))
            return fail(ErrorCode::InvalidArgument,
                        "--npu-device: only one sequence is possible; leave out -b and --concurrency");
        if (!args->load.concurrency.empty() && (args->n_prompt == 0 || args->n_generate == 0))
            return fail(ErrorCode::InvalidArgument, "--concurrency needs -p and -n of 1 or more");
        if (args->n_prompt + args->n_generate > 0) return {};
        return fail(ErrorCode::InvalidArgument, "-p 0 and -n 0 leave nothing to measure");
    });
    return [args] { return args->load.concurrency.empty() ? Bench(*args).run() : measure_load(*args); };
}

}  // namespace

const Command kBench = {
    .name = "bench",
    .summary = "measure the speed of a model",
    .help =
        "Measures a prompt of N tokens (ppN) and decoding of N tokens (tgN), with D tokens in the context "
        "(@dD), for B sequences together (xB). tokens/s counts all sequences and is the median of the "
        "samples.\n"
        "\n"
        "  GB/s    weights, once per step, and the keys and values of the context\n"
        "  GMAC/s  multiply-accumulates of the layers, of the output head and of attention\n"
        "\n"
        "The percentages are shares of the machine's peak on the same threads: memory bandwidth of a "
        "streaming read, int8 products, float products. Peaks and samples are measured interleaved. On a "
        "shared machine the best peak is a lucky value; the second line gives the median of sample / peak "
        "measured right before and after.\n"
        "\n"
        "With --concurrency (loadNxC), requests to the engine: tokens/s of all together; the time to the "
        "first token in ms of new prompts and of prompts that are mostly in the prefix cache, and the time "
        "between tokens, each as the median and the 99th percentile; the time of sampling and of the "
        "scheduler as a share of the model's. With --beside (besideNxC): ms between tokens before and "
        "during the prefill.",
    .examples =
        "  tessera bench model.gguf\n"
        "  tessera bench model.gguf -p 0 -n 32 -d 4096 -t 8\n"
        "  tessera bench model.gguf -p 0 -n 32 -b 8\n"
        "  tessera bench model.gguf --concurrency 1,4,8 --shared-prefix 0.5\n"
        "  tessera bench model.gguf --concurrency 4 -p 16 --beside 1024\n"
        "  tessera bench model.gguf -p 512 -n 128 -r 9 --json > result.jsonl\n",
    .declare = declare_bench};

}  // namespace tessera
