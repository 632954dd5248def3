// Models of every architecture, each damaged in one place: the error names the tensor or key, and nothing
// crashes. Files are changed in memory: tensors in their records, keys by overrides, weights in the data.
#include <cmath>
#include <limits>

#include "common/f16.h"
#include "src/model/bind.h"
#include "src/model/check_weights.h"
#include "src/model/packed_file.h"
#include "tests/model/rewrite.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

/// The bytes of a model, and the place of each tensor's record in them.
class Bytes {
  public:
    explicit Bytes(const std::string& path) : bytes_(read_file(path)) {}

    /// The record of a tensor: its name's length, name, n_dims, dims (innermost first), type, offset.
    char* record(std::string_view name) {
        const uint64_t n = name.size();
        std::string key(reinterpret_cast<const char*>(&n), sizeof n);
        key += name;
        const size_t at = bytes_.find(key);
        EXPECT_NE(at, std::string::npos) << name;
        return bytes_.data() + at;
    }
    char* name(std::string_view tensor) { return record(tensor) + 8; }
    char* dims(std::string_view tensor) { return name(tensor) + tensor.size() + 4; }
    char* type(std::string_view tensor, int n_dims) { return dims(tensor) + 8 * n_dims; }
    std::string& all() { return bytes_; }

    Result<gguf::File> open(const std::vector<std::string>& overrides = {}) const {
        gguf::File::Options options;
        for (const std::string& text : overrides) {
            auto parsed = gguf::parse_override(text);
            EXPECT_TRUE(parsed) << text;
            parsed->adds = true;  // some cases give the model a key that it lacks
            options.overrides.push_back(*parsed);
        }
        return gguf::File::parse(std::as_bytes(std::span(bytes_)), "broken.gguf", options);
    }

    /// The message of the error that loading returns; empty if it succeeds.
    std::string load_error(const std::vector<std::string>& overrides = {}) const {
        auto file = open(overrides);
        if (!file) return file.error().message;
        ThreadPool pool(1);
        auto model = Model::load(std::move(*file), pool, kernel_table(), {.pack = false, .progress = {}});
        return model ? "" : model.error().message;
    }

  private:
    std::string bytes_;
};

template <class T>
void put(char* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts,
                  const std::string& what) {
    EXPECT_NE(message, "") << what << " was accepted";
    for (const std::string& part : parts)
        EXPECT_NE(message.find(part), std::string::npos)
            << what << ": '" << part << "' is not in: " << message;
}

struct Record {
    std::string name;
    std::vector<int64_t> shape;
    Type type;
};

/// The tensors of the whole model and of its first block.
std::vector<Record> first_tensors(const std::string& path) {
    std::vector<Record> records;
    auto file = gguf::File::open(path);
    EXPECT_TRUE(file);
    for (const gguf::TensorInfo& t : file->tensors())
        if (!t.name.starts_with("blk.") || t.name.starts_with("blk.0."))
            records.push_back({std::string(t.name), {t.shape, t.shape + t.n_dims}, t.type});
    return records;
}

class Broken : public testing::TestWithParam<TestModel> {};

TEST_P(Broken, MissingTensorsAreNamed) {
    for (const Record& record : first_tensors(GetParam().path())) {
        Bytes bytes(GetParam().path());
        bytes.name(record.name)[record.name.size() - 1] = '_';
        // A model without these tensors is well-formed, too.
        if (record.name == "output.weight" || record.name == "rope_freqs.weight") continue;
        if (GetParam().name == std::string_view("glm4") && record.name.ends_with(".bias")) continue;
        expect_parts(bytes.load_error(), {"tensor '", record.name.substr(record.name.rfind('.')).substr(1)},
                     record.name);
    }
}

TEST_P(Broken, WrongShapesAreNamed) {
    for (const Record& record : first_tensors(GetParam().path())) {
        Bytes bytes(GetParam().path());
        const int64_t inner = record.shape.back(),
                      outer = record.shape[record.shape.size() - 1 - (record.shape.size() > 1)];
        char* dims = bytes.dims(record.name);
        if (record.shape.size() == 1) {
            put(dims, inner / 2);
            // The data is then shorter than the file says, or the shape is not the expected one.
            expect_parts(bytes.load_error(), {record.name}, record.name + " halved");
            continue;
        }
        if (inner == outer) continue;
        put(dims, outer);
        put(dims + 8, inner);
        expect_parts(bytes.load_error(), {"tensor '" + record.name + "'", "expected shape", "found"},
                     record.name + " transposed");
    }
}

