// Importance matrices: sums against a plain computation for any number of threads, stacks of experts, and the
// file.
#include "src/measure/imatrix.h"

#include <cmath>
#include <limits>

#include "common/rng.h"
#include "src/convert/quantize_importance.h"
#include "tests/model/rewrite.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::measure {
namespace {

using convert::Imatrix;

class ImatrixOfModel : public testing::TestWithParam<test::TestModel> {};

Result<Imatrix> collect(const std::string& path, int n_threads,
                        const std::vector<std::vector<int32_t>>& chunks, bool pack = true) {
    ThreadPool pool(n_threads);
    TSR_TRY(const auto model, test::load_model(path, pool, "", pack));
    TSR_TRY(const auto session,
            engine::Session::create(model, pool,
                                    {.n_ctx = 64, .n_batch = 16, .max_out = 16, .all_floats = true}));
    ImatrixCollector collector(*session);
    for (const auto& chunk : chunks) TSR_TRY_VOID(collector.add_chunk(chunk));
    return std::move(collector.imatrix());
}

/// Rows of a tensor as floats.
std::vector<float> values_of(const gguf::File& file, std::string_view name) {
    const gguf::TensorInfo* tensor = file.find_tensor(name);
    if (!tensor) return {};
    std::vector<float> out(static_cast<size_t>(tensor->n_elements()));
    type_info(tensor->type).dequantize(tensor->data.data(), out.data(), tensor->n_elements());
    return out;
}

TEST(Imatrix, FirstInputIsTheNormOfTheEmbedding) {
    const std::string path = test::model_file("llama");
    const auto found = collect(path, 2, {test::kGoldenTokens, {7, 7, 9, 511}});
    ASSERT_TRUE(found) << found.error().message;
    const auto file = gguf::File::open(path);
    ASSERT_TRUE(file);
    const std::vector<float> table = values_of(*file, "token_embd.weight");
    const std::vector<float> norm = values_of(*file, "blk.0.attn_norm.weight");
    const double eps = *file->get_float("llama.attention.layer_norm_rms_epsilon");
    const size_t n = norm.size();
    std::vector<double> sums(n);
    std::vector<int32_t> tokens = test::kGoldenTokens;
    tokens.insert(tokens.end(), {7, 7, 9, 511});
    for (const int32_t token : tokens) {
        const float* x = table.data() + static_cast<size_t>(token) * n;
        double square = 0;
        for (size_t i = 0; i < n; ++i) square += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        const double scale = 1 / std::sqrt(square / static_cast<double>(n) + eps);
        for (size_t i = 0; i < n; ++i) {
            const double y = static_cast<double>(x[i]) * scale * static_cast<double>(norm[i]);
            sums[i] += y * y;
        }
    }
    for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
        const Imatrix::Entry& entry = found->entries.at(name);
        ASSERT_EQ(entry.sums.size(), n);
        EXPECT_EQ(entry.counts, std::vector<double>{20});
        for (size_t i = 0; i < n; ++i)
            EXPECT_NEAR(entry.sums[i], sums[i], 1e-5 * sums[i]) << name << " " << i;
    }
    EXPECT_EQ(found->n_chunks, 2);
}

TEST_P(ImatrixOfModel, EveryMatrixIsThereWhateverTheThreads) {
    const auto one = collect(GetParam().path(), 1, {test::kGoldenTokens});
    const auto two = collect(GetParam().path(), 2, {test::kGoldenTokens});
    ASSERT_TRUE(one) << one.error().message;
    ASSERT_TRUE(two) << two.error().message;
    ASSERT_EQ(one->entries.size(), two->entries.size());
    for (const auto& [name, entry] : one->entries) {
        EXPECT_EQ(entry.sums, two->entries.at(name).sums) << name;
        EXPECT_EQ(entry.counts, two->entries.at(name).counts) << name;
    }
    const auto file = gguf::File::open(GetParam().path());
    ASSERT_TRUE(file);
    for (const gguf::TensorInfo& tensor : file->tensors()) {
        // Biases of experts are stacks of vectors.
        if (tensor.n_dims < 2 || !tensor.name.starts_with("blk.") || tensor.name.ends_with(".bias")) continue;
        const auto at = one->entries.find(tensor.name);
        ASSERT_NE(at, one->entries.end()) << tensor.name;
        EXPECT_EQ(at->second.n_in, tensor.n_cols()) << tensor.name;
        EXPECT_EQ(at->second.n_matrices(), tensor.n_dims == 3 ? tensor.shape[0] : 1) << tensor.name;
        EXPECT_GT(at->second.counts[0] + at->second.counts.back(), 0) << tensor.name;
    }
}
INSTANTIATE_TEST_SUITE_P(All, ImatrixOfModel, testing::ValuesIn(test::kTestModels), test::name_of);

