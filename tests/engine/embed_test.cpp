// Embeddings: the hidden state behind the logits, with the same bits for every way to cut the text.
#include <cmath>
#include <numeric>

#include "tests/engine/support.h"
#include "tests/model/support.h"

namespace tessera::engine {
namespace {

std::vector<int32_t> some_tokens(int32_t n) {
    std::vector<int32_t> out;
    for (int32_t i = 0; i < n; ++i) out.push_back(1 + i * 37 % 4000);
    return out;
}

std::vector<float> embedding(const std::shared_ptr<const Model>& model, int n_threads, int64_t n_batch,
                             std::span<const int32_t> tokens, Pooling pooling) {
    ThreadPool pool(n_threads);
    const auto session = Session::create(model, pool, {.n_ctx = 200, .n_batch = n_batch});
    EXPECT_TRUE(session.has_value());
    EXPECT_TRUE((*session)->eval(some_tokens(3)).has_value());
    std::vector<float> out(static_cast<size_t>(model->hparams().n_embd));
    EXPECT_TRUE((*session)->embed(tokens, pooling, out).has_value());
    EXPECT_EQ((*session)->n_tok(), 0);
    EXPECT_FALSE((*session)->has_logits());
    return out;
}

TEST(Embeddings, do_not_depend_on_cuts_and_threads) {
    ThreadPool pool(2);
    const auto model = *test::load_model(kModelPath, pool);
    for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) {
        const auto whole = embedding(model, 1, 512, some_tokens(131), pooling);
        EXPECT_TRUE(test::same_bits(whole, embedding(model, 2, 64, some_tokens(131), pooling)));
        EXPECT_TRUE(test::same_bits(whole, embedding(model, 2, 1, some_tokens(131), pooling)));
    }
    const auto one = some_tokens(1);
    EXPECT_TRUE(test::same_bits(embedding(model, 1, 512, one, Pooling::Last),
                                embedding(model, 1, 512, one, Pooling::Mean)));
}

TEST(Embeddings, are_the_state_that_logits_are_made_from) {
    ThreadPool pool(2);
    const auto model = *test::load_model(kModelPath, pool, "", false);
    const auto tokens = some_tokens(20);
    const auto state = embedding(model, 2, 512, tokens, Pooling::Last);
    const auto session = *Session::create(model, pool, {.n_ctx = 200});
    ASSERT_TRUE(session->eval(tokens).has_value());
    const gguf::TensorInfo* output = model->file().find_tensor("output.weight");
    if (!output) output = model->file().find_tensor("token_embd.weight");
    const TypeInfo& type = type_info(output->type);
    const auto n_embd = static_cast<int64_t>(state.size());
    std::vector<float> row(state.size());
    for (const int64_t id : {0, 7, 4000}) {
        type.dequantize(output->data.data() + type.row_bytes(n_embd) * id, row.data(), n_embd);
        const double expected = std::inner_product(state.begin(), state.end(), row.begin(), 0.0);
        const auto logit = static_cast<double>(session->logits()[static_cast<size_t>(id)]);
        EXPECT_NEAR(logit, expected, 0.02 * (1 + std::fabs(expected)));
    }
}

TEST(Embeddings, refuse_what_does_not_fit) {
    ThreadPool pool(1);
    const auto model = *test::load_model(kModelPath, pool);
    const auto session = *Session::create(model, pool, {.n_ctx = 16});
    std::vector<float> out(static_cast<size_t>(model->hparams().n_embd));
    EXPECT_FALSE(session->embed(some_tokens(17), Pooling::Mean, out).has_value());
    EXPECT_FALSE(session->embed({}, Pooling::Mean, out).has_value());
    EXPECT_FALSE(session->embed(std::vector<int32_t>{-1}, Pooling::Mean, out).has_value());
    EXPECT_FALSE(session->embed(some_tokens(2), Pooling::Mean, std::span(out).first(3)).has_value());
    EXPECT_TRUE(session->embed(some_tokens(16), Pooling::Mean, out).has_value());
}

class EmbeddingRequests : public Engines {
  protected:
    Request wanted(int32_t n_tok, Pooling pooling) {
        Request out;
        out.prompt = some_tokens(n_tok);
        out.embedding = pooling;
        return out;
    }
    /// The result of a session.
    std::vector<float> expected(const Request& request) {
        return embedding(loaded_.model, 2, 512, request.prompt, *request.embedding);
    }
    /// The outcome is stored in slot i of `found`.
    Listener into(size_t i) {
        if (found_.size() <= i) found_.resize(i + 1);
        Listener out;
        out.on_delta = [](const Delta&) { ADD_FAILURE() << "an embedding writes nothing"; };
        out.on_finish = [this, i](const Outcome& end) {
            EXPECT_EQ(end.finish, Finish::EndOfGeneration);
            found_[i].assign(end.embedding.begin(), end.embedding.end());
            n_preempted_ += end.usage.n_preempted;
        };
        return out;
    }