TEST_P(Broken, WrongTypesAreNamed) {
    for (const Record& record : first_tensors(GetParam().path())) {
        Bytes bytes(GetParam().path());
        const Type integer = record.type == Type::F16 ? Type::I16 : Type::I32;
        put(bytes.type(record.name, static_cast<int>(record.shape.size())), static_cast<uint32_t>(integer));
        expect_parts(
            bytes.load_error(),
            {"tensor '" + record.name + "'", "expected", "found", integer == Type::I16 ? "i16" : "i32"},
            record.name);
    }
}

TEST_P(Broken, AbsurdKeysAreNamed) {
    const Bytes bytes(GetParam().path());
    auto file = bytes.open();
    ASSERT_TRUE(file);
    const std::string arch(*file->get_string("general.architecture"));
    const bool is_moe = file->find(arch + ".expert_count") != nullptr;
    const std::string norm_eps = file->find(arch + ".attention.layer_norm_epsilon")
                                     ? "attention.layer_norm_epsilon"
                                     : "attention.layer_norm_rms_epsilon";
    std::vector<std::pair<std::string, std::string>> cases = {
        {"block_count", "int:0"},
        {"block_count", "int:4000000000"},
        {"block_count", "str:two"},
        {"context_length", "int:0"},
        {"embedding_length", "int:0"},
        {"embedding_length", "int:1000000"},
        {"attention.head_count", "int:0"},
        {"attention.head_count", "int:-4"},
        {"attention.head_count", "int:100000"},
        {"attention.head_count_kv", "int:0"},
        {"attention.head_count_kv", "int:3"},
        {"attention.key_length", "int:0"},
        {"attention.key_length", "int:4096"},
        {"attention.value_length", "int:40"},
        {"attention.scale", "float:-1"},
        {norm_eps, "float:-1"},
        {norm_eps, "str:small"},
        {"attn_logit_softcapping", "float:-50"},
        {"final_logit_softcapping", "float:-30"},
        {"rope.dimension_count", "int:0"},
        {"rope.dimension_count", "int:7"},
        {"rope.dimension_count", "int:1000"},
        {"rope.freq_base", "float:0"},
        {"rope.freq_base", "float:1e30"},
        {"rope.scaling.type", "str:mystery"},
        {"rope.scaling.factor", "float:-2"},
        {"rope.scaling.original_context_length", "int:0"},
        {"attention.temperature_scale", "float:-1"},
    };
    if (is_moe)
        for (const char* value : {"int:0", "int:-1", "int:99"}) cases.push_back({"expert_used_count", value});
    else
        for (const char* value : {"int:0", "int:10000000"}) cases.push_back({"feed_forward_length", value});
    if (is_moe)
        for (const char* value : {"int:5000", "int:-1"}) cases.push_back({"expert_count", value});
    for (const auto& [suffix, value] : cases) {
        const std::string key = arch + "." + suffix;
        expect_parts(bytes.load_error({key + "=" + value}), {"key '" + key + "'", "expected", "found"},
                     key + "=" + value);
    }
    // Keys whose damage is detected at the tensors that they describe.
    expect_parts(bytes.load_error({arch + ".embedding_length=int:96"}), {"token_embd.weight", "96"}, "width");
    expect_parts(bytes.load_error({arch + ".attention.head_count=int:16"}), {"expected", "found"}, "heads");
    if (is_moe) {
        expect_parts(bytes.load_error({arch + ".expert_count=int:16"}), {"blk.0.ffn_", "16"}, "experts");
        expect_parts(bytes.load_error({arch + ".expert_count=int:0"}), {"tensor 'blk.0.ffn_", "expected"},
                     "no experts");
    }
}

/// Damage that only --check looks for.
TEST_P(Broken, DamagedWeightsAreFound) {
    ThreadPool pool(3);
    Bytes bytes(GetParam().path());
    const auto error = [&] {
        auto file = bytes.open();
        EXPECT_TRUE(file);
        const auto checked = check_weights(*file, pool, kernel_table(), {});
        return checked ? "" : checked.error().message;
    };
    EXPECT_EQ(error(), "");
    const auto data_of = [&](const char* name) {
        auto file = bytes.open();
        const auto* begin = reinterpret_cast<const std::byte*>(bytes.all().data());
        return bytes.all().data() + (file->find_tensor(name)->data.data() - begin);
    };
    put(data_of("output_norm.weight") + 3 * 4, std::numeric_limits<float>::infinity());
    const auto n_cols = bytes.open()->find_tensor("blk.1.attn_output.weight")->n_cols();
    put(data_of("blk.1.attn_output.weight") + (9 * n_cols + 2) * 2, f32_to_f16(NAN));
    // Of several damaged tensors the error names the first in the order of the file, and the first place in
    // it.
    expect_parts(error(), {"tensor 'output_norm.weight'", "expected finite", "at [3]"}, "an infinite norm");
    put(data_of("output_norm.weight") + 3 * 4, 1.0f);
    put(data_of("blk.1.attn_output.weight") + (10 * n_cols) * 2, f32_to_f16(INFINITY));
    expect_parts(error(), {"tensor 'blk.1.attn_output.weight'", "expected finite", "at [9, 2]"}, "a NaN");
}

