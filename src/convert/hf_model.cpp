// Builds the converted file: the required tensors (the ArchSpec), their sources (hf_arch.cpp), and the GGUF
// header. The header is in memory in front of reserved address space of the data's size, so that the GGUF
// reader and the model loader check it like any file.
#include "src/convert/hf_model.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "src/convert/hf_numbers.h"
#include "src/convert/hf_tokenizer.h"
#include "src/convert/quantize_policy.h"
#include "src/model/model.h"

namespace tessera::convert {

namespace {

/// Tensors that the model does not need: computed from the configuration, or about activations.
constexpr std::string_view kIgnored[] = {".rotary_emb.inv_freq", ".masked_bias",    ".input_scale",
                                         ".activation_scale",    ".k_proj.k_scale", ".v_proj.v_scale"};

/// Reserved address space, which reads as zeros except for the header at its beginning.
class Reservation {
  public:
    static Result<Reservation> create(uint64_t n_bytes, std::span<const std::byte> head, uint64_t n_written) {
        Reservation out;
        out.size_ = static_cast<size_t>(n_bytes);
        void* at = mmap(nullptr, out.size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return fail(ErrorCode::OutOfMemory, "cannot reserve %s of address space for the model",
                        format_bytes(n_bytes).c_str());
        out.data_ = static_cast<std::byte*>(at);
        if (mprotect(at, static_cast<size_t>(n_written), PROT_READ | PROT_WRITE) != 0)
            return fail(ErrorCode::OutOfMemory, "cannot allocate %s for the model's header",
                        format_bytes(n_written).c_str());
        std::memcpy(at, head.data(), head.size());
        return out;
    }
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Reservation() {
        if (data_) munmap(data_, size_);
    }
    std::span<std::byte> bytes() const { return {data_, size_}; }

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

/// Finds the recipe of every tensor of an architecture.
class RecipeBook {
  public:
    RecipeBook(const HfArch& arch, const ArchSpec& spec, const HfCheckpoint& checkpoint,
               const HfNumbers& numbers)
        : arch_(arch), spec_(spec), checkpoint_(checkpoint), numbers_(numbers) {}

    Result<std::vector<Recipe>> write();

  private:
    struct Found {
        const HfTensor* row = nullptr;
        std::string name;  // name in the checkpoint; of a stack the pattern
        std::vector<const SafeTensor*> sources;
    };
    Result<void> read_settings();
    Result<Found> find(std::string_view gguf, const std::string& prefix);
    Result<std::vector<const SafeTensor*>> find_sources(const std::string& name);
    const SafeTensor* find_scale(const SafeTensor& source, std::string_view name) const;
    Result<void> add(const std::string& gguf, std::vector<int64_t> shape, Found found);
    Result<void> add_model_tensor(const ModelTensor& tensor);
    Result<void> add_layer(int64_t layer);
    Result<bool> has_output() const;
    std::vector<int64_t> resolved(std::span<const Dim> dims, const LayerSpec& layer = {}) const;
    Result<void> check_leftovers() const;
    Type guessed_type(const Recipe& recipe) const;

    const HfArch& arch_;
    const ArchSpec& spec_;
    const HfCheckpoint& checkpoint_;
    const HfNumbers& numbers_;
    int64_t block_rows_ = 128, block_cols_ = 128;  // block size of F8 factors
    std::string quantization_;                     // quantization_config.quant_method
    std::set<const SafeTensor*> used_;
    std::vector<Recipe> recipes_, computed_;
};

Result<void> RecipeBook::read_settings() {
    const JsonValue* config = checkpoint_.config().find("quantization_config");
    if (!config) return {};
    const JsonValue* method = config->find("quant_method");
    quantization_ = method ? method->text : "";
    constexpr std::string_view kKnown[] = {"fp8", "fbgemm_fp8", "mxfp4", "compressed-tensors"};
    if (std::find(std::begin(kKnown), std::end(kKnown), quantization_) == std::end(kKnown))
        return fail(
            ErrorCode::Unsupported,
            "config.json: 'quantization_config.quant_method': expected fp8 or mxfp4, found '%s'; convert "
            "the model it was made from",
            printable(quantization_).c_str());
    const JsonValue* block = config->find("weight_block_size");
    if (!block || block->is(JsonValue::Kind::Null)) return {};
    const auto side = [&](size_t i) {
        const auto n = block->items.size() == 2 ? parse_int(block->items[i].text) : std::nullopt;
        return n && *n > 0 && *n <= 1 << 20 ? *n : 0;
    };
    block_rows_ = side(0);
    block_cols_ = side(1);
    if (block_rows_ > 0 && block_cols_ > 0) return {};
    return fail(ErrorCode::Malformed,
                "config.json: 'quantization_config.weight_block_size': expected two numbers above 0");
}

std::vector<int64_t> RecipeBook::resolved(std::span<const Dim> dims, const LayerSpec& layer) const {
    std::vector<int64_t> shape;
    for (const Dim dim : dims)
        if (dim != Dim::None) shape.push_back(size_of(dim, numbers_.sizes, layer));
    return shape;
}

/// All sources of a stack, or none.
Result<std::vector<const SafeTensor*>> RecipeBook::find_sources(const std::string& name) {
    std::vector<const SafeTensor*> sources;
    const size_t number = name.find("{}");
    const int64_t n = number == std::string::npos ? 1 : numbers_.sizes.moe.n_expert;
    for (int64_t e = 0; e < n; e++) {
        std::string of_expert = name;
        if (number != std::string::npos) of_expert.replace(number, 2, std::to_string(e));
        const SafeTensor* source = checkpoint_.find(of_expert);
        if (!source && e > 0)
            return fail(ErrorCode::Malformed, "tensor '%s' is missing, while earlier experts have one",
                        printable(of_expert).c_str());
        if (!source) return sources;
        sources.push_back(source);
    }
    return sources;
}

/// The first alternative that the folder has; without weights, the one that its configuration implies.
Result<RecipeBook::Found> RecipeBook::find(std::string_view gguf, const std::string& prefix) {
    Found first;
    for (const std::span<const HfTensor> group : arch_.tensors) {
        for (const HfTensor& row : group) {
            if (row.gguf != gguf) continue;
            Found found{&row, prefix + std::string(row.hf), {}};
            const bool is_mxfp4 = row.hf.ends_with("_blocks");
            if (checkpoint_.has_weights()) {
                TSR_TRY(found.sources, find_sources(found.name));
                if (!found.sources.empty()) return found;
            } else if (is_mxfp4 == (quantization_ == "mxfp4") || !is_mxfp4) {
                return found;
            }
            if (!first.row) first = std::move(found);
        }
    }
    return first;
}

const SafeTensor* RecipeBook::find_scale(const SafeTensor& source, std::string_view name) const {
    // By the name within the text model, by which the source was found.
    constexpr std::string_view kBlocks = "_blocks";
    if (source.dtype == Dtype::U8 && name.ends_with(kBlocks))
        return checkpoint_.find(std::string(name.substr(0, name.size() - kBlocks.size())) + "_scales");
    for (const char* suffix : {"_scale_inv", "_scale"})
        if (const SafeTensor* scale = checkpoint_.find(std::string(name) + suffix)) return scale;
    return nullptr;
}

Type RecipeBook::guessed_type(const Recipe& recipe) const {
    if (!recipe.quantizes) return Type::F32;
    if (recipe.hf.ends_with("_blocks")) return Type::MXFP4;
    const auto dtype = checkpoint_.config().text_or("torch_dtype", "bfloat16");
    if (dtype && *dtype == "float32") return Type::F32;
    return dtype && *dtype == "float16" ? Type::F16 : Type::BF16;
}

Result<void> RecipeBook::add(const std::string& gguf, std::vector<int64_t> shape, Found found) {
    Recipe recipe;
    recipe.gguf = gguf;
    recipe.hf = found.name;
    recipe.shape = std::move(shape);
    recipe.quantizes = is_quantizable(gguf, static_cast<int>(recipe.shape.size()));
    recipe.take = found.row->take;
    if (recipe.take == Take::Heads && spec_.rope == RopeKind::Norm)
        recipe.head_dim = numbers_.sizes.layers.front().k_dim;
    recipe.type = guessed_type(recipe);
    recipe.sources = std::move(found.sources);
    const size_t number = found.name.find("{}");
    for (size_t i = 0; i < recipe.sources.size(); i++) {
        std::string name = found.name;
        if (number != std::string::npos) name.replace(number, 2, std::to_string(i));
        recipe.scales.push_back(find_scale(*recipe.sources[i], name));
        used_.insert(recipe.sources[i]);
        if (recipe.scales[i]) used_.insert(recipe.scales[i]);
    }
    TSR_TRY_VOID(settle(recipe, block_rows_, block_cols_));
    recipes_.push_back(std::move(recipe));
    return {};
}

/// Whether there is an output matrix in addition to the embedding table.
Result<bool> RecipeBook::has_output() const {
    const bool has_head = checkpoint_.find("lm_head.weight") != nullptr;
    const bool usual = checkpoint_.has_weights() && !has_head;
    TSR_TRY(const bool tied, checkpoint_.config().boolean_or("tie_word_embeddings", usual));
    if (!tied && !has_head && checkpoint_.has_weights())
        return fail(
            ErrorCode::Malformed,
            "tensor 'lm_head.weight': expected because tie_word_embeddings in config.json is false, found "
            "none");
    return !tied;
}

tl::unexpected<Error> missing(const std::string& theirs, const std::string& ours) {
    return fail(ErrorCode::Malformed, "tensor '%s' (for '%s') is missing in the folder's files",
                printable(theirs).c_str(), ours.c_str());
}

Result<void> RecipeBook::add_model_tensor(const ModelTensor& tensor) {
    const std::string name(tensor.name);
    for (const auto& [computed, values] : numbers_.rope_tensors) {
        if (computed != name) continue;
        Recipe recipe;
        recipe.gguf = name;
        recipe.shape = {static_cast<int64_t>(values.size())};
        recipe.values = values;
        computed_.push_back(std::move(recipe));
    }
    TSR_TRY(Found found, find(name, ""));
    if (!found.row) return {};
    if (name == "output.weight") {
        TSR_TRY(const bool wanted, has_output());
        // A copy of the embedding table that is not used.
        if (const SafeTensor* head = checkpoint_.find("lm_head.weight"); head && !wanted) used_.insert(head);
        if (!wanted) return {};
    }
    if (found.sources.empty() && checkpoint_.has_weights()) return missing(found.name, name);
    return add(name, resolved(tensor.shape), std::move(found));
}

Result<void> RecipeBook::add_layer(int64_t layer) {
    const std::string ours = strf("blk.%lld.", static_cast<long long>(layer));
    const std::string theirs = strf("model.layers.%lld.", static_cast<long long>(layer));
    const LayerSpec& spec = numbers_.sizes.layers[static_cast<size_t>(layer)];
    std::vector<LayerMember> covered;
    for (const FusedTensor& fused : spec_.fused_tensors) {
        if (!has_member(spec, fused.parts[0].at)) continue;
        TSR_TRY(Found found, find(fused.name, theirs));
        if (!found.row || (found.sources.empty() && checkpoint_.has_weights())) continue;
        int64_t n_rows = 0;
        for (const FusedTensor::Part& part : fused.parts) {
            if (part.rows == Dim::None) break;
            n_rows += size_of(part.rows, numbers_.sizes, spec);
            covered.push_back(part.at);
        }
        std::vector<int64_t> shape;
        if (fused.stack != Dim::None) shape.push_back(size_of(fused.stack, numbers_.sizes, spec));
        shape.push_back(n_rows);
        if (fused.n_in != Dim::None) shape.push_back(size_of(fused.n_in, numbers_.sizes, spec));
        TSR_TRY_VOID(add(ours + std::string(fused.name), std::move(shape), std::move(found)));
    }
    for (const std::span<const LayerTensor> group : spec_.layer_tensors) {
        for (const LayerTensor& tensor : group) {
            if (std::find(covered.begin(), covered.end(), tensor.at) != covered.end()) continue;
            const std::string name = ours + std::string(tensor.name);
            TSR_TRY(Found found, find(tensor.name, theirs));
            const Presence presence = tensor.presence_in(spec);
            const bool is_optional = presence == Presence::Optional;
            if (presence == Presence::Absent) continue;
            if (!found.row) {
                if (is_optional) continue;
                return fail(ErrorCode::Unsupported, "tensor '%s': architecture '%s' needs it, '%s' has none",
                            name.c_str(), std::string(spec_.name).c_str(),
                            std::string(arch_.class_name).c_str());
            }
            if (checkpoint_.has_weights() && found.sources.empty()) {
                if (is_optional) continue;
                return missing(found.name, name);
            }
            if (!checkpoint_.has_weights() && is_optional) {
                TSR_TRY(const bool wanted, checkpoint_.config().boolean_or(found.row->flag, false));
                if (!wanted) continue;
            }
            TSR_TRY_VOID(add(name, resolved(tensor.shape, spec), std::move(found)));
        }
    }
    return {};
}

/// Unused tensors mean that the model is not the one that its configuration says.
Result<void> RecipeBook::check_leftovers() const {
    for (const auto& [name, tensor] : checkpoint_.tensors()) {
        const std::string_view text = name;
        const bool is_ignored = std::any_of(std::begin(kIgnored), std::end(kIgnored),
                                            [&](std::string_view end) { return text.ends_with(end); });
        if (!used_.contains(tensor) && !is_ignored)
            return fail(ErrorCode::Unsupported, "tensor '%s' (%s %s): model class '%s' does not use it",
                        printable(name).c_str(), tensor->dtype_text.c_str(), tensor->shape_string().c_str(),
                        std::string(arch_.class_name).c_str());
    }
    return {};
}

Result<std::vector<Recipe>> RecipeBook::write() {
    TSR_TRY_VOID(read_settings());
    for (const ModelTensor& tensor : spec_.model_tensors) TSR_TRY_VOID(add_model_tensor(tensor));
    for (int64_t layer = 0; layer < numbers_.sizes.n_layer; layer++) TSR_TRY_VOID(add_layer(layer));
    TSR_TRY_VOID(check_leftovers());
    // Tensors with values come right after the header.
    recipes_.insert(recipes_.begin(), std::make_move_iterator(computed_.begin()),
                    std::make_move_iterator(computed_.end()));
    return std::move(recipes_);
}

}  // namespace

struct HfModel::State {
    explicit State(HfCheckpoint opened) : checkpoint(std::move(opened)) {}

