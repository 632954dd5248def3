// tessera inspect: the content of a GGUF file, validated, without loading a model from it. Works on every
// valid container of any architecture; names and texts from the file are escaped before they are printed.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/cpu.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "examples/tessera/type_name.h"
#include "ggml-like/gguf/packed.h"
#include "src/model/arch_spec.h"

namespace tessera {

namespace {

constexpr uint64_t kJsonItems = 16;  // elements shown of a long array
constexpr size_t kValueChars = 100;
constexpr size_t kNameChars = 400;

struct InspectArgs {
    FileOptions file;
    bool json = false, keys = false, tensors = false, check = false;
};

struct TypeCount {
    int64_t n_tensors = 0, n_elements = 0;
    uint64_t n_bytes = 0;

    double bits_per_weight() const {
        return n_elements > 0 ? 8.0 * static_cast<double>(n_bytes) / static_cast<double>(n_elements) : 0;
    }
};

/// Sums over all tensors.
struct Totals {
    std::map<Type, TypeCount> types;
    int64_t n_params = 0;
    uint64_t n_bytes = 0;  // of tensor data
    double bits_per_weight = 0;

    explicit Totals(const gguf::File& file) {
        for (const gguf::TensorInfo& tensor : file.tensors()) {
            TypeCount& count = types[tensor.type];
            count.n_tensors++;
            count.n_elements += tensor.n_elements();
            count.n_bytes += tensor.data.size();
            n_params += tensor.n_elements();
            n_bytes += tensor.data.size();
        }
        if (n_params > 0)
            bits_per_weight = 8.0 * static_cast<double>(n_bytes) / static_cast<double>(n_params);
    }

    /// Share of all tensors' bytes, 0..1.
    double share(const TypeCount& count) const {
        return n_bytes > 0 ? static_cast<double>(count.n_bytes) / static_cast<double>(n_bytes) : 0;
    }

    /// Types in descending order of their share.
    std::vector<std::pair<Type, TypeCount>> by_size() const {
        std::vector<std::pair<Type, TypeCount>> rows(types.begin(), types.end());
        std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
            return a.second.n_bytes != b.second.n_bytes ? a.second.n_bytes > b.second.n_bytes
                                                        : a.first < b.first;
        });
        return rows;
    }
};

std::string layout_name(Layout layout) {
    return std::string(layout == Layout::Packed ? gguf::kPackedLayout : "rows");
}

/// "p8x4 version 2, 15 of 20 tensors".
std::string packed_text(const gguf::File& file) {
    const auto is_packed = [](const gguf::TensorInfo& tensor) { return tensor.layout == Layout::Packed; };
    const auto n_packed = std::count_if(file.tensors().begin(), file.tensors().end(), is_packed);
    return strf("%s version %u, %td of %zu tensors", layout_name(Layout::Packed).c_str(),
                gguf::kPackedVersion, n_packed, file.tensors().size());
}

std::string architecture(const gguf::File& file) {
    const gguf::Value* value = file.find("general.architecture");
    const auto name = value ? value->as_string() : std::nullopt;
    return name ? std::string(*name) : "";
}

Json scalar_json(const gguf::Value& value) {
    if (const auto text = value.as_string()) return std::string(*text);
    if (value.type() == gguf::ValueType::Bool) return value.as_bool().value_or(false);
    if (const auto number = value.as_int()) return *number;
    if (const auto number = value.as_float()) return *number;
    return value.to_string();
}

Json value_json(const gguf::Value& value) {
    if (!value.is_array())
        return {{"type", gguf::value_type_name(value.type())}, {"value", scalar_json(value)}};
    Json first = Json::array();
    for (uint64_t i = 0; i < std::min(value.size(), kJsonItems); i++)
        first.push_back(scalar_json(value.at(i)));
    return {{"type", "array"},
            {"element", gguf::value_type_name(value.element_type())},
            {"size", value.size()},
            {"first", first}};
}

Json tensor_json(const gguf::TensorInfo& tensor) {
    return {{"name", std::string(tensor.name)},
            {"type", type_name(tensor.type)},
            {"layout", layout_name(tensor.layout)},
            {"shape", std::vector<int64_t>(tensor.shape, tensor.shape + tensor.n_dims)},
            {"bytes", tensor.data.size()},
            {"file", tensor.file_index}};
}

Json file_json(const gguf::File& file, bool keys, bool tensors) {
    const Totals totals(file);
    const std::string arch = architecture(file);
    Json out = {{"path", file.path()},
                {"version", file.version()},
                {"alignment", file.alignment()},
                {"files", file.n_files()},
                {"bytes", file.total_bytes()},
                {"tensor_bytes", totals.n_bytes},
                {"metadata_bytes", file.total_bytes() - totals.n_bytes},
                {"architecture", arch},
                {"runs", find_architecture(arch).has_value()},
                {"parameters", totals.n_params},
                {"bits_per_weight", rounded(totals.bits_per_weight)}};
    out["layout"] = layout_name(file.is_packed() ? Layout::Packed : Layout::Rows);
    out["types"] = Json::object();
    for (const auto& [type, count] : totals.by_size())
        out["types"][type_name(type)] = {{"tensors", count.n_tensors},
                                         {"elements", count.n_elements},
                                         {"bytes", count.n_bytes},
                                         {"bits_per_weight", rounded(count.bits_per_weight())},
                                         {"share", rounded(totals.share(count), 4)}};
    if (keys) {
        // Pushed as pairs, since a look-up of each key would make this quadratic.
        auto& object = out["keys"] = Json::object();
        auto& members = object.get_ref<Json::object_t&>();
        for (const gguf::KeyValue& entry : file.keys())
            members.Json::object_t::Container::emplace_back(std::string(entry.key), value_json(entry.value));
    }
    if (tensors) {
        out["tensors"] = Json::array();
        for (const gguf::TensorInfo& tensor : file.tensors()) out["tensors"].push_back(tensor_json(tensor));
    }
    return out;
}

