// The text of /metrics: the server's own counters, and the engine's at the moment of the request. Assumes
// that labels are constants of the program.
#include "server/metrics.h"

#include <algorithm>
#include <cstdio>

namespace tessera::server {

namespace {

std::string number(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

void add(std::string& out, const char* name, const char* type, const char* help, double value) {
    out += std::string("# HELP tessera_") + name + " " + help + "\n# TYPE tessera_" + name + " " + type +
           "\ntessera_" + name + " " + number(value) + "\n";
}

constexpr struct {
    const char *name, *help;
} kHistogramNames[] = {{"time_to_first_token_seconds", "Time from a request's arrival to its first token."},
                       {"inter_token_seconds", "Time between two tokens of a completion."},
                       {"queue_seconds", "Time in the queue before the prefill."},
                       {"request_seconds", "Time from a request's head to the end of its answer."}};

}  // namespace

void Metrics::observe(Histogram histogram, double seconds) {
    const std::lock_guard lock(mutex_);
    Counts& counts = histograms_[histogram];
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
    counts.in_bucket[static_cast<size_t>(bucket)]++;
    counts.sum += seconds;
}

void Metrics::count_response(const std::string& route, int status) {
    const std::lock_guard lock(mutex_);
    responses_[{route, status}]++;
}

void Metrics::count_disconnect() {
    const std::lock_guard lock(mutex_);
    n_disconnects_++;
}

std::string Metrics::text(const tsr_engine_stats& engine) const {
    const std::lock_guard lock(mutex_);
    std::string out;
    const auto real = [](auto value) { return static_cast<double>(value); };
    add(out, "requests_running", "gauge", "Completions being computed.", real(engine.n_running));
    add(out, "requests_waiting", "gauge", "Completions in the queue.", real(engine.n_waiting));
    add(out, "prompt_tokens_total", "counter", "Prompt tokens prefilled.", real(engine.n_prompt_tokens));
    add(out, "cached_tokens_total", "counter", "Prompt tokens found in the prefix cache.",
        real(engine.n_cached_tokens));
    add(out, "generated_tokens_total", "counter", "Tokens generated.", real(engine.n_generated_tokens));
    add(out, "passes_total", "counter", "Forward passes.", real(engine.n_passes));
    add(out, "preemptions_total", "counter", "Completions preempted because the KV cache was full.",
        real(engine.n_preemptions));
    add(out, "forward_seconds_total", "counter", "Time in forward passes.", engine.forward_s);
    add(out, "kv_pages", "gauge", "Pages of the KV cache.", real(engine.n_pages));
    add(out, "kv_pages_free", "gauge", "Free pages of the KV cache.", real(engine.n_pages_free));
    add(out, "kv_pages_cached", "gauge", "Pages of the KV cache that only the prefix cache holds.",
        real(engine.n_pages_cached));
    const auto used = engine.n_pages - engine.n_pages_free - engine.n_pages_cached;
    add(out, "kv_usage_ratio", "gauge", "Share of the KV cache that running completions use.",
        engine.n_pages > 0 ? real(used) / real(engine.n_pages) : 0);
    add(out, "kv_bytes", "gauge", "Bytes of the KV cache.", real(engine.kv_bytes));
    add(out, "disconnects_total", "counter", "Clients that disconnected before the end of their answer.",
        real(n_disconnects_));
    for (size_t h = 0; h < histograms_.size(); h++) {
        const std::string name = std::string("tessera_") + kHistogramNames[h].name;
        out += "# HELP " + name + " " + kHistogramNames[h].help + "\n# TYPE " + name + " histogram\n";
        uint64_t sum = 0;
        for (size_t i = 0; i <= kBounds.size(); i++) {
            sum += histograms_[h].in_bucket[i];
            const std::string bound = i < kBounds.size() ? number(kBounds[i]) : "+Inf";
            out += name + "_bucket{le=\"" + bound + "\"} " + std::to_string(sum) + "\n";
        }
        out += name + "_sum " + number(histograms_[h].sum) + "\n" + name + "_count " + std::to_string(sum) +
               "\n";
    }
    out +=
        "# HELP tessera_responses_total Answers by route and status.\n# TYPE tessera_responses_total "
        "counter\n";
    for (const auto& [key, count] : responses_)
        out += "tessera_responses_total{route=\"" + key.first + "\",status=\"" + std::to_string(key.second) +
               "\"} " + std::to_string(count) + "\n";
    return out;
}

}  // namespace tessera::server
