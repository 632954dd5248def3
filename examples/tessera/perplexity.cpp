// tessera perplexity: how well a model predicts a text, and its KL divergence from a base model. All threads
// compute passes and rows; sums run over rows in order, so figures do not depend on the number of threads.
#include <algorithm>
#include <cmath>

#include "common/progress.h"
#include "common/quantile.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "src/measure/kl_base.h"

namespace tessera {

namespace {

using measure::BaseRow;
using measure::Divergence;
using measure::Mean;
using measure::Windows;

struct PerplexityArgs {
    ModelOptions model;
    SessionFlags session{.n_ctx = 512, .n_batch = 128};
    NpuFlags npu;
    std::string text_file, base, save_base;
    int64_t n_windows = 0;
    bool json = false;
};

/// Sums over the evaluated tokens. `base_nll` and the rest only with a base.
struct Figures {
    Mean nll, base_nll, log_ratio, kl, same_top, p_delta;
    std::vector<float> kl_values;

    void add(const Divergence& d, bool with_base) {
        nll.add(d.nll);
        if (!with_base) return;
        base_nll.add(d.base_nll);
        log_ratio.add(d.nll - d.base_nll);
        kl.add(d.kl);
        same_top.add(d.same_top);
        p_delta.add(std::exp(-d.nll) - std::exp(-d.base_nll));
        kl_values.push_back(static_cast<float>(d.kl));
    }
};

/// exp of a mean, with its propagated standard error.
struct Exponential {
    double value, error;
    explicit Exponential(const Mean& log) : value(std::exp(log.mean())), error(value * log.error()) {}
};

class Judge {
  public:
    Judge(const LoadedModel& loaded, const Windows& windows, const measure::KlBase* base,
          measure::KlBaseWriter* writer, int64_t max_rows, bool quiet)
        : pool_(*loaded.pool),
          windows_(windows),
          base_(base),
          writer_(writer),
          n_vocab_(static_cast<size_t>(loaded.model->hparams().n_vocab)),
          rows_(static_cast<size_t>(max_rows)),
          bar_("judging", static_cast<uint64_t>(windows.n_windows * windows.n_ctx), ProgressBar::Unit::Tokens,
               !quiet) {
        if (writer_) steps_.resize(rows_.size() * n_vocab_);
    }

    Result<void> operator()(int64_t w, int64_t first, int64_t n, const float* logits) {
        pool_.run(n, [&](int64_t i, int) {
            rows_[static_cast<size_t>(i)] = judge(w, first + i, logits, static_cast<size_t>(i));
        });
        if (pool_.aborted()) return fail(ErrorCode::Cancelled, "interrupted");
        for (int64_t i = 0; i < n; ++i) {
            const Result<Row>& row = rows_[static_cast<size_t>(i)];
            if (!row)
                return fail_in(strf("window %lld, token %lld", static_cast<long long>(w),
                                    static_cast<long long>(first + i)),
                               row.error());
            figures_.add(row->divergence, base_ != nullptr);
            if (writer_) TSR_TRY_VOID(writer_->append(row->rounded));
        }
        bar_.update(static_cast<uint64_t>(w * windows_.n_ctx + windows_.n_ctx / 2 + 1 + first + n));
        return {};
    }

    const Figures& figures() const { return figures_; }

  private:
    struct Row {
        Divergence divergence;
        BaseRow rounded;
    };

    Result<Row> judge(int64_t w, int64_t j, const float* logits, size_t i) {
        const std::span row(logits + i * n_vocab_, n_vocab_);
        const int32_t target = windows_.targets(w)[static_cast<size_t>(j)];
        TSR_TRY(const sample::RowNorm norm, sample::row_norm(row));
        Row out;
        if (writer_)
            out.rounded = measure::round_row(row, norm, std::span(steps_).subspan(i * n_vocab_, n_vocab_));
        if (base_) {
            TSR_TRY(const BaseRow base_row, base_->row(w, j));
            out.divergence = measure::compare_row(row, norm, base_row, target);
        } else {
            out.divergence.nll = norm.log_sum - static_cast<double>(row[static_cast<size_t>(target)]);
        }
        return out;
    }