/// A bar of 20 characters, filled up to `share`.
std::string histogram_bar(double share) {
    constexpr size_t kWidth = 20;
    const auto n = static_cast<size_t>(std::lround(share * static_cast<double>(kWidth)));
    return std::string(n, '#') + std::string(kWidth - n, '.');
}

std::string summary_text(const gguf::File& file) {
    const Totals totals(file);
    const std::string arch = architecture(file);
    std::string out;
    const auto line = [&out](const char* name, const std::string& value) {
        out += strf("%-14s %s\n", name, value.c_str());
    };
    line("file", printable(file.path(), kNameChars) +
                     (file.n_files() > 1 ? strf(" and %d more parts", file.n_files() - 1) : ""));
    line("size", strf("%s: %s of tensors, %s of keys, names and padding",
                      format_bytes(file.total_bytes()).c_str(), format_bytes(totals.n_bytes).c_str(),
                      format_bytes(file.total_bytes() - totals.n_bytes).c_str()));
    line("container",
         strf("GGUF version %u, alignment %llu, %zu keys, %zu tensors", file.version(),
              static_cast<unsigned long long>(file.alignment()), file.keys().size(), file.tensors().size()));
    if (file.is_packed()) line("packed", packed_text(file));
    line("architecture",
         arch.empty()
             ? "none named"
             : printable(arch) + (find_architecture(arch) ? "" : " (not supported by this version)"));
    line("parameters",
         strf("%s, %.2f bits each", format_count(totals.n_params).c_str(), totals.bits_per_weight));
    for (const auto& [type, count] : totals.by_size())
        line(("  " + type_name(type)).c_str(),
             strf("%s %5.1f %%, %lld tensors, %s weights, %s", histogram_bar(totals.share(count)).c_str(),
                  100 * totals.share(count), static_cast<long long>(count.n_tensors),
                  format_count(count.n_elements).c_str(), format_bytes(count.n_bytes).c_str()));
    return out;
}

std::string keys_text(const gguf::File& file) {
    std::string out = "\nkeys\n";
    for (const gguf::KeyValue& entry : file.keys())
        out += strf("  %-42s %-7s %s\n", printable(entry.key, kNameChars).c_str(),
                    gguf::value_type_name(entry.value.type()),
                    printable(entry.value.to_string(), kValueChars).c_str());
    return out;
}

std::string tensors_text(const gguf::File& file) {
    std::string out = "\ntensors\n";
    for (const gguf::TensorInfo& tensor : file.tensors())
        out +=
            strf("  %-42s %-8s %-18s %s%s\n", printable(tensor.name, kNameChars).c_str(),
                 type_name(tensor.type).c_str(), tensor.shape_string().c_str(),
                 format_bytes(tensor.data.size()).c_str(), tensor.layout == Layout::Packed ? ", packed" : "");
    return out;
}

Result<void> inspect(const InspectArgs& args) {
    TSR_TRY(const gguf::File file, args.file.open());
    if (args.check) {
        TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
        ThreadPool pool(default_thread_count());
        TSR_TRY_VOID(check_file(file, pool, *isa->table));
    }
    const bool keys = args.keys || !args.tensors, tensors = args.tensors || !args.keys;
    if (args.json) return console::print(json_line(file_json(file, keys, tensors)));
    std::string out = summary_text(file);
    if (keys) out += keys_text(file);
    if (tensors) out += tensors_text(file);
    return console::print(out);
}

Action declare_inspect(Options& options) {
    auto args = std::make_shared<InspectArgs>();
    args->file.declare(options, "FILE");
    options.flag("--check", args->check,
                 "Also look for infinite and NaN weights, which reads the whole file.");
    options.group("Output");
    options.flag("--keys", args->keys, "List the keys only.");
    options.flag("--tensors", args->tensors, "List the tensors only.");
    options.flag("--json", args->json, "Print one JSON object; of a long array its size and first elements.");
    return [args] { return inspect(*args); };
}

}  // namespace

const Command kInspect = {
    .name = "inspect",
    .summary = "show the metadata and tensors of a model file",
    .help =
        "Validates a GGUF file and shows its keys, its tensors and their totals. It works for every "
        "architecture, also those that tessera does not run.",
    .examples =
        "  tessera inspect model.gguf\n"
        "  tessera inspect model.gguf --tensors | grep q6_k\n"
        "  tessera inspect model.gguf --json --keys | jq '.keys[\"general.name\"].value'\n",
    .declare = declare_inspect};

}  // namespace tessera
