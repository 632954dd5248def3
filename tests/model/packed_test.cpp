// The packed container end to end: for every packed type, dense and with experts, a mapped packed file gives
// the bits of the stock file, and unpacking restores it byte for byte.
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <optional>

#include "common/f16.h"
#include "common/rng.h"
#include "ggml-like/gguf/packed.h"
#include "ggml-like/gguf/writer.h"
#include "src/model/pack.h"
#include "src/model/packed_file.h"
#include "tests/model/support.h"
#include "tests/quants/packed_types.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

template <class Bits>
void put_float(Bits bits, uint8_t* block) {
    std::memcpy(block, &bits, sizeof bits);
}

float random_weight(std::mt19937& rng) { return static_cast<float>(rng() % 4001) * 1e-4f - 0.2f; }

/// The float types, with weights of either sign, none larger than 0.2.
const std::vector<PackedType>& float_types() {
    static const std::vector<PackedType> types = {
        {Type::F32, "f32", 0,
         [](Fill, std::mt19937& rng, uint8_t* block) { put_float(random_weight(rng), block); }, nullptr},
        {Type::F16, "f16", 0,
         [](Fill, std::mt19937& rng, uint8_t* block) { put_float(f32_to_f16(random_weight(rng)), block); },
         nullptr},
        {Type::BF16, "bf16", 0,
         [](Fill, std::mt19937& rng, uint8_t* block) {
             const auto bits = std::bit_cast<uint32_t>(random_weight(rng));
             put_float(static_cast<uint16_t>(bits >> 16), block);
         },
         nullptr}};
    return types;
}

std::vector<PackedType> all_packed_types() {
    std::vector<PackedType> all = packed_types();
    all.insert(all.end(), float_types().begin(), float_types().end());
    return all;
}

constexpr int64_t kEmbd = 256, kKv = 128, kFf = 512, kVocab = 509, kExperts = 3;
const std::vector<int32_t> kTokens = {1, 5, 300, 17, 42, 508, 0, 77, 3};

/// A llama model of two layers whose vocabulary and router are not multiples of 8 rows. Its matrices are
/// random blocks, one of them F16.
struct TinyModel {
    const PackedType& type;
    bool is_moe = false, is_tied = false;
    std::optional<uint32_t> alignment = {};

    void write(const std::string& path) const;
    /// The parts of a split, each with a half of the tensors; returns the first one's path.
    std::string write_split(const std::string& prefix) const;

  private:
    struct Tensor {
        std::string name;
        std::vector<int64_t> shape;
        Type type;
        std::vector<uint8_t> data;
    };
    std::vector<Tensor> tensors() const;
    void add_vector(std::vector<Tensor>& all, const std::string& name) const;
    void add_matrix(std::vector<Tensor>& all, const std::string& name, std::vector<int64_t> shape) const;
    void set_keys(gguf::Writer& writer) const;
    static void finish(gguf::Writer& writer, std::span<const Tensor> tensors);
};

void TinyModel::add_vector(std::vector<Tensor>& all, const std::string& name) const {
    const std::vector<float> ones(kEmbd, 1.0f);
    const auto* bytes = reinterpret_cast<const uint8_t*>(ones.data());
    all.push_back({name, {kEmbd}, Type::F32, {bytes, bytes + 4 * kEmbd}});
}

void TinyModel::add_matrix(std::vector<Tensor>& all, const std::string& name,
                           std::vector<int64_t> shape) const {
    int64_t n_rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); d++) n_rows *= shape[d];
    const auto seed = static_cast<uint32_t>(all.size() + 1);
    all.push_back({name, shape, type.type, make_rows(type, n_rows, shape.back(), Fill::Random, seed)});
}

