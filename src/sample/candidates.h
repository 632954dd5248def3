#pragma once
// The candidate tokens with their logits, which all samplers edit.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/pages.h"
#include "src/sample/logit_row.h"

namespace tessera::sample {

struct Candidate {
    int32_t id;
    float logit;  ///< may be -inf (banned) or +inf (certain), never NaN; shifted by a constant after temper()
    uint64_t weight;  ///< exp(logit - best logit) in fixed point; valid after Candidates::weigh()
};

/// The order that every choice among candidates follows: higher logit first, ties to the lower id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// A reusable buffer over one row of logits. Rules of use:
///   - assign() begins a token. At first all tokens are there, addressed by id; the first filter that drops
///     some, or entries(), makes a list of them.
///   - After editing logits through entries(), call logits_changed().
///   - The keep_*() filters never leave it empty.
///   - Results depend only on the set of (id, logit) pairs, not on the order of the entries: ties go to the
///     lower id, and weights are integers, whose sums do not depend on the order of the summands.
/// Memory is allocated by reserve() or by the first assign() of a size, and never afterwards. Not
/// thread-safe; several chains may use one buffer one after the other.
class Candidates {
  public:
    /// Allocates memory for rows of n_vocab logits: 32 bytes per token.
    void reserve(size_t n_vocab);
    /// Bytes that reserve() allocates, except for overhead below 1 % and rounding to huge pages (< 1 MiB).
    static size_t bytes(size_t n_vocab);

    /// All tokens of logits [n_vocab], 1 <= n_vocab <= 2^24. NaN becomes -inf, as do tokens whose bit in
    /// `allowed` is 0: token i is bit i % 64 of word i / 64, and the words cover n_vocab; empty allows all.
    /// Returns the number of NaNs.
    size_t assign(std::span<const float> logits, std::span<const uint64_t> allowed = {});

    size_t size() const { return listed_ ? size_ : row_.size(); }
    /// Whether nothing was dropped or listed yet: logit() is valid for every token.
    bool complete() const { return !listed_; }
    /// The logit of token id; complete() only.
    float logit(int32_t id) const { return row_[static_cast<size_t>(id)]; }
    float max_logit() const;

    /// The candidates as a list; O(n_vocab) where they are complete().
    std::span<Candidate> entries();
    /// Whether the list is sorted best first, as sort() does.
    bool sorted() const { return listed_ && order_ == Order::ByRank; }
    void logits_changed();
    void sort();
    void sort_by_id();
    /// Keeps the first n of the list, 1 <= n <= size().
    void shrink(size_t n);
    /// Makes token id the only candidate, even if it had been dropped.
    void keep_only(int32_t id);

    /// Sets the logit of each token of `ids` that is still a candidate to new_logit(i, logit), in double, for
    /// ids[i]. Ids must be distinct. Costs O(ids), and O(size()) more for a list.
    template <class NewLogit>
    void edit(std::span<const int32_t> ids, NewLogit new_logit);
    /// Sets tokens to -inf. Ids must be distinct; ascending order is fastest.
    void ban(std::span<const int32_t> ids);
    /// Divides all logits by the temperature, which is positive; does nothing if all are banned. Stores the
    /// logits relative to the best one, since float would lose their small differences at low temperatures.
    /// edit() still sees the quotient.
    void temper(double temperature);

    /// Sets each logit that is not banned to preferred(p), where p is the token's probability, and writes p
    /// to p_of[id]; p_of is [LogitRow::padded(n_vocab)]. Does nothing if all are banned.
    void prefer(std::span<float> p_of, const Preference& preference);

    /// Computes the weights of all candidates and returns their sum. A candidate's probability is weight /
    /// sum, which differs from the exact softmax by a relative error of at most 4e-6 (5e-6 after temper())
    /// plus n * 2^-40.
    uint64_t weigh();
    /// The sum of weights, and of weights times distances from the best logit.
    Mass mass();
    /// The entropy of the distribution in nats, within 1e-5 and n * 2^-35.
    double entropy();
    Spread spread();

    /// The k best in order of rank, k >= 1 (or all, if there are fewer), without dropping the others. Valid
    /// until the next call.
    std::span<const Candidate> top(size_t k);

    /// The candidate that contains `rest` in the running sum of weights by id; rest < weigh().
    Candidate pick(uint64_t rest);

    /// Keeps the k best, k >= 1. The list may be unsorted afterwards.
    void keep_top(size_t k);
    /// Keeps logits of at least `least`, and always the best one.
    void keep_from(double least);
    /// Keeps the shortest run of best candidates whose probabilities sum to at least p, and at least
    /// min_keep of them.
    void keep_mass(double p, size_t min_keep);
    /// Sorts candidates by the distance of -log(probability) from the entropy and keeps the shortest prefix
    /// whose probabilities sum to more than p, and at least min_keep of them.
    void keep_typical(double p, size_t min_keep);
    /// Keeps those whose probability is at least p times the best one's, and at least the min_keep best.
    void keep_relative(double p, size_t min_keep);
    /// Keeps those whose probability is at least p, and always the best one.
    void keep_likely(double p);
    /// Drops all tokens of probability p or more but the least likely of them; does nothing if fewer than
    /// min_keep would remain.
    void drop_likely(double p, size_t min_keep);

  private:
    enum class Order { ById, ByRank, None };
    struct Nearness;

    void list();
    uint64_t weigh_list(float max);
    template <class Keep>
    void gather(double least, Keep keep);
    template <class Keep>
    void keep_if(Keep keep);
    void keep_nearest(double centre, uint64_t target, size_t min_keep);
    uint32_t last_needed(const Nearness& nearness, uint64_t target);

    LogitRow row_;
    PageVector<Candidate> entries_;    // [n_vocab reserved], of which size_ count
    std::vector<uint32_t> indices_;    // [n_vocab reserved], scratch of keep_nearest
    std::vector<uint32_t> positions_;  // [n_vocab reserved], scratch of edit(): 1 + place in the list, else 0
    size_t size_ = 0;
    double origin_ = 0;  // added to each stored logit
    bool listed_ = false;
    bool weighed_ = false;
    Order order_ = Order::ById;
};

template <class NewLogit>
void Candidates::edit(std::span<const int32_t> ids, NewLogit new_logit) {
    if (!listed_) {
        for (size_t i = 0; i < ids.size(); i++) {
            const auto id = static_cast<size_t>(ids[i]);
            const double logit = static_cast<double>(row_[id]) + origin_;
            row_.set(id, static_cast<float>(new_logit(i, logit) - origin_));
        }
    } else {
        for (size_t i = 0; i < size_; i++)
            positions_[static_cast<size_t>(entries_[i].id)] = static_cast<uint32_t>(i + 1);
        for (size_t i = 0; i < ids.size(); i++) {
            const uint32_t position = positions_[static_cast<size_t>(ids[i])];
            if (position == 0) continue;
            float& logit = entries_[position - 1].logit;
            logit = static_cast<float>(new_logit(i, static_cast<double>(logit) + origin_) - origin_);
        }
        for (size_t i = 0; i < size_; i++) positions_[static_cast<size_t>(entries_[i].id)] = 0;
    }
    logits_changed();
}

}  // namespace tessera::sample
