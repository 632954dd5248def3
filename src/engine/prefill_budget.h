#pragma once
// How much of the waiting prompts one pass may read while others write, so that their tokens keep coming: a
// mixed pass takes at most about twice the time of one that only writes.
#include <algorithm>
#include <cstdint>

namespace tessera::engine {

class PrefillBudget {
  public:
    /// Prompt tokens for the next pass beside n_decoding tokens that are written.
    int64_t prompt_tokens(int64_t n_decoding, int64_t n_batch) const {
        const int64_t room = n_batch - n_decoding;
        if (n_decoding == 0) return room;
        if (since_plain_ >= kPlainEvery || plain_s_ == 0) return 0;
        if (per_token_s_ == 0) return std::min<int64_t>(room, kFirstGuess);
        const double fits = kShare * plain_s_ / per_token_s_;
        return std::clamp<int64_t>(static_cast<int64_t>(fits), std::min<int64_t>(kLeast, room), room);
    }

    /// What a pass took.
    void measured(int64_t n_decoding, int64_t n_prompt, double seconds) {
        if (n_decoding == 0) return;
        if (n_prompt == 0) {
            plain_s_ = plain_s_ == 0 ? seconds : mixed(plain_s_, seconds);
            since_plain_ = 0;
            return;
        }
        ++since_plain_;
        const double per_token = std::max(0.0, seconds - plain_s_) / static_cast<double>(n_prompt);
        per_token_s_ = per_token_s_ == 0 ? per_token : mixed(per_token_s_, per_token);
    }

  private:
    static constexpr int64_t kPlainEvery = 32;  // passes after which the time of a plain one is taken again
    static constexpr int64_t kFirstGuess = 16, kLeast = 4;
    static constexpr double kShare = 0.8;  // of a plain pass's time, for prompts

    static double mixed(double old, double now) { return 0.75 * old + 0.25 * now; }

    double plain_s_ = 0, per_token_s_ = 0;
    int64_t since_plain_ = 0;
};

}  // namespace tessera::engine