std::vector<TinyModel::Tensor> TinyModel::tensors() const {
    std::vector<Tensor> all;
    add_matrix(all, "token_embd.weight", {kVocab, kEmbd});
    add_vector(all, "output_norm.weight");
    if (!is_tied) add_matrix(all, "output.weight", {kVocab, kEmbd});
    for (const char* layer : {"blk.0.", "blk.1."}) {
        const std::string blk = layer;
        add_vector(all, blk + "attn_norm.weight");
        add_matrix(all, blk + "attn_q.weight", {kEmbd, kEmbd});
        add_matrix(all, blk + "attn_k.weight", {kKv, kEmbd});
        all.push_back({blk + "attn_v.weight",
                       {kKv, kEmbd},
                       Type::F16,
                       std::vector<uint8_t>(static_cast<size_t>(2 * kKv * kEmbd), 0x18)});
        add_matrix(all, blk + "attn_output.weight", {kEmbd, kEmbd});
        add_vector(all, blk + "ffn_norm.weight");
        if (is_moe) {
            add_matrix(all, blk + "ffn_gate_inp.weight", {kExperts, kEmbd});
            add_matrix(all, blk + "ffn_gate_exps.weight", {kExperts, kFf, kEmbd});
            add_matrix(all, blk + "ffn_up_exps.weight", {kExperts, kFf, kEmbd});
            add_matrix(all, blk + "ffn_down_exps.weight", {kExperts, kEmbd, kFf});
        } else {
            add_matrix(all, blk + "ffn_gate.weight", {kFf, kEmbd});
            add_matrix(all, blk + "ffn_up.weight", {kFf, kEmbd});
            add_matrix(all, blk + "ffn_down.weight", {kEmbd, kFf});
        }
    }
    return all;
}

void TinyModel::set_keys(gguf::Writer& writer) const {
    writer.set_string("general.architecture", "llama");
    if (alignment) writer.set_u32("general.alignment", *alignment);
    writer.set_u32("llama.block_count", 2);
    writer.set_u32("llama.context_length", 64);
    writer.set_u32("llama.embedding_length", kEmbd);
    writer.set_u32("llama.feed_forward_length", kFf);
    writer.set_u32("llama.attention.head_count", 4);
    writer.set_u32("llama.attention.head_count_kv", 2);
    if (is_moe) writer.set_u32("llama.expert_count", kExperts);
    if (is_moe) writer.set_u32("llama.expert_used_count", 2);
    const std::string words[] = {"one", "", "three"};
    writer.set_strings("some.strings", words);
}

void TinyModel::finish(gguf::Writer& writer, std::span<const Tensor> tensors) {
    for (const Tensor& t : tensors)
        writer.add_tensor(t.name, t.shape, static_cast<uint32_t>(t.type), t.data.size());
    const auto begun = writer.begin_data();
    ASSERT_TRUE(begun) << begun.error().message;
    for (const Tensor& t : tensors) ASSERT_TRUE(writer.write(std::as_bytes(std::span(t.data))));
    const auto finished = writer.finish();
    ASSERT_TRUE(finished) << finished.error().message;
}

void TinyModel::write(const std::string& path) const {
    gguf::Writer writer(path, alignment.value_or(32));
    set_keys(writer);
    finish(writer, tensors());
}

std::string TinyModel::write_split(const std::string& prefix) const {
    const std::vector<Tensor> all = tensors();
    const size_t half = all.size() / 2;
    for (uint16_t i = 0; i < 2; i++) {
        gguf::Writer writer(prefix + (i == 0 ? "-00001-of-00002.gguf" : "-00002-of-00002.gguf"));
        if (i == 0) set_keys(writer);
        writer.set_int("split.no", gguf::ValueType::U16, i);
        writer.set_int("split.count", gguf::ValueType::U16, 2);
        writer.set_int("split.tensors.count", gguf::ValueType::I32, static_cast<int64_t>(all.size()));
        finish(writer, i == 0 ? std::span(all).first(half) : std::span(all).subspan(half));
    }
    return prefix + "-00001-of-00002.gguf";
}

/// A conversion and its result: "" or the message of the error.
std::string convert(bool packs, const std::string& from, const std::string& to, int n_threads = 2,
                    const char* isa = "") {
    ThreadPool pool(n_threads);
    auto in = gguf::File::open(from);
    if (!in) return in.error().message;
    const RepackContext context{.pool = pool, .kernels = kernel_table(isa)};
    const auto done = packs ? pack_file(std::move(*in), to, context) : unpack_file(*in, to, context);
    return done ? "" : done.error().message;
}

std::string pack(const std::string& from, const std::string& to) { return convert(true, from, to); }
std::string unpack(const std::string& from, const std::string& to) { return convert(false, from, to); }

std::vector<float> logits_of(const std::string& path, const char* isa = "") {
    ThreadPool pool(2);
    auto model = load_model(path, pool, isa);
    if (!model) {
        ADD_FAILURE() << model.error().message;
        return {};
    }
    return all_logits(*model, pool, kTokens, 4);
}

