#pragma once
// The forward pass on a given backend, with several sequences in a batch.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "src/forward/forward.h"
#include "src/kv/sequence.h"
#include "tests/model/test_models.h"

namespace tessera::test {

class ForwardRun {
  public:
    /// Reserves n_seq sequences of max_tok tokens; one pass may hold all of them.
    ForwardRun(const Model& model, Backend& backend, int64_t n_seq, int64_t max_tok, Type kv_type = Type::F32)
        : model_(model), backend_(backend), n_ctx_(max_tok) {
        auto activations = Activations::create(model, n_seq * max_tok, n_seq * max_tok);
        auto pages = kv::PagePool::create(kv::Layout::create(model.hparams().layers, kv_type, kv_type),
                                          n_seq * ((max_tok + kKvPage - 1) / kKvPage));
        EXPECT_TRUE(activations && pages);
        activations_ = std::move(*activations);
        pages_ = std::make_unique<kv::PagePool>(std::move(*pages));
        for (int64_t i = 0; i < n_seq; ++i) sequences_.push_back(std::make_unique<kv::Sequence>(*pages_));
    }

    /// Computes a pass; tests may put another way in its place.
    std::function<void(Backend&, const Model&, const kv::Layout&, const Batch&, Activations&)> forward_pass =
        forward;

    /// One pass over the next tokens of some sequences; appends the logits of each token to those of its
    /// sequence.
    void pass(const std::vector<std::pair<size_t, std::vector<int32_t>>>& parts,
              std::vector<std::vector<float>>& logits) {
        std::vector<int32_t> tokens, outputs;
        std::vector<Segment> segments;
        for (const auto& [seq, part] : parts) {
            kv::Sequence& sequence = *sequences_[seq];
            const auto n = static_cast<int64_t>(part.size());
            ASSERT_TRUE(sequence.reserve(n));
            segments.push_back({sequence.pages(), static_cast<int64_t>(tokens.size()), n, sequence.n_tok()});
            tokens.insert(tokens.end(), part.begin(), part.end());
            sequence.advance(n);
        }
        for (size_t i = 0; i < tokens.size(); ++i) outputs.push_back(static_cast<int32_t>(i));
        forward_pass(backend_, model_, pages_->layout(), {tokens, segments, outputs, n_ctx_}, activations_);
        const float* row = activations_.logits.f32;
        for (const auto& [seq, part] : parts) {
            const auto n = static_cast<int64_t>(part.size()) * model_.hparams().n_vocab;
            logits[seq].insert(logits[seq].end(), row, row + n);
            row += n;
        }
    }

  private:
    const Model& model_;
    Backend& backend_;
    int64_t n_ctx_;
    Activations activations_;
    std::unique_ptr<kv::PagePool> pages_;
    std::vector<std::unique_ptr<kv::Sequence>> sequences_;
};

}  // namespace tessera::test
