#pragma once
// Budget of prompt tokens per pass while other completions decode. It bounds their inter-token latency: a
// mixed pass takes at most about twice the time of a pass that only decodes.
#include <algorithm>
#include <cstdint>

namespace tessera::engine {

class PrefillBudget {
  public:
    /// Prompt tokens for the next pass, next to n_decoding decoded tokens.
    int64_t prompt_tokens(int64_t n_decoding, int64_t n_batch) const {
        const int64_t room = n_batch - n_decoding;
        if (n_decoding == 0) return room;
        if (since_plain_ >= kPlainEvery || plain_s_ == 0) return 0;
        if (per_token_s_ == 0) return std::min<int64_t>(room, kFirstGuess);
        const double fits = kShare * plain_s_ / per_token_s_;
        return std::clamp<int64_t>(static_cast<int64_t>(fits), std::min<int64_t>(kLeast, room), room);
    }

    /// Records the duration of a pass.
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
    static constexpr int64_t kPlainEvery =
        32;  // mixed passes after which a pass that only decodes is measured again
    static constexpr int64_t kFirstGuess = 16, kLeast = 4;
    static constexpr double kShare = 0.8;  // share of the time of a decode-only pass that prompts may add

    static double mixed(double old, double now) { return 0.75 * old + 0.25 * now; }

    double plain_s_ = 0, per_token_s_ = 0;
    int64_t since_plain_ = 0;
};

}  // namespace tessera::engine