/// Every matrix that loading would pack is packed and aligned in the mapping; nothing is copied.
void expect_bound_to_the_mapping(const std::string& path, bool is_tied) {
    ThreadPool pool(2);
    const auto model = load_model(path, pool);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->packed_bytes(), 0u);
    const std::span<const std::byte> mapping = (*model)->file().mapping(0).bytes();
    Weights weights = (*model)->weights();
    int n_packed = 0;
    for (const Weight* w : weights_to_pack(weights)) {
        if (!*w) continue;
        EXPECT_TRUE(w->data >= mapping.data() && w->data < mapping.data() + mapping.size());
        EXPECT_EQ(w->layout, Layout::Packed);
        n_packed++;
        for (int64_t e = 0; e < w->n_expert; e++)
            EXPECT_EQ(reinterpret_cast<uintptr_t>(w->expert(e).data) % 64, 0u);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(w->data) % 64, 0u);
    }
    EXPECT_GE(n_packed, 13);
    EXPECT_EQ(weights.token_embd.layout, is_tied ? Layout::Packed : Layout::Rows);
}

TEST(Packed, EveryTypeGivesTheStockFilesBitsAndComesBack) {
    const TempFolder folder;
    const std::string stock = folder.at("stock"), packed = folder.at("packed"), back = folder.at("back");
    for (const PackedType& type : all_packed_types()) {
        for (const bool is_moe : {false, true}) {
            SCOPED_TRACE(std::string(type.name) + (is_moe ? " experts, tied" : " dense, untied"));
            TinyModel{.type = type, .is_moe = is_moe, .is_tied = is_moe}.write(stock);
            ASSERT_EQ(pack(stock, packed), "");
            expect_bound_to_the_mapping(packed, is_moe);
            const std::vector<float> expected = logits_of(stock);
            EXPECT_EQ(expected.size(), kTokens.size() * kVocab);
            for (const kernels::IsaInfo& isa : kernels::all_isas()) {
                if (!isa.usable) continue;
                EXPECT_TRUE(same_bits(logits_of(packed, isa.name.data()), expected)) << isa.name;
            }
            ASSERT_EQ(unpack(packed, back), "");
            EXPECT_TRUE(read_file(back) == read_file(stock));
        }
    }
}

TEST(Packed, TheSameFileForAnyThreadsAndInstructionSet) {
    const TempFolder folder;
    const std::string stock = folder.at("stock"), packed = folder.at("packed");
    TinyModel{.type = packed_types()[4], .is_moe = true}.write(stock);
    ASSERT_EQ(convert(true, stock, packed, 1, "scalar"), "");
    const std::string expected = read_file(packed);
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        for (const int n_threads : {1, 3}) {
            ASSERT_EQ(convert(true, stock, packed, n_threads, isa.name.data()), "");
            EXPECT_TRUE(read_file(packed) == expected) << isa.name << n_threads;
        }
    }
}

TEST(Packed, TheDefaultModelComesBackByteForByte) {
    const TempFolder folder;
    const std::string stock = TSR_SOURCE_DIR "/models/tessera-tiny.gguf";
    const std::string packed = folder.at("packed"), back = folder.at("back");
    ASSERT_EQ(pack(stock, packed), "");
    ASSERT_EQ(unpack(packed, back), "");
    EXPECT_TRUE(read_file(back) == read_file(stock));
    EXPECT_TRUE(same_bits(logits_of(packed), logits_of(stock)));
}

TEST(Packed, TheStockAlignmentComesBack) {
    const TempFolder folder;
    const std::string stock = folder.at("stock"), packed = folder.at("packed"), back = folder.at("back");
    for (const uint32_t alignment : {1u, 32u, 64u, 256u}) {
        TinyModel{.type = packed_types()[0], .alignment = alignment}.write(stock);
        ASSERT_EQ(pack(stock, packed), "");
        EXPECT_EQ(gguf::File::open(packed)->alignment(), std::max(64u, alignment));
        ASSERT_EQ(unpack(packed, back), "");
        EXPECT_TRUE(read_file(back) == read_file(stock)) << alignment;
    }
}

