// A pass without a scheduler: several outputs of one completion, logits beside hidden states, and several
// passes in flight, all with the bits of completions that are computed alone.
#include "src/engine/pass.h"

#include <algorithm>
#include <vector>

#include "tests/engine/pass_support.h"

namespace tessera::engine {
namespace {

using Row = std::vector<float>;

class Passes : public PassParts {
  protected:
    /// Logits of the last prompt token, computed alone.
    Row logits_alone(Request asked) {
        const auto one = completion(std::move(asked));
        Pass pass = empty_pass(1);
        add(pass, *one, 1);
        pass.build_batch();
        compute(pass);
        return row(pass.logits(pass.chunks()[0], 0));
    }
    /// The request with the first n tokens of its prompt.
    static Request first(Request asked, int64_t n) {
        asked.prompt.resize(static_cast<size_t>(n));
        return asked;
    }
    static Row row(std::span<const float> values) { return {values.begin(), values.end()}; }
    static const Pass::Chunk& chunk_of(const Pass& pass, const Completion& one) {
        const auto chunks = pass.chunks();
        return *std::find_if(chunks.begin(), chunks.end(),
                             [&one](const Pass::Chunk& chunk) { return chunk.completion == &one; });
    }
};

TEST_F(Passes, SeveralOutputsOfACompletionHaveTheBitsOfSingleOnes) {
    constexpr int64_t kOutputs = 4;
    const Request asked = request(story(1), 10), other = request("Then he", 10);
    Request embedding = request("A sentence to embed.", 0);
    embedding.embedding = Pooling::Mean;
    const auto n_prompt = static_cast<int64_t>(asked.prompt.size());
    const auto several = completion(asked), single = completion(other), summed = completion(embedding);

    Pass pass = empty_pass(kOutputs + 1);
    add(pass, *summed, 0);
    add(pass, *several, kOutputs);
    add(pass, *single, 1);
    pass.build_batch();
    compute(pass);

    ASSERT_EQ(pass.chunks_with_logits().size(), 2u);
    for (int64_t i = 0; i < kOutputs; ++i)
        EXPECT_EQ(row(pass.logits(chunk_of(pass, *several), i)),
                  logits_alone(first(asked, n_prompt - kOutputs + 1 + i)))
            << i;
    EXPECT_EQ(row(pass.logits(chunk_of(pass, *single), 0)), logits_alone(other));

    const auto summed_alone = completion(embedding);
    Pass alone = empty_pass(1);
    add(alone, *summed_alone, 0);
    alone.build_batch();
    compute(alone);
    const Pass::Chunk& states = chunk_of(pass, *summed);
    ASSERT_EQ(states.n_hidden, std::ssize(embedding.prompt));
    for (int64_t i = 0; i < states.n_hidden; ++i)
        EXPECT_EQ(row(pass.hidden(states, i)), row(alone.hidden(alone.chunks()[0], i))) << i;
}

TEST_F(Passes, AClearedPassIsAnotherOne) {
    const Request asked = request("Once upon a time", 10), other = request("Then he", 10);
    const auto one = completion(asked), two = completion(other);
    Pass pass = empty_pass(2);
    add(pass, *one, 2);
    pass.build_batch();
    compute(pass);
    pass.set_computed(1.0, true);
    pass.clear(Phase::Decode);
    EXPECT_TRUE(pass.empty());
    EXPECT_FALSE(pass.was_aborted());
    add(pass, *two, 1);
    pass.build_batch();
    EXPECT_EQ(pass.phase(), Phase::Decode);
    EXPECT_EQ(pass.n_tok(), std::ssize(other.prompt));
    compute(pass);
    EXPECT_EQ(row(pass.logits(pass.chunks()[0], 0)), logits_alone(other));
}

TEST_F(Passes, SeveralMayBeInFlight) {
    const Request asked = request("Once upon a time", 10), other = request("Then he", 10);
    const auto one = completion(asked), two = completion(other);
    Pass first_pass = empty_pass(1), second_pass = empty_pass(1);
    add(first_pass, *one, 1);
    first_pass.build_batch();
    add(second_pass, *two, 1);
    second_pass.build_batch();
    compute(first_pass);
    compute(second_pass);
    EXPECT_EQ(row(first_pass.logits(first_pass.chunks()[0], 0)), logits_alone(asked));
    EXPECT_EQ(row(second_pass.logits(second_pass.chunks()[0], 0)), logits_alone(other));
}

}  // namespace
}  // namespace tessera::engine
