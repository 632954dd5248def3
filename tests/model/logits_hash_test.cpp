// The bits of the logits from one commit to the next: the SHA-256 of each test model's logits is the one in
// tests/data/logits.sha256, for every instruction set, number of threads, split into passes and batch. One
// row there is "MODEL WEIGHTS CACHE HASH": the matrices as in the file or as Q8_0, and the type of the KV
// cache.
//
// A change that is meant to keep all results (a refactoring, a faster kernel) leaves the file alone. It is
// written anew only with a change that is meant to alter results (an order of sums, an approximation), which
// docs/design/numerics.md describes in the same commit, or for a new test model:
//   TSR_WRITE_LOGITS_HASHES=1 build/release/tests/model/model_tests --file logits_hash_test.cpp
// The ways to compute the logits are compared with each other then, too.
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>

#include "common/digest.h"
#include "ggml-like/cpu/backend.h"
#include "tests/model/forward_run.h"
#include "tests/model/rewrite.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

/// A model with its weights as they are or quantized, and the length of its text, which crosses the border of
/// a KV page wherever the model allows that.
struct HashedModel {
    std::string name, path;
    bool as_q8_0 = false;
    int64_t n_tok = 72;

    std::string row() const { return name + (as_q8_0 ? " q8_0" : " file"); }
};