TEST(Packed, ASplitBecomesOneFile) {
    const TempFolder folder;
    const TinyModel model{.type = packed_types()[0]};
    model.write(folder.at("whole"));
    const std::string first = model.write_split(folder.at("m"));
    ASSERT_EQ(pack(first, folder.at("packed")), "");
    ASSERT_EQ(pack(folder.at("whole"), folder.at("expected")), "");
    EXPECT_TRUE(read_file(folder.at("packed")) == read_file(folder.at("expected")));
    ASSERT_EQ(unpack(folder.at("packed"), folder.at("back")), "");
    EXPECT_TRUE(read_file(folder.at("back")) == read_file(folder.at("whole")));
}

TEST(Packed, PaddingOfAPackedMatrixIsIgnored) {
    const TempFolder folder;
    TinyModel{.type = packed_types()[4], .is_tied = true}.write(folder.at("stock"));
    ASSERT_EQ(pack(folder.at("stock"), folder.at("packed")), "");
    std::string bytes = read_file(folder.at("packed"));
    {
        const auto file = gguf::File::open(folder.at("packed"));
        const gguf::TensorInfo* table = file->find_tensor("token_embd.weight");
        const auto at = static_cast<size_t>(table->data.data() - file->mapping(0).bytes().data());
        // Scales of the rows 509 to 511, which are padding: F16 at byte 2 r of each unit of 8 blocks.
        const size_t group_bytes = 8 * 34 * kEmbd / 32, last = at + 63 * group_bytes;
        for (size_t unit = 0; unit < kEmbd / 32; unit++)
            for (size_t i = 10; i < 16; i++) bytes[last + unit * 272 + i] = '\x7f';
    }
    folder.write("changed", bytes);
    EXPECT_TRUE(same_bits(logits_of(folder.at("changed")), logits_of(folder.at("stock"))));
    ASSERT_EQ(unpack(folder.at("changed"), folder.at("back")), "");
    EXPECT_TRUE(read_file(folder.at("back")) == read_file(folder.at("stock")));
}

void expect_ends_early(const Error& error, const std::string& path) {
    EXPECT_EQ(error.code, ErrorCode::Io);
    EXPECT_NE(error.message.find("of '" + path + "' on: it ends there"), std::string::npos) << error.message;
}

/// If loading read the mapping, the program would die by a signal. Vectors are read when they are bound.
TEST(Packed, AFileThatShrinksBeforeItIsBoundIsAnError) {
    const TempFolder folder;
    const std::string path = folder.at("stock");
    TinyModel{.type = packed_types()[0]}.write(path);
    auto file = gguf::File::open(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(file->total_bytes() / 2)), 0);
    const auto bound = Model::bind(std::move(*file), kernel_table(""), true);
    ASSERT_FALSE(bound);
    expect_ends_early(bound.error(), path);
}

TEST(Packed, AFileThatShrinksBeforeItIsPackedIsAnError) {
    const TempFolder folder;
    const std::string path = folder.at("stock");
    TinyModel{.type = packed_types()[0]}.write(path);
    for (const int n_threads : {1, 3}) {
        ThreadPool pool(n_threads);
        auto file = gguf::File::open(path);
        ASSERT_TRUE(file) << file.error().message;
        const uint64_t n_bytes = file->total_bytes();
        auto bound = Model::bind(std::move(*file), kernel_table(""), true);
        ASSERT_TRUE(bound) << bound.error().message;
        ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(n_bytes / 2)), 0);
        const auto model = Model::pack(std::move(*bound), pool, {});
        ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(n_bytes)), 0);
        ASSERT_FALSE(model);
        expect_ends_early(model.error(), path);
    }
}

TEST(Packed, ComputingInFloatAsksForTheStockFile) {
    const TempFolder folder;
    TinyModel{.type = packed_types()[0]}.write(folder.at("stock"));
    ASSERT_EQ(pack(folder.at("stock"), folder.at("packed")), "");
    ThreadPool pool(1);
    const auto model = load_model(folder.at("packed"), pool, "", false);
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find("unpack it first"), std::string::npos) << model.error().message;
}

TEST(Packed, UnsupportedConversionsAreReported) {
    const TempFolder folder;
    const std::string stock = folder.at("stock"), packed = folder.at("packed"), out = folder.at("out");
    TinyModel{.type = packed_types()[0]}.write(stock);
    ASSERT_EQ(pack(stock, packed), "");
    EXPECT_NE(pack(packed, out).find("packed: the file is packed already"), std::string::npos);
    EXPECT_NE(unpack(stock, out).find("stock: the file is not packed"), std::string::npos);
    EXPECT_NE(pack(stock, folder.at("none/out")).find("none/out"), std::string::npos);
    EXPECT_EQ(folder.n_files(), 2u);
}

