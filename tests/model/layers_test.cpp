// Models whose layers differ: per-layer keys and what is wrong with them, leading dense layers, norms behind
// experts, and texts of several KV chunks. Their logits of a short text are compared in golden_test.cpp.
#include "src/arch/rows.h"
#include "tests/model/forward_run.h"
#include "tests/model/rewrite.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

using gguf::ValueType;

/// A key of mixed-heads with another value, and parts of the error that follows.
struct WrongKey {
    const char* suffix;
    std::function<void(gguf::Writer&, const std::string& key)> set;
    std::vector<std::string> parts;
};

auto array(std::vector<int32_t> values) {
    return [values](gguf::Writer& writer, const std::string& key) {
        writer.set_array(key, ValueType::I32, std::as_bytes(std::span(values)));
    };
}

auto integer(int64_t value) {
    return
        [value](gguf::Writer& writer, const std::string& key) { writer.set_int(key, ValueType::U32, value); };
}

/// The message of the error that loading the model with this key returns; empty if it loads.
std::string error_with(const std::string& model, const WrongKey& wrong) {
    const TempFolder folder;
    const std::string path = folder.at("wrong.gguf");
    auto file = gguf::File::open(model);
    EXPECT_TRUE(file);
    {
        gguf::Writer writer(path);
        for (const gguf::KeyValue& kv : file->keys()) writer.set_value(kv.key, kv.value);
        wrong.set(writer, std::string(*file->get_string("general.architecture")) + "." + wrong.suffix);
        for (const gguf::TensorInfo& t : file->tensors())
            writer.add_tensor(t.name, {t.shape, static_cast<size_t>(t.n_dims)}, static_cast<uint32_t>(t.type),
                              t.data.size());
        EXPECT_TRUE(writer.begin_data());
        for (const gguf::TensorInfo& t : file->tensors()) EXPECT_TRUE(writer.write(t.data));
        EXPECT_TRUE(writer.finish());
    }
    ThreadPool pool(1);
    const auto loaded = load_model(path, pool);
    return loaded ? "" : loaded.error().message;
}

TEST(PerLayerKeys, AreReadIntoEachLayer) {
    ThreadPool pool(1);
    const auto model = load_model(model_file("mixed-heads"), pool);
    ASSERT_TRUE(model) << model.error().message;
    const std::vector<LayerSpec>& layers = (*model)->hparams().layers;
    ASSERT_EQ(layers.size(), 4u);
    EXPECT_EQ(layers[2].n_head, 6);
    EXPECT_EQ(layers[2].n_head_kv, 1);
    EXPECT_EQ(layers[2].k_dim, 96);
    EXPECT_EQ(layers[2].v_dim, 32);
    EXPECT_EQ(layers[1].n_ff, 128);
    EXPECT_EQ(layers[1].ffn, FfnKind::Dense);
    EXPECT_EQ(layers[3].n_ff, 96);  // of an expert
    EXPECT_EQ(layers[3].ffn, FfnKind::Moe);
    EXPECT_TRUE(std::holds_alternative<DenseFfn>((*model)->weights().layers[1].ffn));
    EXPECT_TRUE(std::holds_alternative<MoeFfn>((*model)->weights().layers[2].ffn));
}

TEST(PerLayerKeys, WindowedLayersHaveTheirOwnHeadsAndRope) {
    ThreadPool pool(1);
    const auto model = load_model(model_file("local-heads"), pool);
    ASSERT_TRUE(model) << model.error().message;
    const Hparams& h = (*model)->hparams();
    EXPECT_EQ(h.layers[0].k_dim, 32);
    EXPECT_EQ(h.layers[2].k_dim, 64);
    EXPECT_EQ(h.layers[2].n_head_kv, 1);
    EXPECT_EQ(h.rope.n_rot, 64);
    EXPECT_EQ(h.local_rope.n_rot, 32);
    // Full layers of half the bytes share a page in pairs.
    const auto plan = engine::plan_completion_cache(**model, {.n_ctx = 1024});
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->layout.n_full_groups, 1);
    EXPECT_EQ(plan->layout.n_layer_groups, 4);
}