    std::vector<std::vector<float>> found_;
    int64_t n_preempted_ = 0;
};

// Several embeddings in a batch, beside completions and in chunks: all results equal those computed alone.
TEST_F(EmbeddingRequests, have_the_bits_of_a_session_in_any_batch) {
    const Request text = request("Once upon a time there was", 40);
    const std::vector<int32_t> undisturbed = alone(text, {.n_ctx = 200});
    for (const int64_t n_batch : {8, 100, 512}) {
        const auto all = scheduler({.n_ctx = 200, .n_batch = n_batch, .max_running = 4});
        std::vector<Request> asked;
        for (const int32_t n : {131, 1, 40, 200, 64, 65, 7})
            for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) asked.push_back(wanted(n, pooling));
        found_.assign(asked.size(), {});
        Got got;
        uint64_t number = 0;
        all->add(job_of(text, got.listener(), number++));
        for (size_t i = 0; i < asked.size(); ++i) all->add(job_of(asked[i], into(i), number++));
        while (!all->idle()) all->step();
        for (size_t i = 0; i < asked.size(); ++i)
            EXPECT_TRUE(test::same_bits(found_[i], expected(asked[i]))) << n_batch << ", " << i;
        EXPECT_EQ(got.ids[0], undisturbed);
        // Only the completion enters the prefix cache.
        EXPECT_LE(all->stats().n_pages_cached, 2);
    }
}

// A preempted embedding continues from the states that it had reached.
TEST_F(EmbeddingRequests, keep_their_bits_when_preempted) {
    const uint64_t page = plan_cache(*loaded_.model, {.n_ctx = 64})->layout.page_bytes;
    for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) {
        const auto all = scheduler({.n_ctx = 256, .kv_bytes = 6 * page, .n_batch = 8, .max_running = 3});
        // Two completions that take a second page while the embedding needs its third.
        Got got[2];
        for (uint64_t i = 0; i < 2; ++i) {
            Request text = request("", 66, i);
            text.prompt = some_tokens(60);
            text.prompt[0] += static_cast<int32_t>(i);
            all->add(job_of(text, got[i].listener(), i));
        }
        const Request asked = wanted(190, pooling);
        all->add(job_of(asked, into(0), 2));
        n_preempted_ = 0;
        for (int i = 0; i < 5000 && !all->idle(); ++i) all->step();
        ASSERT_TRUE(all->idle());
        EXPECT_TRUE(test::same_bits(found_[0], expected(asked)));
        EXPECT_GT(n_preempted_, 0);
    }
}

TEST_F(EmbeddingRequests, with_a_cached_prefix_have_the_same_bits) {
    const auto all = scheduler({.n_ctx = 256});
    Got got;
    Request text = wanted(150, Pooling::Last);
    text.embedding.reset();
    text.max_tokens = 1;
    all->add(job_of(text, got.listener(), 0));
    while (!all->idle()) all->step();
    for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) {
        const int64_t n_before = all->stats().n_cached_tokens;
        const Request asked = wanted(160, pooling);
        all->add(job_of(asked, into(0), 1));
        while (!all->idle()) all->step();
        EXPECT_TRUE(test::same_bits(found_[0], expected(asked)));
        EXPECT_EQ(all->stats().n_cached_tokens > n_before, pooling == Pooling::Last);
    }
}

TEST_F(EmbeddingRequests, refuse_fields_of_completions) {
    const auto all = engine({.n_ctx = 64});
    Request asked = wanted(4, Pooling::Mean);
    asked.n = 2;
    const auto two = all->submit(asked, {});
    ASSERT_FALSE(two.has_value());
    EXPECT_NE(two.error().message.find("found 2"), std::string::npos) << two.error().message;
    asked.n = 1;
    asked.prompt = some_tokens(65);
    EXPECT_FALSE(all->submit(asked, {}).has_value());
}

TEST(Embeddings, are_normalized) {
    std::vector<float> row = {3, 0, -4};
    normalize(row);
    EXPECT_FLOAT_EQ(row[0], 0.6f);
    EXPECT_FLOAT_EQ(row[2], -0.8f);
    std::vector<float> zeros(4);
    normalize(zeros);
    EXPECT_EQ(zeros, std::vector<float>(4));
}

}  // namespace
}  // namespace tessera::engine
