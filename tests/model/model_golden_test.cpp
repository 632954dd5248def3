// The forward pass against reference logits, and the promise that threads, chunking, instruction set and
// batch do not change a bit.
#include "common/f16.h"
#include "ggml-like/gguf/writer.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

class Golden : public testing::TestWithParam<const char*> {
  protected:
    std::string model_path() const { return shared(std::string("golden/models/") + GetParam() + ".gguf"); }
};

/// The reference runs had their expert routers rounded to half, while the files hold them in full: a copy of
/// the model with the same rounding is what the reference logits belong to.
std::string with_rounded_routers(const std::string& path, const TempFolder& folder) {
    auto file = gguf::File::open(path);
    if (!file) return path;
    const std::string copy = folder.at("rounded_routers.gguf");
    gguf::Writer writer(copy);
    for (const gguf::KeyValue& kv : file->keys()) writer.set_value(kv.key, kv.value);
    for (const gguf::TensorInfo& t : file->tensors())
        writer.add_tensor(t.name, {t.shape, static_cast<size_t>(t.n_dims)}, static_cast<uint32_t>(t.type),
                          t.data.size());
    EXPECT_TRUE(writer.begin_data());
    for (const gguf::TensorInfo& t : file->tensors()) {
        std::vector<std::byte> bytes(t.data.begin(), t.data.end());
        if (t.name.ends_with("ffn_gate_inp.weight") && t.type == Type::F32)
            for (size_t i = 0; i < bytes.size(); i += 4) {
                float value = 0;
                std::memcpy(&value, &bytes[i], 4);
                value = f16_to_f32(f32_to_f16(value));
                std::memcpy(&bytes[i], &value, 4);
            }
        EXPECT_TRUE(writer.write(bytes));
    }
    EXPECT_TRUE(writer.finish());
    return copy;
}

TEST_P(Golden, LogitsMatchTheReference) {
    TSR_NEED_SHARED("golden/models");
    const std::string reference = read_file(shared(std::string("golden/models/") + GetParam() + ".logits"));
    int32_t n_tok = 0, n_vocab = 0;
    ASSERT_GE(reference.size(), 8u);
    std::memcpy(&n_tok, reference.data(), 4);
    std::memcpy(&n_vocab, reference.data() + 4, 4);
    std::vector<float> expected(static_cast<size_t>(n_tok) * static_cast<size_t>(n_vocab));
    ASSERT_EQ(reference.size(), 8 + expected.size() * 4);
    std::memcpy(expected.data(), reference.data() + 8, expected.size() * 4);

    const TempFolder folder;
    ThreadPool pool(2);
    for (const bool rounded : {true, false}) {
        auto model = load_model(rounded ? with_rounded_routers(model_path(), folder) : model_path(), pool);
        ASSERT_TRUE(model) << model.error().message;
        const std::vector<float> logits = all_logits(*model, pool, kGoldenTokens, 16);
        ASSERT_EQ(logits.size(), expected.size());
        const bool same_weights = rounded || (*model)->hparams().moe.n_expert == 0;
        EXPECT_LT(nmse(logits, expected.data()), same_weights ? 1e-9 : 1e-7);
    }
}

TEST_P(Golden, SameBitsForThreadsChunksAndIsa) {
    TSR_NEED_SHARED("golden/models");
    for (const Type kv_type : {Type::F32, Type::F16, Type::Q8_0, Type::Q4_0}) {
        ThreadPool one(1);
        auto model = load_model(model_path(), one, "scalar");
        ASSERT_TRUE(model) << model.error().message;
        const std::vector<float> base = all_logits(*model, one, kGoldenTokens, 16, kv_type);
        for (const kernels::IsaInfo& isa : kernels::all_isas()) {
            if (!isa.usable) continue;
            for (const int n_threads : {1, 2, 3}) {
                ThreadPool pool(n_threads);
                auto again = load_model(model_path(), pool, std::string(isa.name).c_str());
                ASSERT_TRUE(again) << again.error().message;
                for (const int64_t chunk : {1, 3, 16})
                    EXPECT_TRUE(same_bits(base, all_logits(*again, pool, kGoldenTokens, chunk, kv_type)))
                        << isa.name << " threads " << n_threads << " chunk " << chunk;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Values("llama", "llama3", "nemo", "mixtral", "qwen2", "qwen3", "qwen3moe"),
                         [](const auto& test) { return std::string(test.param); });

/// Long enough for several KV chunks, split attention and partial pages, on a quantized model.
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

/// The committed file is our own encoder's work on the trained weights.
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
        type_info(to->type).quantize(x.data(), nullptr, bytes.data(), from.n_elements());
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), to->data.begin())) << from.name;
    }
}

/// What a smaller cache costs, with keys and values of their own types.
TEST(DefaultModel, QuantizedCacheIsClose) {
    const std::string path = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";
    std::vector<int32_t> tokens;
    for (int i = 0; i < 200; ++i) tokens.push_back(3 + (i * 7919) % 4000);
    ThreadPool pool(2);
    // Float products: int8 activations would answer any change of a key with a rounding step of their own.
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
