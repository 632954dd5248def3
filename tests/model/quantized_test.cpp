// Every test model with its matrices as Q8_0 and Q4_0: the integer path against floats of the same weights,
// both against the reference, and the same bits for any way to compute them, packed at load or in the file.
#include <cmath>
#include <cstdio>
#include <functional>

#include "src/model/packed_file.h"
#include "tests/model/rewrite.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

/// Compares the rows of logits from int8 activations with those from floats. If the router logits of two
/// experts are almost equal, a token may take the other expert, and then its whole row differs.
void expect_close_rows(const std::vector<float>& ints, const std::vector<float>& floats, const Hparams& h) {
    const auto n = static_cast<size_t>(h.n_vocab);
    std::vector<float> close, close_floats;
    int n_rerouted = 0;
    for (size_t at = 0; at < ints.size(); at += n) {
        std::vector<float> row(ints.begin() + static_cast<int64_t>(at),
                               ints.begin() + static_cast<int64_t>(at + n));
        std::vector<float> want(floats.begin() + static_cast<int64_t>(at),
                                floats.begin() + static_cast<int64_t>(at + n));
        if (h.moe.n_expert > 0 && nmse(row, want.data()) > 1e-2) {
            ++n_rerouted;
            continue;
        }
        close.insert(close.end(), row.begin(), row.end());
        close_floats.insert(close_floats.end(), want.begin(), want.end());
    }
    EXPECT_LE(n_rerouted, 2);
    EXPECT_LT(nmse(close, close_floats.data()), 2e-3);
    EXPECT_GT(nmse(close, close_floats.data()), 0);
}

/// The top token is the same wherever the logits of the top two differ by more than 10 % of the row's
/// deviation.
void expect_same_first(const std::vector<float>& logits, const std::vector<float>& reference, size_t n) {
    for (size_t at = 0; at < logits.size(); at += n) {
        const auto first = logits.begin() + static_cast<int64_t>(at);
        const auto top =
            static_cast<size_t>(std::max_element(first, first + static_cast<int64_t>(n)) - first);
        std::vector<float> row(reference.begin() + static_cast<int64_t>(at),
                               reference.begin() + static_cast<int64_t>(at + n));
        const float found = row[top];
        std::sort(row.begin(), row.end(), std::greater<>());
        double sum = 0, squares = 0;
        for (const float v : row) {
            sum += static_cast<double>(v);
            squares += static_cast<double>(v) * static_cast<double>(v);
        }
        const double mean = sum / static_cast<double>(n);
        const double deviation = std::sqrt(squares / static_cast<double>(n) - mean * mean);
        const double margin = static_cast<double>(row[0] - row[1]) / deviation;
        if (margin > 0.1) {
            EXPECT_EQ(found, row[0]) << "row " << at / n << ", margin " << margin;
        }
    }
}

class Quantized : public testing::TestWithParam<TestModel> {};

TEST_P(Quantized, IntegerPathIsCloseAndBitIdentical) {
    const TestModel& test = GetParam();
    const std::vector<float> expected = logits_of_file(test.logits_path());
    for (const Type type : {Type::Q8_0, Type::Q4_0}) {
        const TempFolder folder;
        const std::string path = folder.at("quantized.gguf"), packed = folder.at("packed.gguf");
        rewrite(test.path(), path, [type](auto& tensors) { quantize_matrices(tensors, type); });
        ThreadPool pool(2);
        auto floats = load_model(path, pool, "", false), integers = load_model(path, pool);
        ASSERT_TRUE(floats && integers);
        const std::vector<float> a = all_logits(*floats, pool, kGoldenTokens, 16, Type::F32, test.n_ctx),
                                 b = all_logits(*integers, pool, kGoldenTokens, 16, Type::F32, test.n_ctx);
        ASSERT_EQ(a.size(), expected.size());
        std::printf("%s %s: int8 against floats %.1e; against the reference: floats %.1e, int8 %.1e\n",
                    test.name, std::string(type_info(type).name).c_str(), nmse(b, a.data()),
                    nmse(a, expected.data()), nmse(b, expected.data()));
        expect_close_rows(b, a, (*integers)->hparams());
        if (type == Type::Q8_0) expect_same_first(b, a, static_cast<size_t>((*integers)->hparams().n_vocab));

        auto file = gguf::File::open(path);
        ASSERT_TRUE(file);
        const auto done = pack_file(std::move(*file), packed, {pool, kernel_table(), {}});
        ASSERT_TRUE(done) << done.error().message;
        for (const std::string& from : {path, packed})
            for (const kernels::IsaInfo& isa : kernels::all_isas()) {
                if (!isa.usable) continue;
                for (const int n_threads : {1, 3}) {
                    ThreadPool threads(n_threads);
                    auto again = load_model(from, threads, std::string(isa.name).c_str());
                    ASSERT_TRUE(again) << again.error().message;
                    for (const int64_t chunk : {1, 5, 16})
                        EXPECT_TRUE(same_bits(
                            b, all_logits(*again, threads, kGoldenTokens, chunk, Type::F32, test.n_ctx)))
                            << isa.name << " threads " << n_threads << " chunk " << chunk;
                }
            }
    }
}