TEST(Imatrix, ExpertsShareTheRoutersInput) {
    const std::string path = test::model_file("qwen3moe");
    const auto found = collect(path, 2, {test::kGoldenTokens});
    ASSERT_TRUE(found) << found.error().message;
    const Imatrix::Entry& router = found->entries.at("blk.0.ffn_gate_inp.weight");
    for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight"}) {
        const Imatrix::Entry& experts = found->entries.at(name);
        double n_rows = 0;
        for (const double count : experts.counts) n_rows += count;
        EXPECT_EQ(n_rows, 2 * 16);  // two experts a token
        for (size_t i = 0; i < router.sums.size(); ++i) {
            double sum = 0;
            for (size_t e = 0; e < experts.counts.size(); ++e)
                sum += experts.sums[e * router.sums.size() + i];
            EXPECT_NEAR(sum, 2 * router.sums[i], 1e-9 * sum) << name;
        }
    }
}

/// Integer products do not read the floats of their input, which are still summed. The result of a layer's
/// last product does not change the first layer's inputs.
TEST(Imatrix, InputsOfIntegerProductsAreThoseOfFloats) {
    for (const std::string model : {"llama", "qwen3moe"}) {
        const std::string path = test::model_file(model);
        const test::TempFolder folder;
        int n_changed = 0;
        test::rewrite(path, folder.at("q8_0.gguf"), [&n_changed](auto& tensors) {
            for (test::TensorCopy& t : tensors) {
                if (t.name.find(".ffn_down") == std::string::npos) continue;
                t.set_values(t.values(), Type::Q8_0);
                ++n_changed;
            }
        });
        ASSERT_GT(n_changed, 0) << model;
        const auto floats = collect(path, 2, {test::kGoldenTokens});
        const auto integers = collect(folder.at("q8_0.gguf"), 2, {test::kGoldenTokens});
        ASSERT_TRUE(floats) << floats.error().message;
        ASSERT_TRUE(integers) << integers.error().message;
        for (const auto& [name, entry] : floats->entries) {
            if (!name.starts_with("blk.0.")) continue;
            EXPECT_EQ(entry.sums, integers->entries.at(name).sums) << name;
        }
    }
}

TEST(Imatrix, AnInputThatIsNoNumberNamesItsTensor) {
    const test::TempFolder folder;
    test::rewrite(test::model_file("llama"), folder.at("nan.gguf"), [](auto& tensors) {
        for (test::TensorCopy& t : tensors) {
            if (t.name != "blk.1.ffn_norm.weight") continue;
            std::vector<float> x = t.values();
            x[3] = std::numeric_limits<float>::quiet_NaN();
            t.set_values(x, t.type);
        }
    });
    const auto found = collect(folder.at("nan.gguf"), 1, {test::kGoldenTokens});
    ASSERT_FALSE(found.has_value());
    EXPECT_NE(found.error().message.find("blk.1.ffn_"), std::string::npos) << found.error().message;
    EXPECT_NE(found.error().message.find("input 3"), std::string::npos) << found.error().message;
}

