#pragma once
// Perplexity of a model over a text, and KL divergence from another model's predictions. Windows and formulas
// are those of llama.cpp's perplexity tool, so that both give the same number for the same text.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/engine/session.h"
#include "src/sample/row_norm.h"

namespace tessera::measure {

/// A text in windows of n_ctx tokens. Each window is computed from an empty cache, and only tokens in its
/// second half are evaluated, so that each has at least half a window of context.
struct Windows {
    std::vector<int32_t> tokens;  // [n_windows, n_ctx]
    int64_t n_ctx = 0;
    int64_t n_windows = 0;
    std::optional<int32_t> bos;  ///< replaces the first token of each window

    /// Evaluated tokens of a window: positions n_ctx / 2 + 1 and above.
    int64_t n_judged() const { return n_ctx - 1 - n_ctx / 2; }
    std::span<const int32_t> window(int64_t w) const;   // [n_ctx]
    std::span<const int32_t> targets(int64_t w) const;  // [n_judged]
};

/// The first `max_windows` full windows (0: all). Errors: n_ctx < 4; fewer tokens than one window.
Result<Windows> cut_windows(std::vector<int32_t> tokens, int64_t n_ctx, int64_t max_windows,
                            std::optional<int32_t> bos);

/// Logits [n, n_vocab] that predict the evaluated tokens first .. first + n of window w; called in ascending
/// order.
using JudgeFn = std::function<Result<void>(int64_t w, int64_t first, int64_t n, const float* rows)>;

/// Computes all windows; stops at an error of `judge`. The session needs a context of at least n_ctx.
Result<void> eval_windows(engine::Session& session, const Windows& windows, const JudgeFn& judge);

/// Mean of a sample and the standard error of that mean.
class Mean {
  public:
    void add(double value) {
        ++n_;
        sum_ += value;
        sum_of_squares_ += value * value;
    }
    int64_t n() const { return n_; }
    double mean() const { return n_ ? sum_ / static_cast<double>(n_) : 0; }
    double error() const;
    double mean_square() const { return n_ ? sum_of_squares_ / static_cast<double>(n_) : 0; }

  private:
    int64_t n_ = 0;
    double sum_ = 0, sum_of_squares_ = 0;
};

/// A row of a saved base: log p(i) = scale * steps[i] + least; steps of 0 mean `least` or less.
struct BaseRow {
    float scale = 0, least = 0;
    std::span<const uint16_t> steps;  // [n_vocab]
};
/// Quantizes a row to a BaseRow whose steps are in `steps` [n_vocab]. Log probabilities are clamped to 16
/// below the most probable token's.
BaseRow round_row(std::span<const float> logits, const sample::RowNorm& norm, std::span<uint16_t> steps);

/// Comparison of one evaluated token with the base.
struct Divergence {
    double kl = 0;        // sum_i p_base(i) log(p_base(i) / p(i)), nats
    double nll = 0;       // -log p(target)
    double base_nll = 0;  // -log p_base(target)
    bool same_top = false;
};
Divergence compare_row(std::span<const float> logits, const sample::RowNorm& norm, const BaseRow& base,
                       int32_t target);

}  // namespace tessera::measure
