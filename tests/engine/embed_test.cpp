// Embeddings: the state that the logits are made from, with the same bits however the text is cut.
#include <cmath>
#include <numeric>

#include "tests/model/support.h"

namespace tessera::engine {
namespace {

const std::string kModelPath = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";

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
