#pragma once
// Graphs of test models, and their runs in floats.
#include "src/npu/float_run.h"
#include "src/npu/lower.h"
#include "src/npu/ranges.h"
#include "tests/record/support.h"

namespace tessera::npu::test {

using namespace tessera::test;

/// The reason for which a model has no graph, by its name; empty if it has one.
inline const std::pair<std::string, std::string> kLeftOut[] = {
    {"starcoder2", "the device has no such operation"},
    {"mixtral", "moe_route of layer 0, stays on the CPU: experts are chosen"},
    {"qwen3moe", "moe_route of layer 0, stays on the CPU: experts are chosen"},
    {"qwen2moe", "moe_route of layer 0, stays on the CPU: experts are chosen"},
    {"granitemoe", "moe_route of layer 0, stays on the CPU: experts are chosen"},
    {"gptoss", "attend of layer 0, stays on the CPU: attention sinks"},
    {"gemma2", "attend of layer 0, stays on the CPU: soft-capped attention scores"},
    {"mixed-heads", "qkv of layer 0, stays on the CPU: heads with 32 key and 64 value elements"},
    {"wide-heads", "qkv of layer 0, stays on the CPU: heads with 576 key and 512 value elements"},
    {"mistral3", "qkv of layer 0, stays on the CPU: attention temperature scaling"}};

inline std::string reason_of(const std::string& model) {
    for (const auto& [name, reason] : kLeftOut)
        if (name == model) return reason;
    return "";
}

inline record::Program program_of(const Model& model, int64_t n_tok, int64_t n_ctx, RecordedLogits logits) {
    const auto layout = kv::Layout::create(model.hparams().layers, Type::F32, Type::F32);
    return record_forward(model, layout, {.n_tok = n_tok, .n_ctx = n_ctx, .logits = logits});
}

/// A graph of a model and its run in floats.
struct FloatModel {
    record::Program program;
    Graph graph;
    std::unique_ptr<CpuBackend> backend;
    std::unique_ptr<FloatRun> floats;

    FloatModel(const Model& model, ThreadPool& pool, int64_t n_tok, int64_t n_ctx, RecordedLogits logits)
        : program(program_of(model, n_tok, n_ctx, logits)),
          graph(std::move(*lower(program, n_ctx))),
          backend(std::move(*engine::create_backend(model, pool, n_tok))),
          floats(std::make_unique<FloatRun>(std::move(*FloatRun::create(graph, *backend)))) {}

    FloatModel(const FloatModel&) = delete;
    FloatModel& operator=(const FloatModel&) = delete;

    /// Logits of all tokens, in passes of n_tok tokens, the last of which is padded.
    std::vector<float> logits(std::span<const int32_t> tokens, const FloatRun::Observer& observe) {
        std::vector<float> out;
        const auto chunk = static_cast<size_t>(program.n_tok);
        for (size_t at = 0; at < tokens.size(); at += chunk) {
            floats->run(tokens.subspan(at, std::min(chunk, tokens.size() - at)), observe);
            const auto rows = floats->rows(graph.outputs.back());
            out.insert(out.end(), rows.begin(), rows.end());
        }
        return out;
    }
};

inline std::vector<int32_t> some_tokens(int n) {
    std::vector<int32_t> tokens = kGoldenTokens;
    for (int i = static_cast<int>(tokens.size()); i < n; ++i) tokens.push_back(3 + (i * 7919) % 500);
    return tokens;
}

/// The ranges of a model over a text.
inline Ranges ranges_of(const Model& model, ThreadPool& pool, std::span<const int32_t> tokens,
                        int64_t n_ctx) {
    FloatModel floats(model, pool, 16, n_ctx, RecordedLogits::All);
    RangeCollector collector(floats.graph);
    floats.logits(tokens, [&](GraphValueId id, std::span<const float> x) { collector.add(id, x); });
    return *collector.take(1, std::ssize(tokens));
}

}  // namespace tessera::npu::test
