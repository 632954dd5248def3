#pragma once
// The tokens still in the running, with their logits: what every sampler edits.
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
    float logit;      ///< may be -inf (banned) or +inf (certain), never NaN; after temper() less a constant
    uint64_t weight;  ///< exp(logit - best logit) in fixed point; valid after Candidates::weigh()
};

/// The order that every choice among candidates follows: higher logit first, ties to the lower id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// A reusable buffer over one row of logits. Rules of use:
///   - assign() begins a token. At first all tokens are there, addressed by id; the first filter that drops
///     some, or entries(), makes a list of them.
///   - Who edits logits through entries() calls logits_changed() afterwards.
///   - The keep_*() filters never leave it empty.
///   - Results depend on the set of (id, logit) alone, never on the order in which the entries happen to lie:
///     ties go by id, and weights are integers whose sums do not depend on the order of the summands.
/// Memory is taken by reserve() or by the first assign() of a size; from then on nothing allocates.
/// Not for concurrent use; one buffer may serve any number of chains in turn.
class Candidates {
  public:
    /// Makes room for rows of n_vocab logits: 32 bytes a token.
    void reserve(size_t n_vocab);
    /// What that takes, but for a fraction of a percent and less than a MiB that huge pages round up to.
    static size_t bytes(size_t n_vocab);

    /// All tokens of logits [n_vocab], 1 <= n_vocab <= 2^24. NaN becomes -inf, as do tokens whose bit in
    /// `allowed` is 0: token i is bit i % 64 of word i / 64, and the words cover n_vocab; empty allows all.
    /// Returns the number of NaNs.
    size_t assign(std::span<const float> logits, std::span<const uint64_t> allowed = {});

    size_t size() const { return listed_ ? size_ : row_.size(); }
    /// Whether nothing was dropped or listed yet, so that logit() answers for every token.
    bool complete() const { return !listed_; }
    /// The logit of token id; complete() only.
    float logit(int32_t id) const { return row_[static_cast<size_t>(id)]; }
    float max_logit() const;

    /// The candidates as a list; O(n_vocab) where they are complete().
    std::span<Candidate> entries();
    /// Whether the list lies best first, as sort() leaves it.
    bool sorted() const { return listed_ && order_ == Order::ByRank; }
    void logits_changed();
    void sort();
    void sort_by_id();
    /// Keeps the first n of the list, 1 <= n <= size().
    void shrink(size_t n);
    /// Makes token id the only one, whether it was there or not.
    void keep_only(int32_t id);

    /// Gives the tokens `ids` that are still there a new logit each: new_logit(i, logit), in double, for
    /// ids[i]. No id twice. Costs O(ids), and O(size()) more for a list.
    template <class NewLogit>
    void edit(std::span<const int32_t> ids, NewLogit new_logit);
    /// Sets tokens to -inf. No id twice; neighbours in the vocabulary are best neighbours in `ids`.
    void ban(std::span<const int32_t> ids);
    /// logit / temperature for all; temperature is positive. Nothing where all are banned. The best logit is
    /// then stored as 0 and the others below it: at low temperatures float would lose the differences that
    /// matter. edit() still sees the quotient.
    void temper(double temperature);

    /// preferred(p) for all that are not banned, where p is the probability of each; writes it to p_of[id],
    /// LogitRow::padded(n_vocab) of them. Nothing where all are banned.
    void prefer(std::span<float> p_of, const Preference& preference);

    /// Makes the weights of all candidates valid, and returns their sum; the probability of one is weight /
    /// sum, within 4e-6 of itself (5e-6 after temper()) and n * 2^-40 of the exact softmax.
    uint64_t weigh();
    /// The sum of weights, and of weights times distances from the best logit.
    Mass mass();
    /// The entropy of the distribution in nats, within 1e-5 and n * 2^-35.
    double entropy();
    Spread spread();

    /// The k best in order of rank, k >= 1 (fewer where there are fewer), without dropping the others. Valid
    /// until the next call.
    std::span<const Candidate> top(size_t k);

    /// The candidate in which `rest` falls when the weights are laid out by id; rest < weigh().
    Candidate pick(uint64_t rest);

    /// Keeps the k best, k >= 1. May leave the list in no order.
    void keep_top(size_t k);
    /// Keeps the logits from `least` up; at least the best.
    void keep_from(double least);
    /// Keeps the shortest run of best candidates whose probabilities sum to at least p, and at least
    /// min_keep of them.
    void keep_mass(double p, size_t min_keep);
    /// Keeps the shortest run of candidates, those first whose -log(probability) is nearest to the entropy,
    /// whose probabilities sum to more than p, and at least min_keep of them.
    void keep_typical(double p, size_t min_keep);
    /// Keeps those whose probability is at least p times the best one's, and at least the min_keep best.
    void keep_relative(double p, size_t min_keep);
    /// Keeps those whose probability is at least p, and at least the best.
    void keep_likely(double p);
    /// Of those whose probability is at least p, drops all but the last; nothing where fewer than min_keep
    /// would remain.
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
    double origin_ = 0;  // to be added to each logit
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