INSTANTIATE_TEST_SUITE_P(Models, Broken, testing::ValuesIn(kTestModels), name_of);

/// The same in quantized blocks, where a NaN scale damages the whole block, and in a packed file.
TEST(BrokenBlocks, DamagedWeightsAreFound) {
    const std::pair<const char*, std::vector<size_t>> places[] = {
        {"blk.1.attn_output.weight", {9, 2}}, {"blk.1.ffn_down_exps.weight", {3, 17, 40}}};
    for (const auto& [name, place] : places) {
        ThreadPool pool(3);
        const TempFolder folder;
        const std::string hurt = folder.at("hurt.gguf"), packed = folder.at("packed.gguf");
        rewrite(model_file("qwen3moe"), hurt, [&, name = name, &place = place](auto& tensors) {
            quantize_matrices(tensors, Type::Q8_0);
            for (TensorCopy& t : tensors) {
                if (t.name != name) continue;
                size_t at = 0;
                for (size_t i = 0; i < place.size(); ++i)
                    at = at * static_cast<size_t>(t.shape[i]) + place[i];
                std::vector<float> x = t.values();
                x[at] = NAN;
                t.set_values(x, t.type);
            }
        });
        const auto done = pack_file(std::move(*gguf::File::open(hurt)), packed, {pool, kernel_table(), {}});
        ASSERT_TRUE(done) << done.error().message;
        std::string text = "at [";
        for (size_t i = 0; i + 1 < place.size(); ++i) text += std::to_string(place[i]) + ", ";
        text += std::to_string(place.back() / 32 * 32) + "]";
        for (const std::string& path : {hurt, packed}) {
            const auto checked = check_weights(*gguf::File::open(path), pool, kernel_table(), {});
            ASSERT_FALSE(checked);
            expect_parts(checked.error().message, {path, "tensor '" + std::string(name) + "'", text}, path);
        }
    }
}

TEST(BrokenScaling, LongRopeNeedsBothSetsOfDivisors) {
    const TestModel longrope{"longrope", false};
    Bytes bytes(longrope.path());
    bytes.name("rope_factors_short.weight")[0] = 'x';
    expect_parts(bytes.load_error(), {"tensor 'rope_factors_short.weight'", "not in the file"},
                 "half a LongRoPE");
    bytes.name("rope_factors_long.weight")[0] = 'x';
    EXPECT_EQ(bytes.load_error(), "");
    expect_parts(bytes.load_error({"phi3.rope.scaling.type=str:longrope"}), {"rope_factors_long.weight"},
                 "none");
}

TEST(BrokenFusion, PartsOfUnevenRowsAreRefused) {
    const TestModel longrope{"longrope", false};
    Bytes bytes(longrope.path());
    put<int64_t>(bytes.dims("blk.0.ffn_up.weight") + 8, 124);
    expect_parts(bytes.load_error({"phi3.feed_forward_length=int:62"}), {"ffn_"}, "62 rows each");
}

TEST(Architectures, UnknownOnesAreRefusedWithTheSupportedOnes) {
    std::string names;
    for (const ArchSpec* spec : all_architectures()) {
        auto found = find_architecture(spec->name);
        ASSERT_TRUE(found);
        EXPECT_EQ(*found, spec);
        names += (names.empty() ? "" : ", ") + std::string(spec->name);
    }
    for (const char* name : {"qwen35", "mamba", "lama", ""}) {
        const auto found = find_architecture(name);
        ASSERT_FALSE(found);
        expect_parts(found.error().message,
                     {"architecture '" + std::string(name) + "' is not supported (supported: " + names + ";"},
                     name);
    }
    const auto found = find_architecture("qwen\n3");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().message.find('\n'), std::string::npos);
}

}  // namespace

}  // namespace tessera::test
