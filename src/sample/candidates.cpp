// Selection among the candidates: k best, top mass, typical mass, thresholds, each O(n). Works on blocks of
// the row as far as possible and makes a list of the rest. Assumes logits without NaN (assign() removes
// them). Why weights are integers: fixed_exp.h. Next: sampler.h (the callers), chain.cpp (the order of
// calls).
#include "src/sample/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/exact_math.h"
#include "common/expected.h"
#include "src/sample/fixed_exp.h"

namespace tessera::sample {

namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Below this many entries a sort is faster than the passes that avoid it.
constexpr size_t kFew = 256;

// Buckets of distance, 1/32 each; the last one holds all distances of weight 0 (29 and more).
constexpr size_t kBuckets = 1024;
constexpr double kBucketsPerUnit = 32.0;

// Distances from the centre within which likely tokens are searched first.
constexpr double kRadii[] = {4, 10};

}  // namespace

/// Distance of a logit from a point below the best one, and the order by it.
struct Candidates::Nearness {
    float max;
    double centre;

    double distance(float logit) const {
        // If the best logit is infinite, the difference of two such logits is NaN.
        const double below = logit == max ? 0.0 : static_cast<double>(max) - static_cast<double>(logit);
        return std::abs(below - centre);
    }
    bool before(const Candidate& a, const Candidate& b) const {
        const double x = distance(a.logit), y = distance(b.logit);
        return x < y || (x == y && ranks_before(a, b));
    }
    size_t bucket(float logit) const {
        return static_cast<size_t>(
            std::min(distance(logit) * kBucketsPerUnit, static_cast<double>(kBuckets - 1)));
    }
};

size_t Candidates::bytes(size_t n_vocab) {
    return n_vocab * (sizeof(float) + sizeof(Candidate) + 2 * sizeof(uint32_t));
}

void Candidates::reserve(size_t n_vocab) {
    row_.reserve(n_vocab);
    if (n_vocab <= entries_.size()) return;
    entries_.resize(n_vocab);
    indices_.resize(n_vocab);
    positions_.resize(n_vocab);
}

size_t Candidates::assign(std::span<const float> logits, std::span<const uint64_t> allowed) {
    TSR_CHECK(!logits.empty());
    reserve(logits.size());
    listed_ = weighed_ = false;
    origin_ = 0;
    return row_.assign(logits, allowed);
}

float Candidates::max_logit() const {
    if (!listed_) return row_.max();
    if (sorted()) return entries_[0].logit;
    float max = entries_[0].logit;
    for (size_t i = 1; i < size_; i++) max = std::max(max, entries_[i].logit);
    return max;
}

void Candidates::list() {
    if (listed_) return;
    const float max = max_logit();
    for (size_t id = 0; id < row_.size(); id++)
        entries_[id] = {static_cast<int32_t>(id), row_[id], weighed_ ? weight_of(row_[id], max) : 0};
    size_ = row_.size();
    listed_ = true;
    order_ = Order::ById;
}

std::span<Candidate> Candidates::entries() {
    list();
    return {entries_.data(), size_};
}

void Candidates::logits_changed() {
    if (order_ == Order::ByRank) order_ = Order::None;
    weighed_ = false;
}

void Candidates::sort() {
    list();
    if (order_ == Order::ByRank) return;
    std::sort(entries_.data(), entries_.data() + size_, ranks_before);
    order_ = Order::ByRank;
}

