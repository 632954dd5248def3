#pragma once
// A row of logits by token id, before any token is dropped, with the maximum of each block of ids. A filter
// over a large vocabulary then costs one pass over the floats. Private to this folder.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/sample/passes.h"

namespace tessera::sample {

/// Mean and standard deviation of the n finite logits.
struct Spread {
    size_t n = 0;
    double mean = 0, deviation = 0;
};

/// A sum with the same bits for a row and for a list sorted by id with the same tokens: the token's id
/// selects the partial sum.
class LaneSum {
  public:
    static constexpr size_t kLanes = 8;
    void add(size_t id, double x) { lanes_[id % kLanes] += x; }
    double* lanes() { return lanes_.data(); }
    double total() const {
        return ((lanes_[0] + lanes_[1]) + (lanes_[2] + lanes_[3])) +
               ((lanes_[4] + lanes_[5]) + (lanes_[6] + lanes_[7]));
    }

  private:
    std::array<double, kLanes> lanes_{};
};

/// Not thread-safe. Only reserve() allocates.
class LogitRow {
  public:
    static constexpr size_t kBlock = kRowBlock;

    /// n_vocab rounded up to whole blocks.
    static size_t padded(size_t n_vocab) { return (n_vocab + kBlock - 1) / kBlock * kBlock; }

    void reserve(size_t n_vocab);

    /// Copies the row. NaN becomes -inf, as does every token whose bit in `allowed` is 0 (token i is bit i %
    /// 64 of word i / 64; empty: all are allowed). Returns the number of NaNs.
    size_t assign(std::span<const float> logits, std::span<const uint64_t> allowed);

    size_t size() const { return n_; }
    float operator[](size_t id) const { return logits_[id]; }
    void set(size_t id, float logit);
    /// Sets tokens to -inf, in any order.
    void ban(std::span<const int32_t> ids);

    float max() const;
    /// The highest logit known from the block maxima that at least k tokens reach; k is at most n_blocks().
    float reached_by(size_t k);
    size_t n_blocks() const { return n_blocks_; }
    /// The k-th best logit, 1 <= k <= size(); n_equal: how many of the k best equal it.
    float best(size_t k, size_t& n_equal) const;

    /// Sets all logits to (logit - max) / temperature, and those equal to `max` to 0; `max` is max() and not
    /// -inf.
    void temper(float max, double temperature);

    /// Sets every logit that is not -inf to preferred(p), where p is the token's probability, and p_of[id] to
    /// p. `max` is finite; p_of is [padded(size())].
    void prefer(float max, std::span<float> p_of, const Preference& preference);

    /// The sum of all weights; stores the sums of the blocks for pick().
    uint64_t weigh(float max);
    Mass mass(float max) const;
    Spread spread() const;

    /// The token that contains `rest` in the running sum of weights by id; rest < weigh().
    size_t pick(uint64_t rest, float max) const;

    /// Calls visit(id, logit) in order of id for all tokens of each block whose maximum is at least `least`.
    template <class Visit>
    void visit_blocks(double least, Visit visit) const {
        for (size_t b = 0; b < n_blocks_; b++) {
            if (!(static_cast<double>(best_[b]) >= least)) continue;
            const size_t end = b * kBlock + kBlock < n_ ? b * kBlock + kBlock : n_;
            for (size_t id = b * kBlock; id < end; id++) visit(id, logits_[id]);
        }
    }

  private:
    void mask(std::span<const uint64_t> allowed);
    void find_best(size_t block);
    uint64_t block_of_infinite(size_t block, float max) const;

    std::vector<float> logits_;     // [n_blocks * kBlock], padded with -inf
    std::vector<float> best_;       // [n_blocks]
    std::vector<float> scratch_;    // [n_blocks]
    std::vector<uint64_t> masses_;  // [n_blocks] sums of weights
    size_t n_ = 0, n_blocks_ = 0;
};

}  // namespace tessera::sample
