// Windows of a text, and statistics of rows of logits. Rows are evaluated one by one in double precision and
// in a fixed order, so the results do not depend on threads. kl_base.h has the file format of a base.
#include "src/measure/perplexity.h"

#include <algorithm>
#include <cmath>

namespace tessera::measure {

namespace {

/// Log probabilities below this are clamped in a base and are left out of the divergence.
constexpr double kLeastLogProb = -16;

}  // namespace

std::span<const int32_t> Windows::window(int64_t w) const {
    return std::span(tokens).subspan(static_cast<size_t>(w * n_ctx), static_cast<size_t>(n_ctx));
}

std::span<const int32_t> Windows::targets(int64_t w) const {
    return window(w).last(static_cast<size_t>(n_judged()));
}

Result<Windows> cut_windows(std::vector<int32_t> tokens, int64_t n_ctx, int64_t max_windows,
                            std::optional<int32_t> bos) {
    if (n_ctx < 4)
        return fail(ErrorCode::InvalidArgument, "window: expected 4 tokens or more, found %lld",
                    static_cast<long long>(n_ctx));
    Windows out;
    out.n_ctx = n_ctx;
    out.n_windows = static_cast<int64_t>(tokens.size()) / n_ctx;
    if (out.n_windows == 0)
        return fail(ErrorCode::InvalidArgument,
                    "text: expected at least one window of %lld tokens, found %zu (lower --ctx)",
                    static_cast<long long>(n_ctx), tokens.size());
    if (max_windows > 0) out.n_windows = std::min(out.n_windows, max_windows);
    tokens.resize(static_cast<size_t>(out.n_windows * n_ctx));
    out.tokens = std::move(tokens);
    out.bos = bos;
    return out;
}

Result<void> eval_windows(engine::Session& session, const Windows& windows, const JudgeFn& judge) {
    const auto n_before = static_cast<size_t>(windows.n_ctx / 2);
    for (int64_t w = 0; w < windows.n_windows; ++w) {
        const std::span<const int32_t> source = windows.window(w);
        std::vector<int32_t> tokens(source.begin(), source.end() - 1);
        if (windows.bos) tokens.front() = *windows.bos;
        session.truncate(0);
        TSR_TRY_VOID(session.eval(std::span(tokens).first(n_before)));
        Result<void> judged;
        TSR_TRY_VOID(session.eval_all(std::span(tokens).subspan(n_before),
                                      [&](int64_t first, int64_t n, const float* rows) {
                                          judged = judge(w, first, n, rows);
                                          return judged.has_value();
                                      }));
        if (!judged) return judged;
    }
    return {};
}

double Mean::error() const {
    if (n_ < 2) return 0;
    const double variance = std::max(0.0, mean_square() - mean() * mean());
    return std::sqrt(variance / static_cast<double>(n_ - 1));
}

BaseRow round_row(std::span<const float> logits, const sample::RowNorm& norm, std::span<uint16_t> steps) {
    const float least = std::max(norm.min, norm.max + static_cast<float>(kLeastLogProb));
    BaseRow row{.scale = (norm.max - least) / 65535.0f,
                .least = static_cast<float>(static_cast<double>(least) - norm.log_sum),
                .steps = steps};
    const float inverse = row.scale > 0 ? 1.0f / row.scale : 0.0f;
    for (size_t i = 0; i < logits.size(); ++i) {
        const float step = std::nearbyint(std::max(0.0f, logits[i] - least) * inverse);
        steps[i] = static_cast<uint16_t>(std::min(step, 65535.0f));
    }
    return row;
}

Divergence compare_row(std::span<const float> logits, const sample::RowNorm& norm, const BaseRow& base,
                       int32_t target) {
    const auto base_log = [&base](size_t i) {
        return static_cast<double>(base.scale) * base.steps[i] + static_cast<double>(base.least);
    };
    const auto goal = static_cast<size_t>(target);
    Divergence out;
    out.nll = norm.log_sum - static_cast<double>(logits[goal]);
    out.base_nll = -base_log(goal);
    size_t base_top = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
        if (base.steps[i] > base.steps[base_top]) base_top = i;
        const double log_p = base_log(i);
        if (log_p > kLeastLogProb)
            out.kl += std::exp(log_p) * (log_p - (static_cast<double>(logits[i]) - norm.log_sum));
    }
    out.same_top = static_cast<int32_t>(base_top) == norm.argmax;
    return out;
}

}  // namespace tessera::measure