Imatrix small(double factor, const std::string& dataset) {
    Imatrix out;
    out.entries["blk.0.ffn_up.weight"] = {3, {factor, 2 * factor, 0}, {4 * factor}};
    out.entries["blk.0.ffn_up_exps.weight"] = {2, {1, 2, factor, 4}, {1, 0}};
    out.datasets = {dataset};
    out.n_chunks = 5;
    out.chunk_size = 512;
    return out;
}

TEST(ImatrixFile, IsReadAsItWasWritten) {
    const test::TempFolder folder;
    const std::string path = folder.at("m.gguf");
    ASSERT_TRUE(small(0.5, "text").write(path));
    const auto file = gguf::File::open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(*file->get_string("general.type"), "imatrix");
    const auto again = Imatrix::read(*file);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->datasets, std::vector<std::string>{"text"});
    EXPECT_EQ(again->n_chunks, 5);
    EXPECT_EQ(again->chunk_size, 512);
    EXPECT_EQ(again->entries.at("blk.0.ffn_up_exps.weight").sums, (std::vector<double>{1, 2, 0.5, 4}));
    EXPECT_EQ(again->entries.at("blk.0.ffn_up_exps.weight").counts, (std::vector<double>{1, 0}));
    ASSERT_TRUE(again->write(folder.at("again.gguf")));
    EXPECT_EQ(test::read_file(path), test::read_file(folder.at("again.gguf")));
    // The means for the quantizer: an expert without tokens weights all inputs equally.
    const auto importance = convert::Importance::read(*file);
    ASSERT_TRUE(importance) << importance.error().message;
    const auto means = importance->find("blk.0.ffn_up_exps.weight");
    EXPECT_EQ(std::vector<float>(means.begin(), means.end()), (std::vector<float>{1, 2, 1, 1}));
    EXPECT_EQ(importance->find("blk.0.ffn_up.weight")[1], 0.5f);
}

TEST(ImatrixFile, FilesAddUp) {
    Imatrix sum = small(1, "a");
    ASSERT_TRUE(sum.add(small(2, "b")));
    ASSERT_TRUE(sum.add(small(2, "b")));
    EXPECT_EQ(sum.entries.at("blk.0.ffn_up.weight").sums, (std::vector<double>{5, 10, 0}));
    EXPECT_EQ(sum.entries.at("blk.0.ffn_up.weight").counts, std::vector<double>{20});
    EXPECT_EQ(sum.n_chunks, 15);
    EXPECT_EQ(sum.datasets, (std::vector<std::string>{"a", "b"}));
    Imatrix other = small(1, "c");
    other.entries["blk.0.ffn_up.weight"] = {2, {1, 2}, {4}};
    const auto refused = sum.add(other);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find("ffn_up.weight': expected 1 x 3"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(sum.n_chunks, 15);
}

TEST(ImatrixFile, OverflowIsRefusedByName) {
    const test::TempFolder folder;
    Imatrix big = small(1, "a");
    big.entries["blk.0.ffn_up.weight"].sums[1] = 1e300;
    const auto written = big.write(folder.at("m.gguf"));
    ASSERT_FALSE(written.has_value());
    EXPECT_NE(written.error().message.find("ffn_up.weight"), std::string::npos) << written.error().message;
}

TEST(ImatrixFile, EveryPrefixIsAnError) {
    const test::TempFolder folder;
    ASSERT_TRUE(small(0.5, "text").write(folder.at("m.gguf")));
    const std::string whole = test::read_file(folder.at("m.gguf"));
    const auto read = [](const std::string& bytes) {
        auto file = gguf::File::parse(std::as_bytes(std::span(bytes)), "m", {});
        return file ? Imatrix::read(*file) : Result<Imatrix>(tl::unexpected<Error>(file.error()));
    };
    ASSERT_TRUE(read(whole).has_value());
    for (size_t n = 0; n < whole.size(); ++n) {
        const auto cut = read(whole.substr(0, n));
        // Padding behind the last tensor may be missing.
        if (cut.has_value()) {
            EXPECT_GT(n + 32, whole.size()) << n;
        }
    }
}

}  // namespace
}  // namespace tessera::measure