TEST(PerLayerKeys, WrongOnesAreNamed) {
    const auto floats = [](gguf::Writer& writer, const std::string& key) {
        const float values[] = {4, 2, 6, 3};
        writer.set_array(key, ValueType::F32, std::as_bytes(std::span(values)));
    };
    const auto words = [](gguf::Writer& writer, const std::string& key) {
        const std::string values[] = {"4", "2", "6", "3"};
        writer.set_strings(key, values);
    };
    const WrongKey cases[] = {
        {"attention.head_count", array({4, 2, 6}), {"an integer, or 4 of them", "found 3 elements"}},
        {"attention.head_count", array({4, 2, 6, 3, 3}), {"an integer, or 4 of them", "found 5 elements"}},
        {"attention.head_count", array({}), {"an integer, or 4 of them", "found 0 elements"}},
        {"attention.head_count", array({4, 2, 0, 3}), {"from 1 to 512", "found 0 as element 2"}},
        {"attention.head_count", array({4, 2, 6, 1000}), {"from 1 to 512", "found 1000 as element 3"}},
        {"attention.head_count", floats, {"expected integers", "found 4"}},
        {"attention.head_count", words, {"expected integers", "found"}},
        {"attention.head_count_kv", array({2, -2, 1, 3}), {"from 1 to 512", "found -2 as element 1"}},
        {"attention.head_count_kv",
         array({2, 2, 4, 3}),
         {"a divisor of head_count 6 for layer 2", "found 4"}},
        {"attention.head_count_kv", array({2, 2}), {"an integer, or 4 of them", "found 2 elements"}},
        {"attention.key_length", array({32, 64, 96, 40}), {"a multiple of 16", "layer 3", "found 40"}},
        {"attention.key_length", array({32, 64, 592, 64}), {"from 1 to 576", "found 592 as element 2"}},
        {"attention.value_length", array({0, 64, 32, 96}), {"from 1 to 576", "found 0 as element 0"}},
        {"attention.value_length", integer(1 << 20), {"576", "1048576"}},
        {"feed_forward_length", array({256, 0, 192, 192}), {"for layer 1, which has no experts", "found 0"}},
        {"feed_forward_length", array({256, -1, 192, 192}), {"found -1 as element 1"}},
        {"expert_feed_forward_length", array({0, 0, 64}), {"an integer, or 4 of them", "found 3 elements"}},
        {"expert_feed_forward_length", array({0, 0, 0, 0}), {"leave no layer with experts"}},
        {"leading_dense_block_count", integer(4), {"leave no layer with experts", "found 4"}},
        {"leading_dense_block_count", integer(5), {"0 to 4", "found u32 5"}},
        {"rope.dimension_count", integer(64), {"2 to 32", "found u32 64"}},
    };
    for (const WrongKey& wrong : cases) {
        const std::string message = error_with(model_file("mixed-heads"), wrong);
        EXPECT_NE(message.find("key 'llama."), std::string::npos) << wrong.suffix << ": " << message;
        for (const std::string& part : wrong.parts)
            EXPECT_NE(message.find(part), std::string::npos)
                << wrong.suffix << ": '" << part << "' is not in: " << message;
    }
}

TEST(PerLayerKeys, TensorsOfTheOtherKindOfLayerAreNamed) {
    const auto error = [](const WrongKey& wrong) { return error_with(model_file("mixed-heads"), wrong); };
    const auto has = [](const std::string& message, const char* part) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    const std::string dense =
        error({"expert_feed_forward_length", array({0, 64, 64, 96}), {}});  // but layer 1 is a leading one
    EXPECT_EQ(dense, "");
    const std::string moe = error({"leading_dense_block_count", integer(3), {}});
    has(moe, "tensor 'blk.2.ffn_gate.weight': expected by architecture 'llama', not in the file");
    const std::string none = error({"expert_count", integer(0), {}});
    has(none, "tensor 'blk.2.ffn_gate.weight': expected");
    // An expert's tensor in a dense layer.
    const TempFolder folder;
    const std::string path = folder.at("renamed.gguf");
    rewrite(model_file("mixed-heads"), path, [](std::vector<TensorCopy>& tensors) {
        tensors.push_back(tensors.back());
        tensors.back().name = "blk.0.ffn_gate_inp.weight";
    });
    ThreadPool pool(1);
    const auto loaded = load_model(path, pool);
    ASSERT_FALSE(loaded);
    has(loaded.error().message, "tensor 'blk.0.ffn_gate_inp.weight': expected none, as this layer is dense");
}

class LayerTexts : public testing::TestWithParam<TestModel> {};

