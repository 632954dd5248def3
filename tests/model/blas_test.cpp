// Logits with OpenBLAS against those of our own float products. Skips where the library is not installed; its
// absence from a build is tested in blas_absent_test.cpp.
#include <atomic>

#include "ggml-like/blas/openblas.h"
#include "ggml-like/blas/products.h"
#include "tests/model/rewrite.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

/// 130 tokens of a mixture give its experts more than kMinTok rows each.
constexpr int64_t kBlasTokens = 130;

struct BlasCase {
    const char* model;
    Type weights;
    bool pack;
};

/// All layouts and decoders: floats in rows and packed, blocks in rows (--precise), experts.
constexpr BlasCase kBlasCases[] = {{"llama", Type::F32, false}, {"llama", Type::F32, true},
                                   {"llama", Type::F16, false}, {"llama", Type::F16, true},
                                   {"llama", Type::BF16, true}, {"llama", Type::Q8_0, false},
                                   {"gemma3", Type::F16, true}, {"mixtral", Type::F16, true}};

void PrintTo(const BlasCase& test, std::ostream* out) {
    *out << test.model << " " << type_info(test.weights).name << (test.pack ? " packed" : "");
}

std::atomic<int> n_calls{0};

cpu::FloatProducts counted_products() {
    static const cpu::FloatProducts products = *blas::float_products();
    return {.min_tok = products.min_tok,
            .multiply = [](const Weight& w, const kernels::MatmulArgs& args, const cpu::VecTable& vec) {
                ++n_calls;
                products.multiply(w, args, vec);
            }};
}

class Blas : public testing::TestWithParam<BlasCase> {
  protected:
    void SetUp() override {
        const auto library = blas::open_blas();
        if (!library) GTEST_SKIP() << library.error().message;
        path_ = folder_.at("model.gguf");
        const BlasCase& test = GetParam();
        rewrite(model_file(test.model), path_,
                [&](auto& tensors) { quantize_matrices(tensors, test.weights); });
        for (int32_t i = 0; i < kBlasTokens; ++i) tokens_.push_back(3 + (i * 7919) % 509);
    }
    /// In passes of `chunk` tokens.
    std::vector<float> logits(bool with_blas, int64_t chunk) {
        ThreadPool pool(2);
        auto file = gguf::File::open(path_);
        auto bound = Model::bind(std::move(*file), kernel_table(), GetParam().pack);
        EXPECT_TRUE(bound);
        if (with_blas) (*bound)->compute_with(counted_products());
        auto model = Model::pack(std::move(*bound), pool, {});
        EXPECT_TRUE(model);
        return all_logits(*model, pool, tokens_, chunk);
    }

    const TempFolder folder_;
    std::string path_;
    std::vector<int32_t> tokens_;
};

/// The bound is that of the own path's distance from the reference in float64 (golden_test.cpp). For sums of
/// few terms OpenBLAS may give the very bits, so the calls are counted.
TEST_P(Blas, LogitsAreWithinFloatRounding) {
    const std::vector<float> own = logits(false, kBlasTokens);
    n_calls = 0;
    const std::vector<float> blas = logits(true, kBlasTokens);
    EXPECT_GT(n_calls, 0);
    ASSERT_EQ(own.size(), blas.size());
    EXPECT_LT(nmse(blas, own.data()), 1e-9);
}

TEST_P(Blas, SmallBatchesDoNotUseIt) {
    const std::vector<float> own = logits(false, kBlasTokens);
    n_calls = 0;
    EXPECT_TRUE(same_bits(own, logits(true, blas::kMinTok - 1)));
    EXPECT_TRUE(same_bits(own, logits(true, 1)));
    EXPECT_EQ(n_calls, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Blas, testing::ValuesIn(kBlasCases));

TEST(OpenBlas, IsNamed) {
    const auto library = blas::open_blas();
    if (!library) GTEST_SKIP() << library.error().message;
    EXPECT_EQ((*library)->version.substr(0, 2), "0.") << (*library)->version;
    EXPECT_FALSE((*library)->core.empty());
}

}  // namespace

}  // namespace tessera::test
