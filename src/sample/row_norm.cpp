// Log probabilities of completions and of the perplexity tool use this sum, so that both report the same
// number.
#include "src/sample/row_norm.h"

#include <algorithm>
#include <cmath>

namespace tessera::sample {

Result<RowNorm> row_norm(std::span<const float> logits) {
    RowNorm norm{.max = logits[0], .min = logits[0]};
    for (size_t i = 0; i < logits.size(); ++i) {
        if (!std::isfinite(logits[i]))
            return fail(ErrorCode::Malformed, "logit of token %zu: expected a finite number, found %f", i,
                        static_cast<double>(logits[i]));
        norm.min = std::min(norm.min, logits[i]);
        if (logits[i] <= norm.max) continue;
        norm.max = logits[i];
        norm.argmax = static_cast<int32_t>(i);
    }
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - norm.max));
    norm.log_sum = static_cast<double>(norm.max) + std::log(sum);
    return norm;
}

}  // namespace tessera::sample