/// gpt-oss is published with experts in MXFP4: the float path computes with exactly those values, and the
/// integer path is close.
TEST(Mxfp4Experts, AreTheirValues) {
    const TempFolder folder;
    const auto is_experts = [](const TensorCopy& t) { return t.shape.size() == 3; };
    const std::string mxfp4 = folder.at("mxfp4.gguf"), values = folder.at("values.gguf");
    rewrite(model_file("gptoss"), mxfp4, [&](auto& tensors) {
        for (TensorCopy& t : tensors)
            if (is_experts(t)) t.set_values(t.values(), Type::MXFP4);
    });
    rewrite(mxfp4, values, [&](auto& tensors) {
        for (TensorCopy& t : tensors)
            if (is_experts(t)) t.set_values(t.values(), Type::F32);
    });
    ThreadPool pool(2);
    auto integers = load_model(mxfp4, pool), floats = load_model(mxfp4, pool, "", false),
         exact = load_model(values, pool);
    ASSERT_TRUE(integers && floats && exact);
    EXPECT_GT((*integers)->packed_bytes(), 0u);
    const std::vector<float> a = all_logits(*floats, pool, kGoldenTokens, 16),
                             b = all_logits(*integers, pool, kGoldenTokens, 16);
    EXPECT_TRUE(same_bits(a, all_logits(*exact, pool, kGoldenTokens, 16)));
    expect_close_rows(b, a, (*integers)->hparams());
}

/// Concatenates the rows of `from` into one tensor of that name, expert by expert.
void fuse(std::vector<TensorCopy>& tensors, const std::string& name, const std::vector<std::string>& from) {
    const auto find = [&](const std::string& wanted) {
        return std::find_if(tensors.begin(), tensors.end(),
                            [&](const TensorCopy& t) { return t.name == wanted; });
    };
    TensorCopy fused = *find(from[0]);
    fused.name = name;
    const bool is_stack = fused.shape.size() == 3;
    const size_t n = is_stack ? static_cast<size_t>(fused.shape[0]) : 1;
    int64_t& rows = fused.shape[is_stack ? 1 : 0];
    rows = 0;
    fused.data.clear();
    for (size_t e = 0; e < n; ++e)
        for (const std::string& part : from) {
            const TensorCopy& t = *find(part);
            const size_t bytes = t.data.size() / n;
            const auto first = t.data.begin() + static_cast<int64_t>(e * bytes);
            fused.data.insert(fused.data.end(), first, first + static_cast<int64_t>(bytes));
            if (e == 0) rows += t.shape[is_stack ? 1 : 0];
        }
    for (const std::string& part : from) tensors.erase(find(part));
    tensors.push_back(fused);
}

/// Storing q, k and v, or gate and up, as one tensor changes no bit: in floats, packed at load, and packed in
/// the file.
TEST(FusedTensors, ChangeNothing) {
    for (const char* name : {"qwen2", "mixtral"})
        for (const Type type : {Type::F16, Type::Q8_0}) {
            const TempFolder folder;
            const std::string plain = folder.at("plain.gguf"), fused = folder.at("fused.gguf"),
                              packed = folder.at("packed.gguf");
            rewrite(model_file(name), plain, [&](auto& tensors) { quantize_matrices(tensors, type); });
            rewrite(plain, fused, [&](auto& tensors) {
                for (const std::string b : {"blk.0.", "blk.1."}) {
                    fuse(tensors, b + "attn_qkv.weight",
                         {b + "attn_q.weight", b + "attn_k.weight", b + "attn_v.weight"});
                    if (std::string(name) == "qwen2")
                        fuse(tensors, b + "attn_qkv.bias",
                             {b + "attn_q.bias", b + "attn_k.bias", b + "attn_v.bias"});
                    else
                        fuse(tensors, b + "ffn_gate_up_exps.weight",
                             {b + "ffn_gate_exps.weight", b + "ffn_up_exps.weight"});
                }
            });
            ThreadPool pool(2);
            auto apart = load_model(plain, pool), together = load_model(fused, pool);
            ASSERT_TRUE(apart) << apart.error().message;
            ASSERT_TRUE(together) << together.error().message;
            EXPECT_EQ((*apart)->packed_bytes(), (*together)->packed_bytes());
            EXPECT_EQ((*apart)->macs_per_token(), (*together)->macs_per_token());
            EXPECT_EQ((*apart)->bytes_per_token(), (*together)->bytes_per_token());
            const std::vector<float> base = all_logits(*apart, pool, kGoldenTokens, 16);
            EXPECT_TRUE(same_bits(base, all_logits(*together, pool, kGoldenTokens, 16))) << name;
            if (type == Type::F16) continue;
            const auto done =
                pack_file(std::move(*gguf::File::open(fused)), packed, {pool, kernel_table(), {}});
            ASSERT_TRUE(done) << done.error().message;
            auto mapped = load_model(packed, pool);
            ASSERT_TRUE(mapped) << mapped.error().message;
            EXPECT_EQ((*mapped)->packed_bytes(), 0u);
            EXPECT_TRUE(same_bits(base, all_logits(*mapped, pool, kGoldenTokens, 16))) << name;
        }
}

INSTANTIATE_TEST_SUITE_P(Models, Quantized, testing::ValuesIn(kTestModels), name_of);

}  // namespace

}  // namespace tessera::test