std::vector<HashedModel> hashed_models() {
    std::vector<HashedModel> all;
    std::vector<TestModel> models(std::begin(kTestModels), std::end(kTestModels));
    models.insert(models.end(), std::begin(kLayerModels), std::end(kLayerModels));
    models.push_back(kDeepModel);
    for (const TestModel& test : models)
        for (const bool as_q8_0 : {false, true}) {
            // The short factors of LongRoPE apply to contexts of at most 32 positions.
            const int64_t n_tok = std::string(test.name) == "longrope" ? 32 : 72;
            all.push_back({test.name, test.path(), as_q8_0, n_tok});
        }
    // Q8_0 in the file.
    all.push_back({"tessera-tiny", std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf"});
    return all;
}

void PrintTo(const HashedModel& model, std::ostream* out) { *out << model.row(); }

/// The hashes by "MODEL WEIGHTS CACHE".
using Hashes = std::map<std::string, std::string>;

std::string hashes_path() { return data_file("logits.sha256"); }

Hashes read_hashes() {
    Hashes hashes;
    std::ifstream in(hashes_path());
    for (std::string model, weights, cache, hash; in >> model >> weights >> cache >> hash;)
        hashes[model + " " + weights + " " + cache] = hash;
    return hashes;
}

std::string hash_of(const std::vector<float>& logits) {
    Sha256 sha;
    sha.add(std::as_bytes(std::span(logits)));
    return to_hex(sha.value());
}

std::vector<int32_t> text_of(const HashedModel& model) {
    std::vector<int32_t> tokens = kGoldenTokens;
    for (int32_t i = 0; std::ssize(tokens) < model.n_tok; ++i) tokens.push_back(3 + (i * 7919) % 509);
    return tokens;
}

/// On an emulated processor, which is slow, the best table (tests/quants/tables.h) computes with two of the
/// caches: the other tables are those of other processors, or tested without emulation.
bool is_emulated() { return std::getenv("TSR_TEST_BEST_TABLE") != nullptr; }

/// A way to compute the logits: in passes of some tokens, or with several sequences of the same text that
/// take turns in being ahead. Scalar and emulated code, which is many times slower, computes in one way.
struct Way {
    int n_threads;
    std::vector<int64_t> n_tok_of_pass;  // [n_seq]
};

std::vector<Way> ways(std::string_view isa) {
    if (isa == "scalar" || is_emulated()) return {{2, {200}}};
    return {{1, {1}}, {1, {3}}, {3, {7}}, {1, {200}}, {2, {1, 33}}};
}

std::vector<std::vector<float>> logits_of(const Model& model, const std::vector<int32_t>& tokens,
                                          Type kv_type, const Way& way) {
    const Hparams& h = model.hparams();
    const int64_t n_tok = std::ssize(tokens), n_seq = std::ssize(way.n_tok_of_pass);
    ThreadPool pool(way.n_threads);
    auto backend = CpuBackend::create(pool, model.kernels(),
                                      {.max_tok = n_seq * n_tok,
                                       .max_rows = n_seq * n_tok * std::max<int64_t>(1, h.moe.n_used),
                                       .n_head = h.largest(&LayerSpec::n_head),
                                       .n_group = h.largest(&LayerSpec::n_head),
                                       .k_dim = h.largest(&LayerSpec::k_dim),
                                       .v_dim = h.largest(&LayerSpec::v_dim),
                                       .n_expert = h.moe.n_expert});
    EXPECT_TRUE(backend);
    ForwardRun run(model, **backend, n_seq, n_tok, kv_type);
    std::vector<std::vector<float>> logits(static_cast<size_t>(n_seq));
    std::vector<int64_t> done(static_cast<size_t>(n_seq));
    for (bool is_done = false; !is_done;) {
        std::vector<std::pair<size_t, std::vector<int32_t>>> parts;
        for (size_t i = 0; i < done.size(); ++i) {
            const auto from = tokens.begin() + done[i];
            const int64_t n = std::min(way.n_tok_of_pass[i], n_tok - done[i]);
            if (n > 0) parts.push_back({i, std::vector<int32_t>(from, from + n)});
            done[i] += n;
        }
        is_done = parts.empty();
        if (!is_done) run.pass(parts, logits);
    }
    return logits;
}

class LogitsHash : public testing::TestWithParam<HashedModel> {
  protected:
    static bool writes() { return std::getenv("TSR_WRITE_LOGITS_HASHES") != nullptr; }
    static void SetUpTestSuite() {
        if (!writes()) hashes_ = read_hashes();
    }
    static void TearDownTestSuite() {
        if (!writes()) return;
        std::ofstream out(hashes_path());
        for (const auto& [row, hash] : hashes_) out << row << ' ' << hash << '\n';
    }

    /// Every way to compute these logits has the hash of the row.
    void check(const Model& model, const std::string& row, const std::string& isa, Type kv_type) {
        for (const Way& way : ways(isa))
            for (const std::vector<float>& logits : logits_of(model, text_of(GetParam()), kv_type, way)) {
                const std::string found = hash_of(logits);
                const std::string& expected =
                    writes() ? hashes_.try_emplace(row, found).first->second : hashes_[row];
                EXPECT_EQ(found, expected)
                    << row << " on " << isa << ", " << way.n_threads << " threads, passes of "
                    << testing::PrintToString(way.n_tok_of_pass) << " tokens";
            }
    }

    void check_file(const std::string& path) {
        for (const kernels::IsaInfo& isa : kernels::all_isas()) {
            if (!isa.usable) continue;
            ThreadPool pool(2);
            const std::string isa_name(isa.name);
            auto model = load_model(path, pool, isa_name.c_str());
            ASSERT_TRUE(model) << model.error().message;
            for (const Type kv_type : kKvTypes) {
                if (!fits_cache((*model)->hparams(), kv_type)) continue;
                if (is_emulated() && kv_type != Type::F16 && kv_type != Type::Q4_0) continue;
                const std::string cache(type_info(kv_type).name);
                check(**model, GetParam().row() + " " + cache, isa_name, kv_type);
            }
            if (is_emulated()) return;  // the best one comes first
        }
    }

  private:
    static Hashes hashes_;
};

Hashes LogitsHash::hashes_;

TEST_P(LogitsHash, IsThatOfEarlierCommits) {
    const TempFolder folder;
    std::string path = GetParam().path;
    if (GetParam().as_q8_0) {
        path = folder.at("q8_0.gguf");
        rewrite(GetParam().path, path, [](auto& tensors) { quantize_matrices(tensors, Type::Q8_0); });
    }
    check_file(path);
}

INSTANTIATE_TEST_SUITE_P(Models, LogitsHash, testing::ValuesIn(hashed_models()), [](const auto& test) {
    std::string name = test.param.row();
    for (const char other : {'-', ' '}) std::replace(name.begin(), name.end(), other, '_');
    return name;
});

}  // namespace

}  // namespace tessera::test
