#pragma once
// Normalization of a row of logits, for log probabilities.
#include <cstdint>
#include <span>

#include "common/expected.h"

namespace tessera::sample {

/// log p(i) = logits[i] - log_sum.
struct RowNorm {
    double log_sum = 0;
    float max = 0, min = 0;
    int32_t argmax = 0;  // the lowest index if several are equal
};
/// The normalization of a row [n_vocab], in double precision and in the order of the row. Errors: a logit
/// that is not finite.
Result<RowNorm> row_norm(std::span<const float> logits);

}  // namespace tessera::sample
