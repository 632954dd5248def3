#pragma once
// The tokens still in the running, with their logits: what every sampler edits.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::sample {

struct Candidate {
    int32_t id;
    float logit;      ///< may be -inf (banned) or +inf (certain), never NaN
    uint64_t weight;  ///< exp(logit - best logit) in fixed point; valid after Candidates::weigh()
};

/// The order that every choice among candidates follows: higher logit first, ties to the lower id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// A reusable buffer over one row of logits. Rules of use:
///   - assign() begins a token: entry i is token i.
///   - The keep_*() filters never drop the best candidate and never leave the buffer empty.
///   - Who edits logits through entries() calls logits_changed() afterwards.
///   - Results depend on the set of (id, logit) alone, never on the order in which the entries happen to lie:
///     ties go by id, and weights are integers whose sums do not depend on the order of the summands.
/// Memory is taken by reserve() or by the first assign() of a size; from then on nothing allocates.
/// Not for concurrent use; one buffer may serve any number of chains in turn.
class Candidates {
  public:
    /// Makes room for rows of n_vocab logits: 20 bytes a token.
    void reserve(size_t n_vocab);

    /// All tokens of logits [n_vocab], 1 <= n_vocab <= 2^24, in order of id. NaN becomes -inf.
    /// Returns the number of NaNs.
    size_t assign(std::span<const float> logits);

    size_t size() const { return size_; }
    std::span<Candidate> entries() { return {entries_.data(), size_}; }
    std::span<const Candidate> entries() const { return {entries_.data(), size_}; }

    /// Whether the entries lie best first, as sort() leaves them.
    bool sorted() const { return order_ == Order::ByRank; }
    /// Whether nothing was dropped or moved yet: entries()[id] is token id.
    bool complete() const { return order_ == Order::ById && size_ == n_vocab_; }

    float max_logit() const;

    void logits_changed();
    void sort();
    void sort_by_id();

    /// Fills in the weights of all entries where they are stale, and returns their sum; the probability of an
    /// entry is weight / sum, within n * 2^-40 of the exact softmax.
    uint64_t weigh();

    /// Keeps the k best, k >= 1. O(n); may leave the entries in no order.
    void keep_top(size_t k);

    /// Keeps the shortest run of best candidates whose probabilities sum to at least p. O(n), without sorting
    /// a long list; the entries keep their order unless they were few, when they are sorted.
    void keep_mass(double p);

    /// Keeps those whose probability is at least p times the best one's. O(n), keeps the order.
    void keep_relative(double p);

  private:
    enum class Order { ById, ByRank, None };

    template <class Keep>
    void keep_if(Keep keep);
    Candidate mass_bar(uint64_t target);

    std::vector<Candidate> entries_;  // [n_vocab reserved], of which size_ count
    std::vector<uint32_t> indices_;   // [n_vocab reserved], scratch of keep_mass
    size_t size_ = 0;
    size_t n_vocab_ = 0;
    Order order_ = Order::ById;
    bool weighed_ = false;
};

}  // namespace tessera::sample