void Candidates::sort_by_id() {
    list();
    if (order_ == Order::ById) return;
    std::sort(entries_.data(), entries_.data() + size_,
              [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
    order_ = Order::ById;
}

void Candidates::shrink(size_t n) {
    TSR_CHECK(listed_ && n >= 1 && n <= size_);
    size_ = n;
    weighed_ = false;
}

void Candidates::keep_only(int32_t id) {
    entries_[0] = {id, 0.0f, 0};
    size_ = 1;
    listed_ = true;
    weighed_ = false;
    order_ = Order::ById;
}

void Candidates::ban(std::span<const int32_t> ids) {
    if (listed_) {
        edit(ids, [](size_t, double) { return -std::numeric_limits<double>::infinity(); });
    } else {
        row_.ban(ids);
        weighed_ = false;
    }
}

void Candidates::temper(double temperature) {
    const float max = max_logit();
    if (max == kBanned) return;
    const double origin = (static_cast<double>(max) + origin_) / temperature;
    origin_ = std::isfinite(origin) ? origin : 0;
    if (!listed_) {
        row_.temper(max, temperature);
        weighed_ = false;
        return;
    }
    const auto inverse = static_cast<float>(1 / temperature);
    for (Candidate& c : entries()) c.logit = tempered(c.logit, max, inverse);
    logits_changed();
}

void Candidates::prefer(std::span<float> p_of, const Preference& preference) {
    const float max = max_logit();
    if (max == kBanned) return;
    if (!listed_ && std::isfinite(max)) {
        row_.prefer(max, p_of, preference);
    } else {
        const auto inverse = static_cast<float>(1 / static_cast<double>(weigh()));
        for (Candidate& c : entries()) {
            const float weight =
                std::isfinite(max) ? scaled_exp(c.logit - max) : static_cast<float>(weight_of(c.logit, max));
            const float p = p_of[static_cast<size_t>(c.id)] = weight * inverse;
            if (c.logit != kBanned) c.logit = preferred(p, preference);
        }
    }
    origin_ = 0;
    logits_changed();
}

uint64_t Candidates::weigh() {
    const float max = max_logit();
    if (!listed_) {
        weighed_ = true;
        return row_.weigh(max);
    }
    if (!weighed_) return weigh_list(max);
    uint64_t sum = 0;
    for (const Candidate& c : entries()) sum += c.weight;
    return sum;
}

uint64_t Candidates::weigh_list(float max) {
    weighed_ = true;
    uint64_t sum = 0;
    if (std::isinf(max)) {
        for (Candidate& c : entries()) sum += c.weight = weight_of(c.logit, max);
        return sum;
    }
    // Batch size of exponentials, which are vectorized.
    constexpr size_t kAtOnce = 64;
    for (size_t from = 0; from < size_; from += kAtOnce) {
        const size_t n = std::min(kAtOnce, size_ - from);
        Candidate* const some = &entries_[from];
        float weights[kAtOnce] = {};
        for (size_t i = 0; i < n; i++) weights[i] = some[i].logit - max;
        for (float& weight : weights) weight = scaled_exp(weight);
        for (size_t i = 0; i < n; i++) sum += some[i].weight = whole_part(weights[i]);
    }
    return sum;
}

Mass Candidates::mass() {
    const float max = max_logit();
    if (!listed_) return row_.mass(max);
    Mass mass;
    mass.weight = weigh();
    if (std::isinf(max)) return mass;
    for (const Candidate& c : entries()) mass.moment += whole_part(scaled_moment(c.logit, max));
    return mass;
}

double Candidates::entropy() {
    // -sum p log p with p = w / sum w and w = exp(-distance): the mean distance and the logarithm of the sum.
    const Mass sums = mass();
    const auto weight = static_cast<double>(sums.weight);
    return exact_log(weight / static_cast<double>(kWeightOne)) + static_cast<double>(sums.moment) / weight;
}

Spread Candidates::spread() {
    if (!listed_) return row_.spread();
    sort_by_id();
    Spread spread;
    LaneSum sum, squares;
    const auto add_finite = [&](LaneSum& lanes, auto term) {
        for (const Candidate& c : entries()) {
            if (c.logit > kBanned) lanes.add(static_cast<size_t>(c.id), term(static_cast<double>(c.logit)));
        }
    };
    add_finite(sum, [&](double x) {
        spread.n++;
        return x;
    });
    if (spread.n == 0) return spread;
    spread.mean = sum.total() / static_cast<double>(spread.n);
    add_finite(squares, [&](double x) { return (x - spread.mean) * (x - spread.mean); });
    spread.deviation = std::sqrt(squares.total() / static_cast<double>(spread.n));
    return spread;
}

std::span<const Candidate> Candidates::top(size_t k) {
    const bool was_complete = !listed_, was_weighed = weighed_;
    k = std::min(k, size());
    if (was_complete) {
        keep_top(k);  // the row stays as it is
        sort();
        listed_ = false;
        weighed_ = was_weighed;
    } else if (!sorted()) {
        std::nth_element(entries_.data(), entries_.data() + (k - 1), entries_.data() + size_, ranks_before);
        std::sort(entries_.data(), entries_.data() + k, ranks_before);
        order_ = Order::None;
    }
    return {entries_.data(), k};
}

Candidate Candidates::pick(uint64_t rest) {
    if (!listed_) {
        const float max = max_logit();
        const size_t id = row_.pick(rest, max);
        return {static_cast<int32_t>(id), row_[id], weight_of(row_[id], max)};
    }
    sort_by_id();
    const Candidate* chosen = entries_.data();
    while (rest >= chosen->weight) rest -= (chosen++)->weight;
    return *chosen;
}

/// Makes a list of the tokens of the row for which keep(logit) is true; it is false for all below `least`.
template <class Keep>
void Candidates::gather(double least, Keep keep) {
    Candidate* out = entries_.data();
    row_.visit_blocks(least, [&](size_t id, float logit) {
        *out = {static_cast<int32_t>(id), logit, 0};  // branchless: overwritten by the next one if not kept
        out += keep(logit);
    });
    size_ = static_cast<size_t>(out - entries_.data());
    listed_ = true;
    weighed_ = false;
    order_ = Order::ById;
}

template <class Keep>
void Candidates::keep_if(Keep keep) {
    size_t n = 0;
    for (size_t i = 0; i < size_; i++) {
        if (keep(entries_[i])) entries_[n++] = entries_[i];
    }
    size_ = n;
}

void Candidates::keep_top(size_t k) {
    TSR_CHECK(k >= 1);
    if (k >= size()) return;
    if (!listed_ && k <= row_.n_blocks()) {
        const float bar = row_.reached_by(k);
        gather(bar, [&](float logit) { return logit >= bar; });
    } else if (!listed_) {
        size_t n_equal = 0;
        const float bar = row_.best(k, n_equal);
        gather(bar,
               [&](float logit) { return logit > bar || (logit == bar && n_equal > 0 && n_equal-- > 0); });
    }
    if (order_ != Order::ByRank && k < size_) {
        std::nth_element(entries_.data(), entries_.data() + (k - 1), entries_.data() + size_, ranks_before);
        order_ = Order::None;
    }
    size_ = k;
}

void Candidates::keep_from(double least) {
    const double bar = std::min(least, static_cast<double>(max_logit()));
    const auto keep = [&](float logit) { return static_cast<double>(logit) >= bar; };
    if (listed_) {
        keep_if([&](const Candidate& c) { return keep(c.logit); });
    } else {
        gather(bar, keep);
    }
}

void Candidates::keep_relative(double p, size_t min_keep) {
    if (p <= 0) return;
    const bool was_complete = !listed_;
    if (was_complete) {
        // A little below the threshold, so that the rounded weights decide.
        const double bar = static_cast<double>(max_logit()) + exact_log(std::max(p, 1e-30)) - 1e-3;
        gather(bar, [&](float logit) { return static_cast<double>(logit) >= bar; });
    }
    weigh();
    const auto least = static_cast<uint64_t>(std::ceil(p * static_cast<double>(kWeightOne)));
    const auto enough = [&](const Candidate& c) { return c.weight >= least; };
    const auto n = static_cast<size_t>(std::count_if(entries_.data(), entries_.data() + size_, enough));
    if (n >= min_keep) return keep_if(enough);
    if (was_complete) listed_ = weighed_ = false;  // the row is still whole
    keep_top(min_keep);
}

void Candidates::keep_likely(double p) {
    const double relative = p * static_cast<double>(weigh()) / static_cast<double>(kWeightOne);
    if (relative >= 1) return keep_top(1);
    keep_relative(relative, 1);
}

void Candidates::drop_likely(double p, size_t min_keep) {
    const double share = std::max(std::ceil(p * static_cast<double>(weigh())), 1.0);
    if (share > static_cast<double>(kWeightOne)) return;  // not even the best
    const bool was_complete = !listed_;
    const size_t n_all = size();
    if (was_complete) keep_relative(share / static_cast<double>(kWeightOne), 0);
    const auto likely = [&](const Candidate& c) { return static_cast<double>(c.weight) >= share; };
    size_t n = 0;
    const Candidate* last = nullptr;
    for (const Candidate& c : entries()) {
        if (!likely(c)) continue;
        n++;
        if (!last || ranks_before(*last, c)) last = &c;
    }
    if (was_complete) listed_ = false;  // the row is still whole
    if (n < 2 || n_all - (n - 1) < min_keep) return;
    const int32_t kept = last->id;
    if (was_complete) {
        for (size_t i = 0; i < size_; i++) {
            if (entries_[i].id != kept) row_.set(static_cast<size_t>(entries_[i].id), kBanned);
        }
    } else {
        keep_if([&](const Candidate& c) { return c.id == kept || !likely(c); });
    }
    weighed_ = false;
}

void Candidates::keep_mass(double p, size_t min_keep) {
    if (p >= 1.0) return;
    const double share = std::ceil(p * static_cast<double>(weigh()));
    keep_nearest(0, std::max(static_cast<uint64_t>(share), uint64_t{1}), min_keep);
}

void Candidates::keep_typical(double p, size_t min_keep) {
    if (p >= 1.0) return;
    // A logit's distance from the best one minus the mean of these distances equals -log(probability) minus
    // the entropy, since both terms contain the logarithm of the sum.
    const Mass sums = mass();
    const auto weight = static_cast<double>(sums.weight);
    const uint64_t target = std::min(static_cast<uint64_t>(p * weight) + 1, sums.weight);
    keep_nearest(static_cast<double>(sums.moment) / weight, target, min_keep);
}

void Candidates::keep_nearest(double centre, uint64_t target, size_t min_keep) {
    const Nearness nearness{max_logit(), centre};
    min_keep = std::clamp<size_t>(min_keep, 1, size());
    if (listed_) {
        weigh_list(nearness.max);
    } else {
        bool enough = false;
        for (const double radius : kRadii) {
            gather(static_cast<double>(nearness.max) - centre - radius,
                   [&](float logit) { return nearness.distance(logit) <= radius; });
            enough = weigh_list(nearness.max) >= target && size_ >= min_keep;
            if (enough) break;
        }
        if (!enough) {
            listed_ = weighed_ = false;  // the row is still whole
            list();
            weigh_list(nearness.max);
        }
    }
    const auto before = [&](const Candidate& a, const Candidate& b) { return nearness.before(a, b); };
    if (size_ <= kFew || (sorted() && centre == 0)) {
        if (centre == 0) {
            sort();
        } else {
            std::sort(entries_.data(), entries_.data() + size_, before);
            order_ = Order::None;
        }
        uint64_t mass = 0;
        size_t n = 0;
        while (n < size_ && (mass < target || n < min_keep)) mass += entries_[n++].weight;
        size_ = n;
    } else {
        const Candidate bar = entries_[last_needed(nearness, target)];
        const auto near = [&](const Candidate& c) { return !before(bar, c); };
        const auto n = static_cast<size_t>(std::count_if(entries_.data(), entries_.data() + size_, near));
        if (n >= min_keep) {
            keep_if(near);
        } else {
            std::nth_element(entries_.data(), entries_.data() + (min_keep - 1), entries_.data() + size_,
                             before);
            size_ = min_keep;
            order_ = Order::None;
        }
    }
    weighed_ = centre == 0;  // else the best candidate, which scales the weights, may be dropped
}

/// Index of the last candidate, nearest first, that is needed to reach `target`. One pass finds its bucket;
/// within the bucket a quickselect is linear as well.
uint32_t Candidates::last_needed(const Nearness& nearness, uint64_t target) {
    std::array<uint64_t, kBuckets> mass{};
    for (size_t i = 0; i < size_; i++) mass[nearness.bucket(entries_[i].logit)] += entries_[i].weight;
    size_t bucket = 0;
    while (bucket + 1 < kBuckets && mass[bucket] < target) target -= mass[bucket++];

    uint32_t* first = indices_.data();
    uint32_t* last = first;
    for (size_t i = 0; i < size_; i++) {
        if (nearness.bucket(entries_[i].logit) == bucket) *last++ = static_cast<uint32_t>(i);
    }
    const auto before = [&](uint32_t a, uint32_t b) { return nearness.before(entries_[a], entries_[b]); };
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
    return *first;
}

}  // namespace tessera::sample
