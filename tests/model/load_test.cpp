// Loading refuses models that it cannot run and says why: malformed files, then single damaged keys and
// tensors.
#include <map>

#include "common/exact_math.h"
#include "ggml-like/gguf/writer.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

std::string load_error(const std::string& path) {
    ThreadPool pool(1);
    auto model = load_model(path, pool);
    return model ? "" : model.error().message;
}

TEST(Load, BrokenFilesAreNamed) {
    const std::map<std::string, std::vector<std::string>> wanted = {
        {"hc0", {"llama.attention.head_count", "found u32 0"}},
        {"hkv0", {"llama.attention.head_count_kv", "found u32 0"}},
        {"hkv3", {"llama.attention.head_count_kv", "found 3"}},
        {"blkhuge", {"llama.block_count", "found u32 4000000000"}},
        {"ctx0", {"llama.context_length", "found u32 0"}},
        {"ropezero", {"llama.rope.dimension_count", "found u32 0"}},
        {"dupbig", {"llama.expert_used_count", "found u32 99"}},
        {"keys80000", {"llama.block_count"}},
        {"zerodim", {"token_embd.weight"}},
        {"alignstr", {"general.alignment"}},
        {"trunc", {"token_embd.weight"}},
    };
    for (const auto& [name, parts] : wanted) {
        const std::string message = load_error(model_file("bad/" + name));
        EXPECT_NE(message, "") << name << " was accepted";
        EXPECT_NE(message.find(name + ".gguf"), std::string::npos) << message;
        for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    EXPECT_EQ(load_error(model_file("bad/ok")), "");
}

/// Copies a model with changes: a key set, a tensor left out, or a tensor's declared shape transposed.
struct Change {
    std::string key = {};
    int64_t value = 0;
    std::string drop = {}, transpose = {};
};

void copy_changed(const std::string& from, const std::string& to, const Change& change) {
    auto file = gguf::File::open(from);
    ASSERT_TRUE(file) << file.error().message;
    gguf::Writer writer(to);
    for (const gguf::KeyValue& kv : file->keys()) writer.set_value(kv.key, kv.value);
    if (!change.key.empty()) writer.set_int(change.key, gguf::ValueType::I64, change.value);
    std::vector<const gguf::TensorInfo*> kept;
    for (const gguf::TensorInfo& tensor : file->tensors()) {
        if (tensor.name == change.drop) continue;
        std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.n_dims);
        if (tensor.name == change.transpose) std::swap(shape.front(), shape.back());
        writer.add_tensor(tensor.name, shape, static_cast<uint32_t>(tensor.type), tensor.data.size());
        kept.push_back(&tensor);
    }
    ASSERT_TRUE(writer.begin_data());
    for (const gguf::TensorInfo* tensor : kept) ASSERT_TRUE(writer.write(tensor->data));
    const auto done = writer.finish();
    ASSERT_TRUE(done) << done.error().message;
}

TEST(Load, ChangedFilesAreNamed) {
    const std::string from = model_file("llama");
    const TempFolder folder;
    const std::string to = folder.at("changed.gguf");
    const std::pair<Change, std::vector<std::string>> cases[] = {
        {{.drop = "blk.1.attn_k.weight"}, {"blk.1.attn_k.weight", "not in the file"}},
        {{.drop = "token_embd.weight"}, {"token_embd.weight"}},
        {{.transpose = "blk.0.ffn_up.weight"}, {"blk.0.ffn_up.weight", "[256, 128]", "[128, 256]"}},
        {{.key = "llama.embedding_length", .value = 256}, {"token_embd.weight", "256"}},
        {{.key = "llama.attention.key_length", .value = 24}, {"llama.attention.key_length", "24"}},
        {{.key = "llama.attention.key_length", .value = 0}, {"llama.attention.key_length", "found i64 0"}},
        {{.key = "llama.attention.head_count", .value = -4}, {"llama.attention.head_count", "-4"}},
        {{.key = "llama.feed_forward_length", .value = 64}, {"ffn_gate", "64"}},
        {{.key = "llama.rope.dimension_count", .value = 31}, {"llama.rope.dimension_count", "31"}},
        {{.key = "llama.expert_count", .value = 4}, {"expert_used_count"}},
    };
    for (const auto& [change, parts] : cases) {
        copy_changed(from, to, change);
        const std::string message = load_error(to);
        EXPECT_NE(message, "") << change.key << change.drop << change.transpose;
        for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    copy_changed(from, to, {});
    EXPECT_EQ(load_error(to), "");
}

TEST(Load, UnknownArchitectureListsThoseWeRun) {
    auto file = gguf::File::open(model_file("bad/ok"),
                                 {.overrides = {*gguf::parse_override("general.architecture=str:mamba")}});
    ASSERT_TRUE(file) << file.error().message;
    ThreadPool pool(1);
    auto model = Model::load(std::move(*file), pool, kernel_table(), {});
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find("'mamba'"), std::string::npos) << model.error().message;
    EXPECT_NE(model.error().message.find("llama"), std::string::npos) << model.error().message;
}

TEST(ExactMath, AgreesWithTheCLibrary) {
    for (double x = -80; x < 80; x += 0.37) EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 2e-15) << x;
    for (double x = 1e-6; x < 1e12; x *= 1.7)
        EXPECT_NEAR(exact_log(x), std::log(x), 4e-15 * (1 + std::abs(std::log(x))));
}

TEST(Rope, ScalingFollowsThePapers) {
    RopeHparams rope{.n_rot = 64, .base = 10000};
    const auto [plain, plain_magnitude] = rope_frequencies(rope, nullptr);
    EXPECT_EQ(plain_magnitude, 1.0f);
    for (size_t i = 0; i < plain.size(); ++i)
        EXPECT_NEAR(plain[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 64), 1e-15);
    rope.scaling = RopeScaling::Linear;
    rope.factor = 4;
    const std::vector<double> linear = rope_frequencies(rope, nullptr).freq;
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_DOUBLE_EQ(linear[i], plain[i] / 4);
    rope.scaling = RopeScaling::Yarn;
    rope.original_ctx = 4096;
    const auto [yarn, magnitude] = rope_frequencies(rope, nullptr);
    EXPECT_NEAR(magnitude, 1 + 0.1 * std::log(4.0), 1e-6);
    EXPECT_DOUBLE_EQ(yarn.front(), plain.front());    // fast pairs keep their frequency
    EXPECT_DOUBLE_EQ(yarn.back(), plain.back() / 4);  // slow pairs are interpolated
    for (size_t i = 0; i < plain.size(); ++i) {
        EXPECT_LE(yarn[i], plain[i]);
        EXPECT_GE(yarn[i], plain[i] / 4 * (1 - 1e-15));
    }
}

}  // namespace

}  // namespace tessera::test
