// Builds a sequence's samplers from its parameters and runs them in order. Knows no sampler by name:
// registry.cpp lists them, and each has a file of its own.
#include "src/sample/chain.h"

#include "src/sample/fixed_exp.h"

namespace tessera::sample {

namespace {

constexpr int32_t kMaxVocab = 1 << 24;
static_assert(UINT64_MAX / kWeightOne >= static_cast<uint64_t>(kMaxVocab) - 1, "sums of weights must fit");

}  // namespace

Result<Chain> Chain::create(const Params& params, const Setting& setting, uint64_t stream) {
    const int32_t n_vocab = setting.n_vocab;
    if (n_vocab < 1 || n_vocab > kMaxVocab) {
        return fail(ErrorCode::InvalidArgument, "sampling: expected a vocabulary of 1 to %d tokens, found %d",
                    kMaxVocab, n_vocab);
    }
    Chain chain;
    chain.n_vocab_ = n_vocab;
    chain.stream_ = stream;
    const double seed = params.number("seed");
    // 53 bits, which fit the parameter, so that this seed can be given to repeat the run.
    chain.seed_ = seed < 0 ? random_seed() >> 11 : static_cast<uint64_t>(seed);
    TSR_TRY(const std::vector<const SamplerInfo*> order, chosen_order(params));
    for (const SamplerInfo* info : order) {
        TSR_TRY(std::unique_ptr<Sampler> sampler, info->make(params, setting));
        if (!sampler) continue;
        chain.samplers_.push_back(std::move(sampler));
        chain.names_.push_back(info->name);
    }
    return chain;
}

int32_t Chain::sample(std::span<const float> logits, const Limits& limits) {
    return sample(logits, buffer_, limits);
}

int32_t Chain::sample(std::span<const float> logits, Candidates& buffer, const Limits& limits) {
    TSR_CHECK(logits.size() == static_cast<size_t>(n_vocab_));
    TSR_CHECK(limits.allowed.empty() || limits.allowed.size() * 64 >= logits.size());
    last_ = {.seed = seed_, .stream = stream_, .step = step_++};
    last_.n_nan = buffer.assign(logits, limits.allowed);
    buffer.ban(limits.banned);
    for (const auto& sampler : samplers_) sampler->apply(buffer, last_);
    for (const auto& sampler : samplers_) sampler->drawn(last_);
    return last_.id;
}

void Chain::accept(int32_t id) {
    TSR_CHECK(id >= 0 && id < n_vocab_);
    for (const auto& sampler : samplers_) sampler->accept(id);
}

void Chain::forget_text() {
    for (const auto& sampler : samplers_) sampler->forget_text();
}

void Chain::reset() {
    for (const auto& sampler : samplers_) sampler->reset();
    step_ = 0;
    last_ = {};
}

Chain Chain::clone() const {
    Chain copy;
    for (const auto& sampler : samplers_) copy.samplers_.push_back(sampler->clone());
    copy.names_ = names_;
    copy.last_ = last_;
    copy.n_vocab_ = n_vocab_;
    copy.seed_ = seed_;
    copy.stream_ = stream_;
    copy.step_ = step_;
    return copy;
}

}  // namespace tessera::sample
