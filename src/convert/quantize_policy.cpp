// Chooses a type for every tensor: whether it is quantized, overrides, the mixture's type for its role and
// layer, and a substitute if its rows are not a multiple of a block.
#include "src/convert/quantize_policy.h"

#include <algorithm>
#include <map>

#include "common/pattern.h"
#include "common/strings.h"
#include "ggml-like/gguf/packed.h"

namespace tessera::convert {

namespace {

/// Parts of names of small or sensitive matrices, which are not quantized.
constexpr std::string_view kKept[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj",
    "indexer.q_proj",
    "time_mix_first",
    "time_mix_w0",
    "time_mix_w1",
    "time_mix_w2",
    "time_mix_v0",
    "time_mix_v1",
    "time_mix_v2",
    "time_mix_a0",
    "time_mix_a1",
    "time_mix_a2",
    "time_mix_g1",
    "time_mix_g2",
    "time_mix_decay_w",
    "time_mix_lerp_fused",
    "attn_rel_b.weight",
    "position_embd",
    "token_types",
};

bool is_quantizable_here(const gguf::TensorInfo& tensor) {
    return type_info(tensor.type).role == TypeRole::Weight && is_quantizable(tensor.name, tensor.n_dims);
}

bool is_plain(Type type) { return type_info(type).block == 1; }

/// For rows that are not a multiple of the type's block: the nearest type with blocks of 32 that is not
/// worse.
Type substitute(Type type) {
    switch (type) {
        case Type::Q4_K:
            return Type::Q5_0;
        case Type::Q5_K:
            return Type::Q5_1;
        case Type::Q6_K:
            return Type::Q8_0;
        case Type::Q2_K:
        case Type::Q3_K:
        case Type::TQ1_0:
        case Type::TQ2_0:
            return Type::Q4_0;
        default:
            return type_info(type).block == 256 ? Type::IQ4_NL : Type::F16;
    }
}

Type fitting(Type type, int64_t n_cols) {
    if (n_cols % type_info(type).block == 0) return type;
    const Type other = substitute(type);
    return n_cols % type_info(other).block == 0 ? other : Type::F16;
}

/// N of blk.N.; -1 for a tensor outside the layers.
int64_t layer_of(std::string_view name) {
    if (!name.starts_with("blk.")) return -1;
    int64_t layer = 0;
    size_t i = 4;
    for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && i < 12; i++)
        layer = layer * 10 + (name[i] - '0');
    return i > 4 && i < name.size() && name[i] == '.' ? layer : -1;
}

class Planner {
  public:
    Planner(const gguf::File& file, const QuantizePlanOptions& options)
        : file_(file), options_(options), shown_(printable(file.path(), 400)) {}

    Result<std::vector<PlannedTensor>> plan();

  private:
    Result<void> read_model();
    Result<int64_t> heads(const std::string& key, int64_t fallback) const;
    void count_places();
    Place place_of(const gguf::TensorInfo& tensor) const;
    Result<void> compile_overrides();
    std::optional<Type> overridden(const gguf::TensorInfo& tensor, Role role) const;
    Type wished(const gguf::TensorInfo& tensor) const;
    Result<PlannedTensor> planned(const gguf::TensorInfo& tensor) const;
    Result<std::span<const float>> importance_of(const gguf::TensorInfo& tensor) const;

