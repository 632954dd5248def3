// The rules of an NPU for passes and for the prefix cache, with an NPU that computes nothing.
#include "src/engine/npu_policy.h"

#include <vector>

#include "tests/engine/pass_support.h"

namespace tessera::engine {
namespace {

/// Stands for a device that computes the given phases.
class Device final : public NpuSession {
  public:
    Device(Backend& backend, bool prefill, bool decode, bool owns_kv_cache) : backend_(backend) {
        prefill_ = prefill;
        decode_ = decode;
        owns_kv_cache_ = owns_kv_cache;
    }
    Backend& backend() override { return backend_; }

  private:
    Backend& backend_;
};

class NpuPolicies : public PassParts {
  protected:
    NpuPolicies() : device_backend_(*create_backend(*loaded_.model, pool_, kBatch)) {}

    NpuPolicy policy(bool prefill, bool decode, bool owns_kv_cache = false) {
        return NpuPolicy(std::make_unique<Device>(*device_backend_, prefill, decode, owns_kv_cache));
    }
    /// A completion of n prompt tokens, of which n_done are computed.
    std::unique_ptr<Completion> of_prompt(std::vector<int32_t> prompt, int64_t n_done) {
        Request asked = request("Once", 50);
        asked.prompt = std::move(prompt);
        auto one = completion(std::move(asked));
        EXPECT_TRUE(one->sequence().reserve(n_done));
        one->sequence().advance(n_done);
        return one;
    }
    /// Appends a token as if it had been sampled.
    void generate(Completion& one) {
        one.sample(std::vector<float>(static_cast<size_t>(loaded_.model->hparams().n_vocab)));
        EXPECT_TRUE(one.commit_token());
    }
    static std::vector<int32_t> ids(std::span<const int32_t> of) { return {of.begin(), of.end()}; }

    std::unique_ptr<CpuBackend> device_backend_;
};

TEST_F(NpuPolicies, WithoutAnNpuNothingIsRestricted) {
    NpuPolicy none;
    const auto one = of_prompt({300, 301, 302, 303}, 2);
    for (const bool has_decode : {true, false, true}) none.next_phase(true, has_decode);
    for (const Phase phase : {Phase::Prefill, Phase::Decode}) EXPECT_EQ(none.n_in_phase(*one, phase, 2), 2);
    EXPECT_EQ(ids(none.reusable_prefix(*one)), (std::vector<int32_t>{300, 301, 302}));
    EXPECT_EQ(none.publishable_prefix(*one, 4).size(), 4u);
    Pass pass = empty_pass(1);
    pass.clear(none.next_phase(true, true));
    add(pass, *one, 1);
    pass.build_batch();
    EXPECT_EQ(&none.begin(pass, *backend_), backend_.get());
    none.end(pass);
    EXPECT_EQ(none.reusable_prefix(*one).size(), 3u);
}

TEST_F(NpuPolicies, SplitPhasesAlternateAndShareNoPass) {
    NpuPolicy split = policy(true, false);
    EXPECT_EQ(split.next_phase(true, false), Phase::Prefill);
    EXPECT_EQ(split.next_phase(true, true), Phase::Decode);
    EXPECT_EQ(split.next_phase(true, true), Phase::Prefill);
    EXPECT_EQ(split.next_phase(false, true), Phase::Decode);
    EXPECT_EQ(split.next_phase(false, true), Phase::Decode);

    const auto one = of_prompt({300, 301, 302, 303}, 1);
    EXPECT_EQ(split.n_in_phase(*one, Phase::Prefill, 3), 3);
    EXPECT_EQ(split.n_in_phase(*one, Phase::Decode, 3), 0);
    // A generated token that is pending behind the prompt, as after a preemption, waits for the other phase.
    generate(*one);
    EXPECT_EQ(split.n_in_phase(*one, Phase::Prefill, 4), 3);
    ASSERT_TRUE(one->sequence().reserve(3));
    one->sequence().advance(3);
    EXPECT_EQ(split.n_in_phase(*one, Phase::Prefill, 1), 0);
    EXPECT_EQ(split.n_in_phase(*one, Phase::Decode, 1), 1);
    // The prefix cache holds prompts alone.
    generate(*one);
    EXPECT_EQ(split.reusable_prefix(*one).size(), 4u);
    EXPECT_EQ(split.publishable_prefix(*one, 6).size(), 4u);
    EXPECT_EQ(policy(true, true).publishable_prefix(*one, 6).size(), 6u);
}

TEST_F(NpuPolicies, ThePhaseDecidesWhoComputes) {
    for (const bool prefill : {true, false}) {
        NpuPolicy split = policy(prefill, !prefill);
        const auto one = of_prompt({300, 301}, 0);
        Pass pass = empty_pass(1);
        for (const Phase phase : {Phase::Prefill, Phase::Decode}) {
            pass.clear(phase);
            add(pass, *one, 1);
            pass.build_batch();
            Backend* expected = backend_.get();
            if ((phase == Phase::Prefill) == prefill) expected = device_backend_.get();
            EXPECT_EQ(&split.begin(pass, *backend_), expected);
        }
    }
}

TEST_F(NpuPolicies, ADeviceWithTheCacheReusesOnlyItsLastText) {
    NpuPolicy owner = policy(true, true, true);
    const auto one = of_prompt({300, 301, 302, 303}, 2);
    EXPECT_EQ(owner.reusable_prefix(*one).size(), 0u);
    Pass pass = empty_pass(1);
    add(pass, *one, 1);
    pass.build_batch();
    // An aborted pass leaves the tokens before it.
    EXPECT_EQ(&owner.begin(pass, *backend_), device_backend_.get());
    const auto next = of_prompt({300, 301, 302, 999, 304}, 0);
    EXPECT_EQ(ids(owner.reusable_prefix(*next)), (std::vector<int32_t>{300, 301}));
    owner.begin(pass, *backend_);
    owner.end(pass);
    EXPECT_EQ(ids(owner.reusable_prefix(*next)), (std::vector<int32_t>{300, 301, 302}));
}

}  // namespace
}  // namespace tessera::engine