/// Several KV chunks, passes split over chunks of keys, and quantized weights.
TEST_P(LayerTexts, SameBitsAcrossKvChunks) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 540; ++i) tokens.push_back(3 + (i * 7919) % 500);
    const TempFolder folder;
    const std::string path = folder.at("q8.gguf");
    rewrite(GetParam().path(), path,
            [](std::vector<TensorCopy>& tensors) { quantize_matrices(tensors, Type::Q8_0); });
    ThreadPool two(2), three(3);
    for (const bool pack : {true, false}) {
        const auto model = load_model(path, two, "", pack);
        ASSERT_TRUE(model) << model.error().message;
        for (const Type kv_type : {Type::F16, Type::Q8_0}) {
            const std::vector<float> base = all_logits(*model, two, tokens, 540, kv_type);
            for (const int64_t chunk : {4, 129})
                EXPECT_TRUE(same_bits(base, all_logits(*model, three, tokens, chunk, kv_type)))
                    << "pack " << pack << " chunk " << chunk;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(LayerModels, LayerTexts, testing::ValuesIn(kLayerModels), name_of);

constexpr std::span<const LayerTensor> kPostNormExpertsLayer[] = {
    arch::kPreNormRows, arch::kAttentionRows, arch::kPostNormRows,
    arch::kDenseRows,   arch::kExpertRows,    arch::kSharedExpertRows};

/// Norms behind experts and a shared expert, which no supported architecture has.
const ArchSpec kPostNormExperts = {
    .name = "post-norm-experts",
    .rope = RopeKind::Neox,
    .model_tensors = arch::kModelRows,
    .layer_tensors = kPostNormExpertsLayer,
    .fused_tensors = arch::kFusedTensors,
};

TEST(PostNormExperts, LogitsMatchTheReference) {
    const TestModel test{"post-norm-experts", true, "post-norm-experts", 0, true};
    const std::vector<float> expected = logits_of_file(test.logits_path());
    ThreadPool two(2), three(3);
    const auto model = load_model(test.path(), two, "", true, &kPostNormExperts);
    ASSERT_TRUE(model) << model.error().message;
    const std::vector<float> logits = all_logits(*model, two, kGoldenTokens, 16);
    ASSERT_EQ(logits.size(), expected.size());
    EXPECT_LT(nmse(logits, expected.data()), 1e-9);
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        const auto again =
            load_model(test.path(), three, std::string(isa.name).c_str(), true, &kPostNormExperts);
        ASSERT_TRUE(again) << again.error().message;
        for (const int64_t chunk : {1, 3, 16})
            EXPECT_TRUE(same_bits(logits, all_logits(*again, three, kGoldenTokens, chunk)))
                << isa.name << " chunk " << chunk;
    }
    // Without the override the file's own name counts.
    const auto unknown = load_model(test.path(), two);
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message.find("architecture 'post-norm-experts'"), std::string::npos);
}

class ForwardParts : public testing::TestWithParam<TestModel> {};

/// The parts of the pass one by one, with the layers in ranges. Each range gets activations of its own, so
/// that nothing but the residual stream goes from one to the next.
TEST_P(ForwardParts, SameBitsAsTheWholePass) {
    const TestModel& test = GetParam();
    ThreadPool pool(2);
    auto model = load_model(test.path(), pool);
    ASSERT_TRUE(model) << model.error().message;
    auto backend = engine::create_backend(**model, pool, 66);
    ASSERT_TRUE(backend);
    const int64_t n_ctx = std::max<int64_t>(16, test.n_ctx);
    for (const size_t step : {1, 2, 5}) {
        auto other = Activations::create(**model, n_ctx, n_ctx);
        ASSERT_TRUE(other);
        ForwardRun run(**model, **backend, 1, n_ctx);
        run.forward_pass = [&](Backend& be, const Model& m, const kv::Layout& kv, const Batch& b,
                               Activations& a) {
            const size_t n_layer = m.weights().layers.size();
            const int64_t n = std::ssize(b.tokens) * m.hparams().n_embd;
            Activations *from = &a, *to = &*other;
            embed_tokens(be, m, b, *from);
            for (size_t first = 0; first < n_layer; first += step) {
                std::copy_n(from->residual.f32, n, to->residual.f32);
                run_layers(be, m, kv, b, first, std::min(first + step, n_layer), *to);
                std::swap(from, to);
            }
            if (from != &a) std::copy_n(from->residual.f32, n, a.residual.f32);
            head(be, m, b, a);
        };
        std::vector<std::vector<float>> logits(1);
        run.pass({{0, {kGoldenTokens.begin(), kGoldenTokens.begin() + 9}}}, logits);
        run.pass({{0, {kGoldenTokens.begin() + 9, kGoldenTokens.end()}}}, logits);
        EXPECT_TRUE(same_bits(logits[0], all_logits(*model, pool, kGoldenTokens, 16, Type::F32, test.n_ctx)))
            << step << " layers at a time";
    }
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardParts, testing::ValuesIn(kTestModels), name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, ForwardParts, testing::ValuesIn(kLayerModels), name_of);

}  // namespace

}  // namespace tessera::test
