#pragma once
// The running completions, for /slots. Each has the lowest number that was free when it began.
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace tessera::server {

/// Any thread.
class Slots {
  public:
    struct State {
        uint64_t task = 0;  ///< serial number of the completion, from 1
        int64_t n_prompt = 0, n_cached = 0, n_read = 0, n_decoded = 0;  ///< tokens
        int64_t max_tokens = 0;                                         ///< 0: no limit
    };

    /// Adds a completion; returns its number, which is valid until leave().
    size_t enter(const State& state);
    void read(size_t slot, int64_t n_read);
    /// Counts one more token.
    void wrote(size_t slot);
    void leave(size_t slot);

    /// At least n slots; those without a completion are empty.
    std::vector<std::optional<State>> list(size_t n) const;

  private:
    mutable std::mutex mutex_;
    std::vector<std::optional<State>> states_;
    uint64_t n_begun_ = 0;
};

}  // namespace tessera::server
