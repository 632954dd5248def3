// The forward pass against reference logits, and the promise that the logits have the same bits for every
// number of threads, chunk size, instruction set and batch.
#include <cstdio>

#include "tests/model/forward_run.h"

namespace tessera::test {

namespace {

class Golden : public testing::TestWithParam<TestModel> {};

TEST_P(Golden, LogitsMatchTheReference) {
    const TestModel& test = GetParam();
    const std::vector<float> expected = logits_of_file(test.logits_path());
    ThreadPool pool(2);
    auto model = load_model(test.path(), pool);
    ASSERT_TRUE(model) << model.error().message;
    const std::vector<float> logits = all_logits(*model, pool, kGoldenTokens, 16, Type::F32, test.n_ctx);
    ASSERT_EQ(logits.size(), expected.size());
    const double error = nmse(logits, expected.data());
    EXPECT_LT(error, 1e-9);
    std::printf("%s: %.1e\n", test.name, error);
}

TEST_P(Golden, SameBitsForThreadsChunksAndIsa) {
    const TestModel& test = GetParam();
    ThreadPool one(1);
    auto model = load_model(test.path(), one, "scalar");
    ASSERT_TRUE(model) << model.error().message;
    for (const Type kv_type : {Type::F32, Type::F16, Type::Q8_0, Type::Q4_0}) {
        if (!fits_cache((*model)->hparams(), kv_type)) continue;
        const std::vector<float> base = all_logits(*model, one, kGoldenTokens, 16, kv_type, test.n_ctx);
        for (const kernels::IsaInfo& isa : kernels::all_isas()) {
            if (!isa.usable) continue;
            for (const int n_threads : {1, 2, 3}) {
                ThreadPool pool(n_threads);
                auto again = load_model(test.path(), pool, std::string(isa.name).c_str());
                ASSERT_TRUE(again) << again.error().message;
                for (const int64_t chunk : {1, 3, 16})
                    EXPECT_TRUE(
                        same_bits(base, all_logits(*again, pool, kGoldenTokens, chunk, kv_type, test.n_ctx)))
                        << isa.name << " threads " << n_threads << " chunk " << chunk;
            }
        }
    }
}

/// Sequences in one batch, in passes of uneven parts, get the logits that each has alone.
TEST_P(Golden, SameBitsInABatch) {
    const TestModel& test = GetParam();
    ThreadPool pool(2);
    auto model = load_model(test.path(), pool);
    ASSERT_TRUE(model) << model.error().message;
    std::vector<int32_t> backwards(kGoldenTokens.rbegin(), kGoldenTokens.rend());
    auto backend = engine::create_backend(**model, pool, 66);
    ASSERT_TRUE(backend);
    const int64_t n_ctx = std::max<int64_t>(16, test.n_ctx);
    ForwardRun run(**model, **backend, 2, n_ctx);
    const auto part = [](const std::vector<int32_t>& tokens, int from, int to) {
        return std::vector<int32_t>(tokens.begin() + from, tokens.begin() + to);
    };
    std::vector<std::vector<float>> logits(2);
    run.pass({{0, part(kGoldenTokens, 0, 7)}, {1, part(backwards, 0, 3)}}, logits);
    run.pass({{1, part(backwards, 3, 4)}, {0, part(kGoldenTokens, 7, 8)}}, logits);
    run.pass({{0, part(kGoldenTokens, 8, 16)}, {1, part(backwards, 4, 16)}}, logits);
    EXPECT_TRUE(same_bits(logits[0], all_logits(*model, pool, kGoldenTokens, 16, Type::F32, test.n_ctx)));
    EXPECT_TRUE(same_bits(logits[1], all_logits(*model, pool, backwards, 16, Type::F32, test.n_ctx)));
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(kTestModels), name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, Golden, testing::ValuesIn(kLayerModels), name_of);
INSTANTIATE_TEST_SUITE_P(DeepModel, Golden, testing::Values(kDeepModel), name_of);

/// A text long enough for several KV chunks, split attention and partial pages, on a quantized model.
TEST(DefaultModel, SameBitsAcrossKvChunks) {
    const std::string path = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";
    std::vector<int32_t> tokens;
    for (int i = 0; i < 600; ++i) tokens.push_back(3 + (i * 7919) % 4000);
    for (const bool pack : {true, false}) {
        ThreadPool two(2), three(3);
        auto model = load_model(path, two, "", pack);
        ASSERT_TRUE(model) << model.error().message;
        for (const Type kv_type : {Type::F32, Type::F16, Type::Q8_0, Type::Q4_0}) {
            const std::vector<float> base = all_logits(*model, two, tokens, 600, kv_type);
            for (const int64_t chunk : {1, 4, 5, 129, 512})
                EXPECT_TRUE(
                    same_bits(base, all_logits(*model, chunk % 2 ? two : three, tokens, chunk, kv_type)))
                    << "pack " << pack << " chunk " << chunk;
        }
    }
}

/// The committed file holds the trained weights as our own encoder quantizes them.
TEST(DefaultModel, IsTheTrainedModelInOurQ8) {
    TSR_NEED_SHARED("models/tiny/tiny-f16.gguf");
    auto trained = gguf::File::open(shared("models/tiny/tiny-f16.gguf"));
    auto ours = gguf::File::open(std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf");
    ASSERT_TRUE(trained && ours);
    ASSERT_EQ(trained->tensors().size(), ours->tensors().size());
    for (const gguf::TensorInfo& from : trained->tensors()) {
        const gguf::TensorInfo* to = ours->find_tensor(from.name);
        ASSERT_TRUE(to) << from.name;
        EXPECT_EQ(to->type, from.n_dims == 2 ? Type::Q8_0 : Type::F32) << from.name;
        std::vector<float> x(static_cast<size_t>(from.n_elements()));
        type_info(from.type).dequantize(from.data.data(), x.data(), from.n_elements());
        std::vector<std::byte> bytes(to->data.size());
        type_info(to->type).store(x.data(), bytes.data(), from.n_elements());
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), to->data.begin())) << from.name;
    }
}

