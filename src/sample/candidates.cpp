// Selection over the candidate buffer: top k, top mass, relative threshold, each O(n).
// Assumes logits without NaN (assign() sees to it). Why weights are integers: fixed_exp.h.
// Next: sampler.h (who calls this), chain.cpp (when).
#include "src/sample/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/expected.h"
#include "src/sample/fixed_exp.h"

namespace tessera::sample {

namespace {

// Below this many entries a sort costs less than the passes that avoid it.
constexpr size_t kFew = 256;

// Buckets of logit distance from the best: 1/32 each, and all that weighs nothing (29 and more) in the last.
constexpr size_t kBuckets = 1024;
constexpr double kBucketsPerUnit = 32.0;

size_t bucket_of(float logit, float max) {
    if (logit == max) return 0;
    const double distance = static_cast<double>(max) - static_cast<double>(logit);
    return static_cast<size_t>(std::min(distance * kBucketsPerUnit, static_cast<double>(kBuckets - 1)));
}

}  // namespace

void Candidates::reserve(size_t n_vocab) {
    if (n_vocab <= entries_.size()) return;
    entries_.resize(n_vocab);
    indices_.resize(n_vocab);
}

size_t Candidates::assign(std::span<const float> logits) {
    TSR_CHECK(!logits.empty());
    reserve(logits.size());
    size_t n_nan = 0;
    for (size_t i = 0; i < logits.size(); i++) {
        const bool nan = std::isnan(logits[i]);
        n_nan += nan;
        entries_[i] = {static_cast<int32_t>(i), nan ? -std::numeric_limits<float>::infinity() : logits[i], 0};
    }
    size_ = n_vocab_ = logits.size();
    order_ = Order::ById;
    weighed_ = false;
    return n_nan;
}

float Candidates::max_logit() const {
    if (sorted()) return entries_[0].logit;
    float max = entries_[0].logit;
    for (const Candidate& c : entries()) max = std::max(max, c.logit);
    return max;
}

void Candidates::logits_changed() {
    if (order_ == Order::ByRank) order_ = Order::None;
    weighed_ = false;
}

void Candidates::sort() {
    if (order_ == Order::ByRank) return;
    std::sort(entries().begin(), entries().end(), ranks_before);
    order_ = Order::ByRank;
}

void Candidates::sort_by_id() {
    if (order_ == Order::ById) return;
    std::sort(entries().begin(), entries().end(),
              [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
    order_ = Order::ById;
}

uint64_t Candidates::weigh() {
    if (!weighed_) {
        const float max = max_logit();
        if (std::isinf(max)) {  // several may be certain, or all banned: they share
            for (Candidate& c : entries()) c.weight = c.logit == max ? kWeightOne : 0;
        } else {
            for (Candidate& c : entries()) c.weight = fixed_weight(c.logit, max);
        }
        weighed_ = true;
    }
    uint64_t sum = 0;
    for (const Candidate& c : entries()) sum += c.weight;
    return sum;
}

void Candidates::keep_top(size_t k) {
    TSR_CHECK(k >= 1);
    if (k >= size_) return;
    if (order_ == Order::ByRank) {
        size_ = k;
        return;
    }
    // The front of the buffer is a reservoir. Its k-th best is a bar that later entries must beat to get in;
    // when it is full, it is cut back to the k best and the bar rises. Each cut is paid for by the entries
    // that came in.
    Candidate* const pool = entries_.data();
    const size_t capacity = std::min(size_, std::max(4 * k, kFew));
    const auto cut = [&](size_t n) { std::nth_element(pool, pool + (k - 1), pool + n, ranks_before); };
    cut(capacity);
    Candidate bar = pool[k - 1];
    size_t n = k;
    for (size_t i = capacity; i < size_; i++) {
        if (!ranks_before(pool[i], bar)) continue;
        pool[n++] = pool[i];
        if (n == capacity) {
            cut(n);
            bar = pool[k - 1];
            n = k;
        }
    }
    cut(n);
    size_ = k;
    order_ = Order::None;
}

template <class Keep>
void Candidates::keep_if(Keep keep) {
    size_t n = 0;
    for (size_t i = 0; i < size_; i++) {
        if (keep(entries_[i])) entries_[n++] = entries_[i];
    }
    size_ = n;
}

void Candidates::keep_mass(double p) {
    if (p >= 1.0) return;
    const double share = std::ceil(p * static_cast<double>(weigh()));
    const uint64_t target = std::max(static_cast<uint64_t>(share), uint64_t{1});
    if (size_ <= kFew) sort();
    if (sorted()) {
        uint64_t mass = 0;
        size_t n = 0;
        while (n < size_ && mass < target) mass += entries_[n++].weight;
        size_ = n;
        return;
    }
    const Candidate bar = mass_bar(target);
    keep_if([&](const Candidate& c) { return !ranks_before(bar, c); });
}

// The last candidate, best first, that is needed to reach `target`. The bucket it lies in is found by one
// pass; within the bucket the search halves, which is again linear in all.
Candidate Candidates::mass_bar(uint64_t target) {
    const float max = max_logit();
    std::array<uint64_t, kBuckets> mass{};
    for (const Candidate& c : entries()) mass[bucket_of(c.logit, max)] += c.weight;
    size_t bucket = 0;
    while (bucket + 1 < kBuckets && mass[bucket] < target) target -= mass[bucket++];

    uint32_t* first = indices_.data();
    uint32_t* last = first;
    for (size_t i = 0; i < size_; i++) {
        if (bucket_of(entries_[i].logit, max) == bucket) *last++ = static_cast<uint32_t>(i);
    }
    const auto before = [&](uint32_t a, uint32_t b) { return ranks_before(entries_[a], entries_[b]); };
    while (last - first > 1) {
        uint32_t* const middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, before);
        uint64_t upper = 0;
        for (const uint32_t* i = first; i != middle; i++) upper += entries_[*i].weight;
        if (upper >= target) {
            last = middle;
        } else {
            target -= upper;
            first = middle;
        }
    }
    return entries_[*first];
}

void Candidates::keep_relative(double p) {
    weigh();
    const auto least = static_cast<uint64_t>(std::ceil(p * static_cast<double>(kWeightOne)));
    keep_if([&](const Candidate& c) { return c.weight >= least; });
}

}  // namespace tessera::sample
