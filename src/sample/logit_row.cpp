// Operations on the whole row: copy, maximum, weights. The vectorized loops are in passes.h, compiled once
// per instruction set. Assumes no NaN after assign(). Next: candidates.cpp, which decides when a row becomes
// a list.
#include "src/sample/logit_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "common/expected.h"

namespace tessera::sample {

namespace {

constexpr size_t kBlock = LogitRow::kBlock;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

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
    const size_t n_whole = n_ / kBlock;
    int64_t n_nan = row_passes().copy(logits.data(), logits_.data(), best_.data(), n_whole);
    if (n_whole < n_blocks_) {
        float rest[kBlock];
        std::fill(std::copy(logits.begin() + static_cast<ptrdiff_t>(n_whole * kBlock), logits.end(), rest),
                  rest + kBlock, kBanned);
        n_nan += row_passes().copy(rest, &logits_[n_whole * kBlock], &best_[n_whole], 1);
    }
    if (!allowed.empty()) mask(allowed);
    return static_cast<size_t>(n_nan);
}

void LogitRow::mask(std::span<const uint64_t> allowed) {
    for (size_t b = 0; b < n_blocks_; b++) {
        if (allowed[b] == ~uint64_t{0}) continue;
        float* const x = &logits_[b * kBlock];
        for (size_t i = 0; i < kBlock; i++) x[i] = allowed[b] >> i & 1 ? x[i] : kBanned;
        find_best(b);
    }
}

void LogitRow::find_best(size_t block) { row_passes().find_best(&logits_[block * kBlock], &best_[block], 1); }

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
    // Order-preserving bits of the logit, for a radix select in three passes; 0 and -0 are equal.
    const auto key_of = [](float x) {
        const auto bits = std::bit_cast<uint32_t>(x + 0.0f);
        return bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
    };
    uint32_t found = 0, known = 0;  // bits of the key found so far, and their mask
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
    const auto inverse = static_cast<float>(1 / temperature);
    row_passes().temper(logits_.data(), n_blocks_ * kBlock, max, inverse);
    row_passes().temper(best_.data(), n_blocks_, max, inverse);
}

void LogitRow::prefer(float max, std::span<float> p_of, const Preference& preference) {
    TSR_CHECK(p_of.size() >= n_blocks_ * kBlock);
    const auto total = static_cast<double>(row_passes().weights(logits_.data(), n_blocks_, max, p_of.data()));
    row_passes().prefer(logits_.data(), p_of.data(), best_.data(), n_blocks_, static_cast<float>(1 / total),
                        &preference);
}

uint64_t LogitRow::weigh(float max) {
    if (!std::isinf(max))
        return row_passes().weigh(logits_.data(), best_.data(), n_blocks_, max, masses_.data());
    uint64_t sum = 0;
    for (size_t b = 0; b < n_blocks_; b++) sum += masses_[b] = block_of_infinite(b, max);
    return sum;
}

uint64_t LogitRow::block_of_infinite(size_t block, float max) const {
    uint64_t sum = 0;
    const size_t end = std::min(n_, (block + 1) * kBlock);
    for (size_t id = block * kBlock; id < end; id++) sum += weight_of(logits_[id], max);
    return sum;
}

Mass LogitRow::mass(float max) const {
    if (!std::isinf(max)) return row_passes().mass(logits_.data(), best_.data(), n_blocks_, max);
    Mass mass;
    for (size_t b = 0; b < n_blocks_; b++) mass.weight += block_of_infinite(b, max);
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
