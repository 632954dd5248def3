#pragma once
// A recurrent mixer that exists in tests only: what attention adds to a token also decays into the tokens
// after it, channel by channel. Its bits depend on every earlier token, so a state of another position, of
// another text, or of an aborted pass shows in the logits.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "ggml-like/backend.h"
#include "src/engine/load.h"
#include "src/engine/session.h"

namespace tessera::test {

/// A text and its continuation.
inline std::vector<int32_t> joined(std::span<const int32_t> text, std::span<const int32_t> more) {
    std::vector<int32_t> out(text.begin(), text.end());
    out.insert(out.end(), more.begin(), more.end());
    return out;
}

/// Loads a model with float products, whose first n_recurrent layers have a state as wide as a row of
/// attention's output. These must not include the last layer, in which attention computes the output rows
/// alone. The model is computed through a DecayMixer.
inline engine::Loaded load_recurrent(const std::string& path, ThreadPool& pool, size_t n_recurrent = 1) {
    auto loaded = engine::load(path, pool, {.precise = true, .progress = {}});
    EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : loaded.error().message);
    auto& hparams = const_cast<Hparams&>(loaded->model->hparams());
    EXPECT_LT(n_recurrent, hparams.layers.size());
    for (size_t i = 0; i < n_recurrent; ++i) hparams.layers[i].state_floats = hparams.layers[i].n_attn();
    return std::move(*loaded);
}

/// Wraps a backend. After attention in each layer with a state: s = s / 2 + y, y += s.
class DecayMixer : public Backend {
  public:
    DecayMixer(Backend& inner, kv::StateLayout layout) : inner_(&inner), layout_(std::move(layout)) {}

    /// Called before each operation of the passes, with its number in the pass.
    std::function<void(int)> before_op;

    void run(const Op& op) override {
        if (std::get_if<EmbedOp<Direct>>(&op)) {
            n_ops_ = 0;
            n_attends_ = 0;
        }
        if (before_op) before_op(n_ops_);
        ++n_ops_;
        inner_->run(op);
        const auto* const attend = std::get_if<AttendOp<Direct>>(&op);
        if (!attend) return;
        const StateLayer& state = layout_.layers[n_attends_++];
        if (state.n == 0) return;
        for (const Segment& segment : attend->segments) mix(segment, state, *attend->y);
    }

  private:
    static void mix(const Segment& segment, const StateLayer& at, ActBuffer& y) {
        ASSERT_NE(segment.state_in, nullptr);
        ASSERT_NE(segment.state_out, nullptr);
        const float* const in = segment.state_in + at.offset;
        float* const state = segment.state_out + at.offset;
        for (int64_t c = 0; c < at.n; ++c) state[c] = in[c];
        for (int64_t row = segment.row0; row < segment.row0 + segment.n_tok; ++row)
            for (int64_t c = 0; c < at.n; ++c) {
                state[c] = 0.5f * state[c] + y.row(row)[c];
                y.row(row)[c] += state[c];
            }
    }

    Backend* inner_;
    kv::StateLayout layout_;
    int n_ops_ = 0;
    size_t n_attends_ = 0;
};

/// A session or scheduler that computes through a mixer of its own.
template <class T>
struct Mixed {
    std::unique_ptr<T> one;
    std::unique_ptr<DecayMixer> mixer;

    explicit Mixed(Result<std::unique_ptr<T>> made) {
        EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
        one = std::move(*made);
        mixer = std::make_unique<DecayMixer>(one->backend(), one->state_layout());
        one->compute_through(mixer.get());
    }
    T* operator->() const { return one.get(); }
    T& operator*() const { return *one; }
};

}  // namespace tessera::test