/// The error of smaller KV types.
TEST(DefaultModel, QuantizedCacheIsClose) {
    const std::string path = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";
    std::vector<int32_t> tokens;
    for (int i = 0; i < 200; ++i) tokens.push_back(3 + (i * 7919) % 4000);
    ThreadPool pool(2);
    // Float products, because int8 activations would turn any change of a key into rounding steps of their
    // own.
    auto model = load_model(path, pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    const std::vector<float> exact = all_logits(*model, pool, tokens, 64);
    const std::pair<Type, double> limits[] = {{Type::F16, 1e-6}, {Type::Q8_0, 1e-3}, {Type::Q4_0, 5e-2}};
    double before = 0;
    for (const auto& [type, limit] : limits) {
        const double error = nmse(all_logits(*model, pool, tokens, 64, type), exact.data());
        EXPECT_LT(error, limit) << type_info(type).name;
        EXPECT_GT(error, before) << type_info(type).name;
        before = error;
    }
}

TEST(DefaultModel, IntegerPathIsCloseToFloat) {
    const std::string path = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";
    std::vector<int32_t> tokens;
    for (int i = 0; i < 64; ++i) tokens.push_back(3 + (i * 7919) % 4000);
    ThreadPool pool(2);
    auto packed = load_model(path, pool), floats = load_model(path, pool, "", false);
    ASSERT_TRUE(packed && floats);
    EXPECT_GT((*packed)->packed_bytes(), 0u);
    EXPECT_EQ((*floats)->packed_bytes(), 0u);
    const std::vector<float> a = all_logits(*packed, pool, tokens, 64),
                             b = all_logits(*floats, pool, tokens, 64);
    EXPECT_LT(nmse(a, b.data()), 2e-3);
    EXPECT_GT(nmse(a, b.data()), 0);
}

}  // namespace

}  // namespace tessera::test
