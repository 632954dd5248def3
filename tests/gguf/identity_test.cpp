// The digest of a model file: which changes alter it and which do not.
#include "ggml-like/gguf/identity.h"

#include <gtest/gtest.h>

#include "ggml-like/gguf/writer.h"
#include "tests/support/temp_folder.h"

namespace tessera::gguf {
namespace {

/// A file of one large matrix, one small one and a vector.
struct Model {
    int64_t width = 7;
    std::string name = "some name", matrix = "blk.0.w";
    std::vector<float> large = std::vector<float>(size_t{64} * 1024, 0.5f),
                       small = std::vector<float>(64, 0.25f), vector = std::vector<float>(64, 1.0f);

    uint64_t identity(IdentityBytes bytes, const std::vector<Override>& overrides = {}) const {
        const test::TempFolder folder;
        Writer writer(folder.at("model.gguf"));
        writer.set_string("general.architecture", "llama");
        writer.set_string("general.name", name);
        writer.set_u32("llama.width", static_cast<uint32_t>(width));
        const auto f32 = static_cast<uint32_t>(Type::F32);
        const int64_t large_shape[] = {64, 1024}, small_shape[] = {4, 16}, vector_shape[] = {64};
        writer.add_tensor(matrix, large_shape, f32, large.size() * 4);
        writer.add_tensor("blk.0.v", small_shape, f32, small.size() * 4);
        writer.add_tensor("blk.0.b", vector_shape, f32, vector.size() * 4);
        EXPECT_TRUE(writer.begin_data());
        for (const std::vector<float>* data : {&large, &small, &vector})
            EXPECT_TRUE(writer.write(std::as_bytes(std::span(*data))));
        EXPECT_TRUE(writer.finish());
        const auto file = File::open(folder.at("model.gguf"), {.overrides = overrides});
        EXPECT_TRUE(file) << file.error().message;
        Hash64 hash;
        add_identity(*file, "llama", bytes, hash);
        return hash.value();
    }
};

constexpr auto kVectors = IdentityBytes::Vectors, kSample = IdentityBytes::Sample;

TEST(GgufIdentity, TheSameForTheSameModel) {
    Model model;
    const uint64_t sample = model.identity(kSample), vectors = model.identity(kVectors);
    EXPECT_EQ(Model().identity(kSample), sample);
    model.name = "another name";  // not a key of the architecture
    EXPECT_EQ(model.identity(kSample), sample);
    EXPECT_EQ(model.identity(kVectors), vectors);
}

TEST(GgufIdentity, KeysNamesAndOverridesCount) {
    for (const IdentityBytes bytes : {kVectors, kSample}) {
        const uint64_t before = Model().identity(bytes);
        Model wider, renamed;
        wider.width = 8;
        renamed.matrix = "blk.1.w";
        EXPECT_NE(wider.identity(bytes), before);
        EXPECT_NE(renamed.identity(bytes), before);
        EXPECT_NE(Model().identity(bytes, {*parse_override("llama.width=int:9")}), before);
    }
}

TEST(GgufIdentity, WhichBytesCount) {
    const uint64_t sample = Model().identity(kSample), vectors = Model().identity(kVectors);
    // Of the large matrix, at least the first and the last bytes.
    for (const size_t at : {size_t{0}, size_t{64} * 1024 - 1}) {
        Model model;
        model.large[at] = 2;
        EXPECT_NE(model.identity(kSample), sample) << at;
        EXPECT_EQ(model.identity(kVectors), vectors) << at;
    }
    Model unseen;
    unseen.large[3000] = 2;  // between the first two pieces
    EXPECT_EQ(unseen.identity(kSample), sample);
    for (const size_t at : {size_t{0}, size_t{31}, size_t{63}}) {
        Model model, other;
        model.small[at] = 2;
        other.vector[at] = 2;
        EXPECT_NE(model.identity(kSample), sample) << at;
        EXPECT_EQ(model.identity(kVectors), vectors) << at;
        EXPECT_NE(other.identity(kSample), sample) << at;
        EXPECT_NE(other.identity(kVectors), vectors) << at;
    }
}

}  // namespace
}  // namespace tessera::gguf