    ThreadPool& pool_;
    const Windows& windows_;
    const measure::KlBase* base_;
    measure::KlBaseWriter* writer_;
    size_t n_vocab_;
    std::vector<Result<Row>> rows_;
    std::vector<uint16_t> steps_;  // [max_rows, n_vocab]
    Figures figures_;
    ProgressBar bar_;
};

struct PerplexityReport {
    const Windows& windows;
    const Figures& figures;
    std::vector<float> kl;  // sorted; empty without a base
};

Json as_json(const PerplexityReport& r) {
    const Figures& f = r.figures;
    const Exponential ppl(f.nll);
    Json out = {{"windows", r.windows.n_windows},
                {"n_ctx", r.windows.n_ctx},
                {"judged_tokens", f.nll.n()},
                {"perplexity", ppl.value},
                {"standard_error", ppl.error}};
    if (r.kl.empty()) return out;
    const Exponential base(f.base_nll), ratio(f.log_ratio);
    out["base_perplexity"] = base.value;
    out["ratio"] = ratio.value;
    out["ratio_error"] = ratio.error;
    out["kl_mean"] = f.kl.mean();
    out["kl_error"] = f.kl.error();
    out["kl_median"] = quantile(r.kl, 0.5);
    out["kl_99"] = quantile(r.kl, 0.99);
    out["kl_max"] = static_cast<double>(r.kl.back());
    out["same_top"] = f.same_top.mean();
    out["p_delta_mean"] = f.p_delta.mean();
    out["p_delta_rms"] = std::sqrt(f.p_delta.mean_square());
    return out;
}

std::string as_text(const PerplexityReport& r) {
    const Figures& f = r.figures;
    const Exponential ppl(f.nll);
    std::string out = strf("%-18s %lld of %lld tokens, %lld judged\n", "windows",
                           static_cast<long long>(r.windows.n_windows),
                           static_cast<long long>(r.windows.n_ctx), static_cast<long long>(f.nll.n()));
    out += strf("%-18s %.4f +/- %.4f\n", "perplexity", ppl.value, ppl.error);
    if (r.kl.empty()) return out;
    const Exponential base(f.base_nll), ratio(f.log_ratio);
    out += strf("%-18s %.4f, ratio %.6f +/- %.6f\n", "of the base", base.value, ratio.value, ratio.error);
    out += strf("%-18s %.6f +/- %.6f, median %.6f, 99 %% %.6f, max %.6f\n", "KL divergence", f.kl.mean(),
                f.kl.error(), quantile(r.kl, 0.5), quantile(r.kl, 0.99), static_cast<double>(r.kl.back()));
    out += strf("%-18s %.3f %% +/- %.3f %%\n", "same top token", 100 * f.same_top.mean(),
                100 * f.same_top.error());
    out += strf("%-18s mean %+.3f %%, RMS %.3f %%\n", "p(token) - base", 100 * f.p_delta.mean(),
                100 * std::sqrt(f.p_delta.mean_square()));
    return out;
}

/// The windows of --file, or those of the base; they must be equal if both are given.
Result<Windows> choose_windows(const PerplexityArgs& args, const gguf::File& file,
                               const measure::KlBase* base) {
    TSR_TRY(const auto tokenizer, load_tokenizer(file));
    const text::Vocab& vocab = tokenizer->vocab();
    const auto bos = vocab.add_bos() ? std::optional(vocab.special().bos) : std::nullopt;
    Windows windows;
    if (!args.text_file.empty()) {
        TSR_TRY(const std::string text, console::read_all(args.text_file));
        TSR_TRY(auto ids, tokenizer->encode(text, {.add_special = true}));
        const int64_t n_ctx = base ? base->windows().n_ctx : args.session.n_ctx;
        const int64_t n_windows = base && args.n_windows == 0 ? base->windows().n_windows : args.n_windows;
        TSR_TRY(windows, measure::cut_windows(std::move(ids), n_ctx, n_windows, bos));
    }
    if (!base) return windows;
    Windows saved = base->windows();
    saved.bos = bos;
    if (args.n_windows > 0 && args.n_windows < saved.n_windows) {
        saved.n_windows = args.n_windows;
        saved.tokens.resize(static_cast<size_t>(saved.n_windows * saved.n_ctx));
    }
    if (!args.text_file.empty() && windows.tokens != saved.tokens)
        return fail(ErrorCode::InvalidArgument,
                    "'%s': its tokens differ from those of the base '%s': another text or another vocabulary",
                    args.text_file.c_str(), args.base.c_str());
    return saved;
}

Result<void> measure(const PerplexityArgs& args) {
    std::optional<measure::KlBase> base;
    if (!args.base.empty()) {
        TSR_TRY(base, measure::KlBase::open(args.base));
    }
    TSR_TRY(gguf::File file, args.model.file.open());
    TSR_TRY(const Windows windows, choose_windows(args, file, base ? &*base : nullptr));
    engine::SessionOptions options = args.session.session();
    options.n_ctx = windows.n_ctx;
    options.n_batch = options.max_out = std::min(options.n_batch, windows.n_ctx);
    TSR_TRY(auto npu, load_npu(args.npu, args.model.file));
    TSR_TRY(LoadedModel loaded, load_model(std::move(file), args.model, {options}, npu.get()));
    options.npu = std::move(npu);
    const int64_t n_vocab = loaded.model->hparams().n_vocab;
    if (base && base->n_vocab() != n_vocab)
        return fail(ErrorCode::InvalidArgument, "'%s': expected %lld vocabulary entries, found %lld",
                    args.base.c_str(), static_cast<long long>(n_vocab),
                    static_cast<long long>(base->n_vocab()));

    TSR_TRY(const auto session, engine::Session::create(loaded.model, *loaded.pool, options));
    std::unique_ptr<measure::KlBaseWriter> writer;
    if (!args.save_base.empty()) {
        console::note_replacement(args.save_base);
        TSR_TRY(writer, measure::KlBaseWriter::create(args.save_base, windows, n_vocab));
    }
    const console::InterruptGuard guard(console::Signals::Ending);
    loaded.pool->set_abort_flag(&guard.flag());
    Judge judge(loaded, windows, base ? &*base : nullptr, writer.get(), options.max_out,
                console::verbosity() == console::Verbosity::Quiet);
    if (auto done = measure::eval_windows(*session, windows, std::ref(judge)); !done)
        return tl::unexpected<Error>(writer ? console::name_output(std::move(done.error()), args.save_base)
                                            : std::move(done.error()));
    if (writer) TSR_TRY_VOID(writer->finish());

    PerplexityReport report{windows, judge.figures(), judge.figures().kl_values};
    std::sort(report.kl.begin(), report.kl.end());
    return console::print(args.json ? json_line(as_json(report)) : as_text(report));
}

Action declare_perplexity(Options& options) {
    auto args = std::make_shared<PerplexityArgs>();
    args->model.declare(options);
    options.group("Text");
    options.text("-f,--file", "FILE", args->text_file, "The text; - is standard input.");
    options.integer("-c,--ctx", args->session.n_ctx, 4, 1 << 20, "Window size in tokens.");
    options.integer("--windows", args->n_windows, 0, 1 << 30, "Most windows to use; 0: all.");
    options.group("Comparison");
    options.text("--save-base", "FILE", args->save_base,
                 "Save this model's predictions, to compare others with.");
    options.text("--kl-base", "FILE", args->base,
                 "Compare with saved predictions (also llama.cpp's), over the text they were made from.");
    args->session.declare_batch(options);
    args->session.declare_kv(options);
    args->npu.declare(options);
    options.group("Output");
    options.flag("--json", args->json, "Print one JSON object.");
    options.check([args]() -> Result<void> {
        if (args->text_file.empty() && args->base.empty())
            return fail(ErrorCode::InvalidArgument, "expected a text (-f FILE) or a base (--kl-base FILE)");
        return {};
    });
    return [args] { return measure(*args); };
}

}  // namespace

const Command kPerplexity = {
    .name = "perplexity",
    .summary = "measure how well a model predicts a text",
    .help =
        "Cuts a text into windows, predicts the second half of each, and prints the perplexity, as "
        "llama.cpp's perplexity tool does for the same file and window. With a base, saved from another "
        "model (the unquantized one), it also prints the KL divergence from that model's predictions.",
    .examples =
        "  tessera perplexity model.gguf -f wiki.test.raw\n"
        "  tessera perplexity model-f16.gguf -f wiki.test.raw --save-base f16.base\n"
        "  tessera perplexity model-q4.gguf --kl-base f16.base --json\n",
    .declare = declare_perplexity};

}  // namespace tessera