/// Packing float weights changes no bit of the results, for any chunk size, thread count and instruction set.
TEST(Packed, FloatsGiveTheBitsOfTheirRows) {
    const TempFolder folder;
    const std::string path = folder.at("stock");
    for (const PackedType& type : float_types()) {
        for (const bool is_moe : {false, true}) {
            TinyModel{.type = type, .is_moe = is_moe, .is_tied = is_moe}.write(path);
            ThreadPool one(1);
            const auto rows = load_model(path, one, "scalar", false);
            ASSERT_TRUE(rows) << rows.error().message;
            const std::vector<float> expected = all_logits(*rows, one, kTokens, 4);
            for (const kernels::IsaInfo& isa : kernels::all_isas()) {
                if (!isa.usable) continue;
                for (const int n_threads : {1, 2, 3}) {
                    ThreadPool pool(n_threads);
                    const auto model = load_model(path, pool, isa.name.data());
                    ASSERT_TRUE(model) << model.error().message;
                    EXPECT_GT((*model)->packed_bytes(), 0u);
                    for (const int64_t chunk : {1, 2, 5, 9})
                        EXPECT_TRUE(same_bits(all_logits(*model, pool, kTokens, chunk), expected))
                            << type.name << (is_moe ? " experts " : " dense ") << isa.name << ' ' << n_threads
                            << ' ' << chunk;
                }
            }
        }
    }
}

TEST(Packed, AnInterruptLeavesNothing) {
    const TempFolder folder;
    TinyModel{.type = packed_types()[0]}.write(folder.at("stock"));
    ThreadPool pool(2);
    std::atomic<bool> stop{false};
    pool.set_abort_flag(&stop);
    const auto progress = [&](uint64_t done, uint64_t total) { stop = done > total / 2; };
    const RepackContext context{.pool = pool, .kernels = kernel_table(), .progress = progress};
    const auto done = pack_file(*gguf::File::open(folder.at("stock")), folder.at("packed"), context);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::Cancelled);
    EXPECT_EQ(folder.n_files(), 1u);
}

TEST(Packed, EveryCutIsAnError) {
    const TempFolder folder;
    TinyModel{.type = packed_types()[0]}.write(folder.at("stock"));
    ASSERT_EQ(pack(folder.at("stock"), folder.at("packed")), "");
    const std::string whole = read_file(folder.at("packed"));
    Rng rng(7);
    ThreadPool pool(1);
    for (int i = 0; i < 300; i++) {
        // Metadata first, where most faults are possible.
        const size_t n = rng.next_u64() % (i < 200 ? 2500 : whole.size() - 64);
        const auto bytes = std::as_bytes(std::span(whole)).first(n);
        const auto file = gguf::File::parse(bytes, "cut", {});
        ASSERT_FALSE(file) << n << " of " << whole.size();
    }
}

/// A damaged container that still opens either loads and computes or is refused.
TEST(Packed, DamageNeverCrashes) {
    const TempFolder folder;
    TinyModel{.type = packed_types()[9], .is_moe = true}.write(folder.at("stock"));
    ASSERT_EQ(pack(folder.at("stock"), folder.at("packed")), "");
    const std::string whole = read_file(folder.at("packed"));
    Rng rng(8);
    ThreadPool pool(1);
    int n_loaded = 0;
    for (int i = 0; i < 400; i++) {
        std::string bytes = whole;
        bytes[rng.next_u64() % 2800] ^= static_cast<char>(1 << rng.next_u64() % 8);
        auto file = gguf::File::parse(std::as_bytes(std::span(bytes)), "damaged", {});
        if (!file) continue;
        auto model = Model::load(std::move(*file), pool, kernel_table(), {});
        if (!model) continue;
        n_loaded++;
        if ((*model)->hparams().n_vocab == kVocab && n_loaded % 8 == 0) all_logits(*model, pool, {1, 2}, 2);
    }
    EXPECT_GT(n_loaded, 10);
}

}  // namespace

}  // namespace tessera::test
