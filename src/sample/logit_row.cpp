// The passes over a whole vocabulary. Their inner loops have a fixed length and no branches, so that the
// compiler turns them into vector code. Assumes no NaN after assign(). Next: candidates.cpp, which decides
// when a row becomes a list.
#include "src/sample/logit_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "src/sample/fixed_exp.h"

namespace tessera::sample {

namespace {

constexpr size_t kBlock = LogitRow::kBlock;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

float best_of(const float* x) {
    constexpr size_t kLanes = 16;
    float lanes[kLanes];
    for (size_t j = 0; j < kLanes; j++) lanes[j] = x[j];
    for (size_t i = kLanes; i < kBlock; i += kLanes) {
        for (size_t j = 0; j < kLanes; j++) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    }
    for (size_t width = kLanes / 2; width > 0; width /= 2) {
        for (size_t j = 0; j < width; j++) {
            lanes[j] = lanes[j + width] > lanes[j] ? lanes[j + width] : lanes[j];
        }
    }
    return lanes[0];
}

/// Copies a block; returns how many NaNs it had.
size_t copy_block(const float* from, float* to) {
    int32_t n_nan = 0;
    for (size_t i = 0; i < kBlock; i++) {
        const bool nan = from[i] != from[i];
        n_nan += nan ? 1 : 0;
        to[i] = nan ? kBanned : from[i];
    }
    return static_cast<size_t>(n_nan);
}

/// A sum over a block, rounded to whole each. The terms are computed first, in a loop of floats alone, since
/// a loop of floats and integers of 64 bits does not become vector code.
template <class Term>
uint64_t sum_of_block(const float* x, Term term) {
    float terms[kBlock];
    for (size_t i = 0; i < kBlock; i++) terms[i] = term(x[i]);
    uint64_t sum = 0;
    for (size_t i = 0; i < kBlock; i++) sum += shifted_bits(terms[i]);
    return sum - kBlock * std::bit_cast<uint64_t>(kRoundToWhole);
}

uint64_t block_weight(const float* x, float max) {
    return sum_of_block(x, [max](float logit) { return scaled_exp(logit - max); });
}

uint64_t block_moment(const float* x, float max) {
    return sum_of_block(x, [max](float logit) { return scaled_moment(logit, max); });
}

}  // namespace

void LogitRow::reserve(size_t n_vocab) {
    const size_t n_blocks = (n_vocab + kBlock - 1) / kBlock;
    if (n_blocks <= best_.size()) return;
    logits_.resize(n_blocks * kBlock);
    best_.resize(n_blocks);
    scratch_.resize(n_blocks);
    masses_.resize(n_blocks);
}

size_t LogitRow::assign(std::span<const float> logits, std::span<const uint64_t> allowed) {
    reserve(logits.size());
    n_ = logits.size();
    n_blocks_ = (n_ + kBlock - 1) / kBlock;
    size_t n_nan = 0;
    for (size_t b = 0; b < n_blocks_; b++) {
        float* const x = &logits_[b * kBlock];
        const size_t n = std::min(kBlock, n_ - b * kBlock);
        if (n == kBlock) {
            n_nan += copy_block(&logits[b * kBlock], x);
        } else {
            float rest[kBlock];
            std::fill(std::copy_n(&logits[b * kBlock], n, rest), rest + kBlock, kBanned);
            n_nan += copy_block(rest, x);
        }
        if (!allowed.empty() && allowed[b] != ~uint64_t{0}) {
            for (size_t i = 0; i < n; i++) x[i] = allowed[b] >> i & 1 ? x[i] : kBanned;
        }
        best_[b] = best_of(x);
    }
    return n_nan;
}

void LogitRow::find_best(size_t block) { best_[block] = best_of(&logits_[block * kBlock]); }

void LogitRow::set(size_t id, float logit) {
    float& best = best_[id / kBlock];
    const bool was_best = logits_[id] == best;
    logits_[id] = logit;
    if (logit >= best) {
        best = logit;
    } else if (was_best) {
        find_best(id / kBlock);
    }
}

void LogitRow::ban(std::span<const int32_t> ids) {
    for (size_t i = 0; i < ids.size(); i++) {
        const size_t block = static_cast<size_t>(ids[i]) / kBlock;
        logits_[static_cast<size_t>(ids[i])] = kBanned;
        const bool last = i + 1 == ids.size() || static_cast<size_t>(ids[i + 1]) / kBlock != block;
        if (last) find_best(block);
    }
}

float LogitRow::max() const {
    return *std::max_element(best_.begin(), best_.begin() + static_cast<ptrdiff_t>(n_blocks_));
}

float LogitRow::reached_by(size_t k) {
    float* const first = scratch_.data();
    std::copy_n(best_.data(), n_blocks_, first);
    std::nth_element(first, first + (k - 1), first + n_blocks_, std::greater<>());
    return first[k - 1];
}

float LogitRow::best(size_t k, size_t& n_equal) const {
    // Bits that rise with the logit, found from the top in three passes of counting; both zeros are one.
    const auto key_of = [](float x) {
        const auto bits = std::bit_cast<uint32_t>(x + 0.0f);
        return bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
    };
    uint32_t found = 0, known = 0;  // bits of the key, and which they are
    n_equal = k;
    constexpr struct { uint32_t shift, width; } kPasses[] = {{20, 12}, {8, 12}, {0, 8}};
    for (const auto& [shift, width] : kPasses) {
        std::array<uint32_t, 1u << 12> counts{};
        const uint32_t mask = (1u << width) - 1;
        for (size_t id = 0; id < n_; id++) {
            const uint32_t key = key_of(logits_[id]);
            if ((key & known) == found) counts[key >> shift & mask]++;
        }
        uint32_t part = mask;
        while (counts[part] < n_equal) n_equal -= counts[part--];
        found |= part << shift;
        known |= mask << shift;
    }
    return std::bit_cast<float>(found >> 31 ? found ^ 0x80000000u : ~found);
}

void LogitRow::temper(float max, double temperature) {
    const double top = max, inverse = 1 / temperature;
    for (size_t i = 0; i < n_blocks_ * kBlock; i++) logits_[i] = tempered(logits_[i], max, top, inverse);
    for (size_t b = 0; b < n_blocks_; b++) best_[b] = tempered(best_[b], max, top, inverse);
}

uint64_t LogitRow::weigh(float max) {
    uint64_t sum = 0;
    for (size_t b = 0; b < n_blocks_; b++) {
        masses_[b] = 0;
        if (std::isinf(max)) {
            const size_t end = std::min(n_, (b + 1) * kBlock);
            for (size_t id = b * kBlock; id < end; id++) masses_[b] += weight_of(logits_[id], max);
        } else if (weighs(best_[b], max)) {
            masses_[b] = block_weight(&logits_[b * kBlock], max);
        }
        sum += masses_[b];
    }
    return sum;
}

Mass LogitRow::mass(float max) const {
    Mass mass;
    for (size_t b = 0; b < n_blocks_; b++) {
        if (std::isinf(max)) {
            const size_t end = std::min(n_, (b + 1) * kBlock);
            for (size_t id = b * kBlock; id < end; id++) mass.weight += weight_of(logits_[id], max);
        } else if (weighs(best_[b], max)) {
            const float* const x = &logits_[b * kBlock];
            mass.weight += block_weight(x, max);
            mass.moment += block_moment(x, max);
        }
    }
    return mass;
}

Spread LogitRow::spread() const {
    Spread spread;
    LaneSum sum, squares;
    for (size_t i = 0; i < n_blocks_ * kBlock; i += LaneSum::kLanes) {
        for (size_t j = 0; j < LaneSum::kLanes; j++) {
            const float x = logits_[i + j];
            spread.n += x > kBanned;
            sum.lanes()[j] += x > kBanned ? static_cast<double>(x) : 0.0;
        }
    }
    if (spread.n == 0) return spread;
    spread.mean = sum.total() / static_cast<double>(spread.n);
    for (size_t i = 0; i < n_blocks_ * kBlock; i += LaneSum::kLanes) {
        for (size_t j = 0; j < LaneSum::kLanes; j++) {
            const float x = logits_[i + j];
            const double off = x > kBanned ? static_cast<double>(x) - spread.mean : 0.0;
            squares.lanes()[j] += off * off;
        }
    }
    spread.deviation = std::sqrt(squares.total() / static_cast<double>(spread.n));
    return spread;
}

size_t LogitRow::pick(uint64_t rest, float max) const {
    size_t block = 0;
    while (rest >= masses_[block]) rest -= masses_[block++];
    size_t id = block * kBlock;
    for (uint64_t w; rest >= (w = weight_of(logits_[id], max)); id++) rest -= w;
    return id;
}

}  // namespace tessera::sample