    const gguf::File& file_;
    const QuantizePlanOptions& options_;
    const std::string shown_;
    std::vector<Pattern> patterns_;
    int64_t n_layer_ = 0, n_expert_ = 0, heads_per_kv_ = 1;
    bool is_tied_ = false;                         // the embedding table is also the output matrix
    std::map<Role, std::vector<int64_t>> layers_;  // layers of each role's tensors, ascending
};

/// A scalar, or the largest of an array with one number per layer.
Result<int64_t> Planner::heads(const std::string& key, int64_t fallback) const {
    const gguf::Value* value = file_.find(key);
    if (!value || !value->is_array()) return file_.get_int_or(key, fallback, 0, 1 << 20);
    int64_t most = 0;
    for (uint64_t i = 0; i < value->size(); i++) most = std::max(most, value->at(i).as_int().value_or(0));
    return most;
}

/// Reads the properties of the model that rules use; a file that is not a model has none.
Result<void> Planner::read_model() {
    TSR_TRY(const std::string_view arch, file_.get_string_or("general.architecture", ""));
    const std::string prefix = std::string(arch) + ".";
    TSR_TRY(n_layer_, file_.get_int_or(prefix + "block_count", 0, 0, 1 << 20));
    TSR_TRY(n_expert_, file_.get_int_or(prefix + "expert_count", 0, 0, 1 << 20));
    TSR_TRY(const int64_t n_head, heads(prefix + "attention.head_count", 1));
    TSR_TRY(const int64_t n_head_kv, heads(prefix + "attention.head_count_kv", n_head));
    heads_per_kv_ = n_head_kv > 0 ? n_head / n_head_kv : 1;
    is_tied_ = !file_.find_tensor("output.weight");
    return {};
}

void Planner::count_places() {
    for (const gguf::TensorInfo& tensor : file_.tensors())
        if (is_quantizable_here(tensor))
            layers_[role_from_name(tensor.name)].push_back(layer_of(tensor.name));
    for (auto& [role, layers] : layers_) std::sort(layers.begin(), layers.end());
}

Place Planner::place_of(const gguf::TensorInfo& tensor) const {
    Place place{.role = role_from_name(tensor.name),
                .n_expert = n_expert_,
                .heads_per_kv = heads_per_kv_,
                .has_importance = options_.importance != nullptr};
    if (place.role == Role::Embedding && is_tied_ && tensor.name == "token_embd.weight")
        place.role = Role::Output;
    const int64_t layer = layer_of(tensor.name);
    const auto found = layers_.find(place.role);
    if (found == layers_.end()) return place;
    const auto& layers = found->second;
    const bool is_feed_forward =
        place.role == Role::Down || place.role == Role::Gate || place.role == Role::Up;
    place.index = std::lower_bound(layers.begin(), layers.end(), layer) - layers.begin();
    place.count = static_cast<int64_t>(layers.size());
    if (is_feed_forward) {
        // These roles count the model's layers, and with experts use the layer's number.
        place.count = std::max(n_layer_, int64_t{1});
        if (n_expert_ > 1) place.index = layer;
    }
    return place;
}

Result<void> Planner::compile_overrides() {
    for (const TypeOverride& override : options_.overrides) {
        TSR_TRY(Pattern pattern, Pattern::compile(override.pattern));
        const auto tensors = file_.tensors();
        if (std::none_of(tensors.begin(), tensors.end(), [&pattern](const gguf::TensorInfo& tensor) {
                return is_quantizable_here(tensor) && pattern.found_in(std::string(tensor.name));
            }))
            return fail(
                ErrorCode::InvalidArgument,
                "override '%s': expected a pattern of quantizable tensors' names, but it matches none "
                "(tessera inspect --tensors lists them)",
                printable(override.pattern).c_str());
        patterns_.push_back(std::move(pattern));
    }
    return {};
}

std::optional<Type> Planner::overridden(const gguf::TensorInfo& tensor, Role role) const {
    const std::string name(tensor.name);
    for (size_t i = 0; i < patterns_.size(); i++)
        if (patterns_[i].found_in(name)) return options_.overrides[i].type;
    if (role == Role::Embedding && options_.embedding_type) return options_.embedding_type;
    if ((role == Role::Output || (role == Role::Embedding && is_tied_)) && options_.output_type)
        return options_.output_type;
    return {};
}

Type Planner::wished(const gguf::TensorInfo& tensor) const {
    const Mixture& mixture = *options_.mixture;
    if (const auto type = overridden(tensor, role_from_name(tensor.name))) return *type;
    if (options_.pure) return mixture.base;
    const Place place = place_of(tensor);
    if (mixture.only_experts) return tensor.n_dims > 2 && tensor.shape[0] > 1 ? mixture.base : mixture.output;
    const Type type = mixture.type_at(place);
    // If rows do not fit the base type's blocks, the output matrix gets more bits than the substitute has.
    if (place.role == Role::Output && !is_plain(mixture.base) &&
        tensor.n_cols() % type_info(mixture.base).block)
        return Type::Q8_0;
    // 70B models have eight query heads per key head, so that value matrices are small compared to their
    // influence.
    if (place.role == Role::Value && n_layer_ == 80 && heads_per_kv_ == 8 &&
        (type == Type::Q3_K || type == Type::Q4_K))
        return Type::Q5_K;
    return type;
}

Result<std::span<const float>> Planner::importance_of(const gguf::TensorInfo& tensor) const {
    if (!options_.importance) return std::span<const float>();
    const std::span<const float> found = options_.importance->find(tensor.name);
    const int64_t n_expert =
        tensor.n_dims > 2 ? tensor.n_elements() / tensor.n_cols() / tensor.shape[tensor.n_dims - 2] : 1;
    if (found.empty() || static_cast<int64_t>(found.size()) == n_expert * tensor.n_cols()) return found;
    return fail(
        ErrorCode::InvalidArgument,
        "%s: tensor '%s': expected %lld importances (%lld inputs of %lld matrices), found %zu: was the "
        "importance matrix made with another model?",
        shown_.c_str(), printable(tensor.name).c_str(), static_cast<long long>(n_expert * tensor.n_cols()),
        static_cast<long long>(tensor.n_cols()), static_cast<long long>(n_expert), found.size());
}

Result<PlannedTensor> Planner::planned(const gguf::TensorInfo& tensor) const {
    PlannedTensor plan{&tensor, tensor.type, tensor.data.size(), tensor.type, {}};
    if (!is_quantizable_here(tensor)) return plan;
    if (options_.keep_quantized && !options_.allow_requantize && !is_plain(tensor.type)) return plan;
    plan.wished = wished(tensor);
    plan.to = fitting(plan.wished, tensor.n_cols());
    const auto row_bytes = static_cast<uint64_t>(type_info(plan.to).row_bytes(tensor.n_cols()));
    plan.n_bytes = row_bytes * static_cast<uint64_t>(tensor.n_elements() / tensor.n_cols());
    if (!plan.is_converted()) return plan;
    const std::string to(type_info(plan.to).name);
    if (!type_info(plan.to).quantize)
        return fail(ErrorCode::Unsupported, "%s: tensor '%s': there is no encoder for type %s",
                    shown_.c_str(), printable(tensor.name).c_str(), to.c_str());
    if (!is_plain(tensor.type) && !options_.allow_requantize)
        return fail(
            ErrorCode::InvalidArgument,
            "%s: tensor '%s' is already quantized (%s): quantizing it again as %s loses more quality. Start "
            "from the F16 or F32 model, or pass --allow-requantize",
            shown_.c_str(), printable(tensor.name).c_str(), std::string(type_info(tensor.type).name).c_str(),
            to.c_str());
    TSR_TRY(plan.importance, importance_of(tensor));
    return plan;
}

Result<std::vector<PlannedTensor>> Planner::plan() {
    if (file_.is_packed())
        return fail(ErrorCode::InvalidArgument,
                    "%s: expected an unpacked file, found a packed container: unpack it first",
                    shown_.c_str());
    TSR_TRY_VOID(read_model());
    TSR_TRY_VOID(compile_overrides());
    count_places();
    std::vector<PlannedTensor> all;
    for (const gguf::TensorInfo& tensor : file_.tensors()) {
        TSR_TRY(PlannedTensor plan, planned(tensor));
        all.push_back(std::move(plan));
    }
    return all;
}

}  // namespace

bool is_quantizable(std::string_view name, int n_dims) {
    if (n_dims < 2 || !name.ends_with("weight")) return false;
    return std::none_of(std::begin(kKept), std::end(kKept),
                        [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

Result<TypeOverride> parse_type_override(std::string_view argument) {
    const size_t equals = argument.rfind('=');
    if (equals == std::string_view::npos || equals == 0)
        return fail(ErrorCode::InvalidArgument, "expected PATTERN=TYPE, such as ffn_down=q6_k, found '%s'",
                    printable(argument).c_str());
    TSR_TRY(const Type type, type_from_name(argument.substr(equals + 1)));
    if (!type_info(type).quantize)
        return fail(ErrorCode::Unsupported, "there is no encoder for type %s",
                    std::string(type_info(type).name).c_str());
    return TypeOverride{std::string(argument.substr(0, equals)), type};
}

Result<std::vector<PlannedTensor>> plan_quantization(const gguf::File& file,
                                                     const QuantizePlanOptions& options) {
    return Planner(file, options).plan();
}

}  // namespace tessera::convert