    HfCheckpoint checkpoint;
    const HfArch* arch = nullptr;
    std::vector<Recipe> recipes;
    std::optional<RecipeRows> rows;
    Reservation bytes;
    std::shared_ptr<const Model> model;  // view of the reserved bytes
    std::optional<Error> tokenizer_error;

    Result<void> build(ThreadPool& pool, const kernels::KernelTable& kernels, const Options& options);
    Result<void> reserve(gguf::Writer& writer);
};

Result<void> HfModel::State::reserve(gguf::Writer& writer) {
    TSR_TRY(const std::vector<std::byte> head, writer.head());
    uint64_t n_written = head.size();
    for (const Recipe& recipe : recipes)
        if (!recipe.values.empty())
            n_written = gguf::align_up(n_written + recipe.n_bytes(), gguf::kDefaultAlignment);
    TSR_TRY(bytes, Reservation::create(writer.total_bytes(), head, n_written));
    uint64_t at = head.size();
    for (const Recipe& recipe : recipes) {
        if (recipe.values.empty()) continue;
        std::memcpy(bytes.bytes().data() + at, recipe.values.data(), static_cast<size_t>(recipe.n_bytes()));
        at = gguf::align_up(at + recipe.n_bytes(), gguf::kDefaultAlignment);
    }
    return {};
}

Result<void> HfModel::State::build(ThreadPool& pool, const kernels::KernelTable& kernels,
                                   const Options& options) {
    HfConfig& config = checkpoint.config();
    TSR_TRY(arch, find_hf_architecture(config));
    config.set_defaults(arch->defaults);
    TSR_TRY_VOID(check_demands(*arch, config));
    TSR_TRY(const ArchSpec* spec, find_architecture(arch->arch));
    if (!checkpoint.has_weights() && !options.plan_only)
        return fail(ErrorCode::NotFound, "expected model*.safetensors, found none");
    gguf::Writer writer(checkpoint.folder());
    TSR_TRY(const HfNumbers numbers, read_numbers(*arch, *spec, config, writer));
    const std::string name = std::filesystem::path(checkpoint.folder() + "/.")
                                 .lexically_normal()
                                 .parent_path()
                                 .filename()
                                 .string();
    writer.set_string("general.name", name);
    auto tokenizer = read_hf_tokenizer(checkpoint, numbers.sizes.n_vocab, options.pre);
    if (tokenizer)
        TSR_TRY_VOID(write_tokenizer(*tokenizer, checkpoint, writer));
    else if (options.plan_only)
        tokenizer_error = tokenizer.error();
    else
        return tl::unexpected<Error>(tokenizer.error());
    TSR_TRY(recipes, RecipeBook(*arch, *spec, checkpoint, numbers).write());
    for (const Recipe& recipe : recipes)
        writer.add_tensor(recipe.gguf, recipe.shape, static_cast<uint32_t>(recipe.type), recipe.n_bytes());
    TSR_TRY_VOID(reserve(writer));
    TSR_TRY(gguf::File file, gguf::File::parse(bytes.bytes(), checkpoint.folder(), {}));
    TSR_TRY(model, Model::load(std::move(file), pool, kernels, {.pack = false, .progress = {}}));
    rows.emplace(recipes, checkpoint);
    return {};
}

Result<std::unique_ptr<HfModel>> HfModel::open(const std::string& folder, ThreadPool& pool,
                                               const kernels::KernelTable& kernels, const Options& options) {
    const auto named = [&](Error error) {
        if (error.message.find(folder) != std::string::npos) return tl::unexpected<Error>(std::move(error));
        return fail_in(printable(folder, 400), std::move(error));
    };
    auto checkpoint = HfCheckpoint::open(folder);
    if (!checkpoint) return named(std::move(checkpoint.error()));
    auto state = std::make_unique<State>(std::move(*checkpoint));
    if (auto built = state->build(pool, kernels, options); !built) return named(std::move(built.error()));
    return std::unique_ptr<HfModel>(new HfModel(std::move(state)));
}

HfModel::HfModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
HfModel::~HfModel() = default;

const gguf::File& HfModel::file() const { return state_->model->file(); }
std::span<const Recipe> HfModel::recipes() const { return state_->recipes; }
const RowSource& HfModel::rows() const { return *state_->rows; }
bool HfModel::has_weights() const { return state_->checkpoint.has_weights(); }
const std::optional<Error>& HfModel::tokenizer_error() const { return state_->tokenizer_error; }
std::string_view HfModel::class_name() const { return state_->arch->class_name; }

std::string_view HfModel::own_mixture() const {
    uint64_t halves = 0, others = 0;
    for (const Recipe& recipe : state_->recipes) {
        if (!recipe.quantizes) continue;
        const bool is_half = recipe.sources.empty() ? recipe.type == Type::F16
                                                    : recipe.sources[0]->dtype == Dtype::F16 ||
                                                          recipe.sources[0]->dtype == Dtype::F32;
        (is_half ? halves : others) += static_cast<uint64_t>(recipe.n_elements());
    }
    return halves > others ? "F16" : "BF16";
}

std::string HfModel::folder() const { return state_->checkpoint.folder(); }

}  // namespace tessera::convert
