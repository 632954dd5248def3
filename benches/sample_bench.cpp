// Time of one call of Chain::sample on vocabularies of 128k and 262k tokens: the default chain, every sampler
// alone over the whole vocabulary, and all of them together. `of_step` is the share of a decode step of a 1B
// model, taken as 27 ms. One thread.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/strings.h"
#include "src/sample/chain.h"

namespace tessera::bench {
namespace {

constexpr double kStepSeconds = 0.027;
constexpr size_t kTextTokens = 2000;

struct Setup {
    const char* name;
    std::vector<std::pair<const char*, std::string>> params;
};

/// A chain in which nothing filters, then the given samplers.
Setup alone(const char* name, std::vector<std::pair<const char*, std::string>> params) {
    Setup setup{name, {{"temperature", "1"}, {"top_k", "0"}, {"top_p", "1"}, {"min_p", "0"}}};
    setup.params.insert(setup.params.end(), params.begin(), params.end());
    return setup;
}

const std::vector<Setup>& setups() {
    static const std::vector<Setup> all = {
        {"default", {}},
        {"default_penalties_dry",
         {{"repeat_penalty", "1.1"}, {"dry_multiplier", "0.8"}, {"dry_penalty_last_n", "-1"}}},
        {"greedy", {{"temperature", "0"}}},
        alone("draw", {}),
        alone("logit_bias", {{"logit_bias", "5+1,70000-inf"}}),
        alone("penalties", {{"repeat_penalty", "1.1"}, {"repeat_last_n", "-1"}}),
        alone("dry", {{"dry_multiplier", "0.8"}, {"dry_penalty_last_n", "-1"}}),
        alone("no_repeat_ngram", {{"no_repeat_ngram_size", "3"}}),
        alone("top_n_sigma", {{"top_n_sigma", "1"}}),
        alone("top_k", {{"top_k", "40"}}),
        alone("top_k_1000", {{"top_k", "1000"}}),
        alone("typ_p", {{"typical_p", "0.9"}}),
        alone("top_p", {{"top_p", "0.95"}}),
        alone("min_p", {{"min_p", "0.05"}}),
        alone("xtc", {{"xtc_probability", "1"}}),
        alone("temperature", {{"temperature", "0.8"}}),
        alone("dynatemp", {{"temperature", "0.8"}, {"dynatemp_range", "0.5"}}),
        alone("adaptive_p", {{"adaptive_target", "0.3"}}),
        // The surprise of these rows is below the default of tau, which the feedback would chase for ever.
        alone("mirostat_1", {{"mirostat", "1"}, {"mirostat_tau", "2"}}),
        alone("mirostat_2", {{"mirostat", "2"}, {"mirostat_tau", "2"}}),
    };
    return all;
}

/// Rows as language models give them: a broad bulk, some likely tokens, and a best one far above.
std::vector<std::vector<float>> logit_rows(size_t n_vocab) {
    std::mt19937 bits(1);
    std::normal_distribution<float> bulk(-2.0f, 2.5f), likely(9.0f, 2.0f);
    std::vector<std::vector<float>> rows(4, std::vector<float>(n_vocab));
    for (std::vector<float>& row : rows) {
        for (float& logit : row) logit = bulk(bits);
        for (int i = 0; i < 200; i++) row[bits() % n_vocab] = likely(bits);
        row[bits() % n_vocab] = 16.0f;
    }
    return rows;
}

void sample_token(benchmark::State& state, const Setup& setup, size_t n_vocab) {
    sample::Params params;
    for (const auto& [name, value] : setup.params) {
        if (auto set = params.set(name, value); !set) return state.SkipWithError(set.error().message.c_str());
    }
    for (const char* name : {"seed", "dry_sequence_breakers"}) {
        if (!params.set(name, std::string_view(*name == 's' ? "1" : "")))
            return state.SkipWithError("no such parameter");
    }
    auto chain = sample::Chain::create(params, {.n_vocab = static_cast<int32_t>(n_vocab)});
    if (!chain) return state.SkipWithError(chain.error().message.c_str());
    std::mt19937 bits(2);
    for (size_t i = 0; i < kTextTokens; i++) chain->accept(static_cast<int32_t>(bits() % 500));
    const auto rows = logit_rows(n_vocab);
    size_t step = 0;
    for (auto _ : state) {
        const int32_t id = chain->sample(rows[step++ % rows.size()]);
        chain->accept(id);
        benchmark::DoNotOptimize(id);
    }
    state.counters["of_step"] = benchmark::Counter(kStepSeconds * static_cast<double>(state.iterations()),
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
    using namespace tessera::bench;
    for (const size_t n_vocab : {size_t{131072}, size_t{262144}}) {
        for (const Setup& setup : setups()) {
            const std::string name = std::string(setup.name) + "/" + std::to_string(n_vocab);
            benchmark::RegisterBenchmark(name.c_str(), sample_token, setup, n_vocab)
                ->Unit(benchmark::kMicrosecond);
        }
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
