#pragma once
// Counters and histograms in the text format of Prometheus.
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "include/tessera.hpp"

namespace tessera::server {

/// Any thread.
class Metrics {
  public:
    enum Histogram { kFirstToken, kBetweenTokens, kQueue, kRequest, kNumHistograms };

    void observe(Histogram histogram, double seconds);
    /// Counts a response; `route` is a path of the table, so that clients cannot create labels.
    void count_response(const std::string& route, int status);
    void count_disconnect();

    /// All metrics, with the engine's counters.
    std::string text(const tsr_engine_stats& engine) const;

  private:
    static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                           0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
    struct Counts {
        std::array<uint64_t, kBounds.size() + 1> in_bucket{};
        double sum = 0;
    };

    mutable std::mutex mutex_;
    std::array<Counts, kNumHistograms> histograms_;
    std::map<std::pair<std::string, int>, uint64_t> responses_;
    uint64_t n_disconnects_ = 0;
};

}  // namespace tessera::server
