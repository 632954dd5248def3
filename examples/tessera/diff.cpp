// tessera diff: the differences between two GGUF files. The comparison is in src/convert/compare_files.cpp.
#include <cmath>

#include "common/cpu.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/convert/compare_files.h"

namespace tessera {

namespace {

using convert::FileDifference;
using convert::TensorDifference;

struct DiffArgs {
    std::string a, b;
    int64_t n_threads = 0;
    bool json = false, all = false;
};

double relative(const convert::TensorError& error) {
    return error.norm > 0 ? std::sqrt(error.square / error.norm) : 0;
}

std::string value_text(const gguf::Value* value) {
    return value ? std::string(gguf::value_type_name(value->type())) + " " + printable(value->to_string())
                 : "none";
}

std::string tensor_text(const gguf::TensorInfo* tensor) {
    if (!tensor) return "none";
    return std::string(type_info(tensor->type).name) + " " + tensor->shape_string();
}

Json tensor_json(const gguf::TensorInfo* tensor) {
    if (!tensor) return nullptr;
    return {{"type", std::string(type_info(tensor->type).name)},
            {"shape", std::vector<int64_t>(tensor->shape, tensor->shape + tensor->n_dims)},
            {"bytes", tensor->data.size()}};
}

Json as_json(const FileDifference& found) {
    Json out = {{"same", found.is_none()}, {"same_keys", found.n_same_keys}, {"keys", Json::array()}};
    for (const auto& row : found.keys)
        out["keys"].push_back({{"key", std::string(row.key)},
                               {"a", row.a ? Json(row.a->to_string()) : Json()},
                               {"b", row.b ? Json(row.b->to_string()) : Json()}});
    out["tensors"] = Json::array();
    for (const TensorDifference& row : found.tensors) {
        Json tensor = {{"name", std::string(row.name)},
                       {"same", row.same_bytes},
                       {"a", tensor_json(row.a)},
                       {"b", tensor_json(row.b)}};
        if (row.is_measured) {
            tensor["error"] = relative(row.error);
            tensor["largest_error"] = row.error.largest;
            tensor["finite"] = row.error.is_finite;
        }
        out["tensors"].push_back(std::move(tensor));
    }
    return out;
}

std::string as_text(const FileDifference& found, bool all) {
    std::string out;
    for (const auto& row : found.keys)
        out += strf("key %s: %s, %s\n", printable(row.key, 400).c_str(), value_text(row.a).c_str(),
                    value_text(row.b).c_str());
    int64_t n_same = 0;
    convert::TensorError sum;
    for (const TensorDifference& row : found.tensors) {
        n_same += row.same_bytes;
        sum.add(row.error);
        if (row.same_bytes && !all) continue;
        out += strf("%-42s %-24s", printable(row.name, 400).c_str(), tensor_text(row.a).c_str());
        if (row.same_bytes)
            out += " same";
        else
            out += strf(" %-24s", tensor_text(row.b).c_str());
        if (row.is_measured && !row.same_bytes)
            out += strf(" error %.6f, largest %.3g%s", relative(row.error), row.error.largest,
                        row.error.is_finite ? "" : ", NaN or infinite weights");
        out += "\n";
    }
    out += strf("%lld of %zu keys and %lld of %zu tensors are the same",
                static_cast<long long>(found.n_same_keys),
                static_cast<size_t>(found.n_same_keys) + found.keys.size(), static_cast<long long>(n_same),
                found.tensors.size());
    if (sum.norm > 0) out += strf("; relative error of the others %.6f", relative(sum));
    return out + "\n";
}

Result<void> compare(const DiffArgs& args) {
    TSR_TRY(const gguf::File a, gguf::File::open(args.a));
    TSR_TRY(const gguf::File b, gguf::File::open(args.b));
    ThreadPool pool(args.n_threads > 0 ? static_cast<int>(args.n_threads) : default_thread_count());
    const console::InterruptGuard guard;
    pool.set_abort_flag(&guard.flag());
    TSR_TRY(const FileDifference found, convert::compare_files(a, b, pool, console::byte_bar("comparing")));
    return console::print(args.json ? json_line(as_json(found)) : as_text(found, args.all));
}

Action declare_diff(Options& options) {
    auto args = std::make_shared<DiffArgs>();
    options.required("A", args->a, "A GGUF file; of a split model the first part.");
    options.required("B", args->b, "The other file.");
    options.integer("-t,--threads", args->n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.group("Output");
    options.flag("--all", args->all, "Also list the tensors that are the same.");
    options.flag("--json", args->json, "Print one JSON object with all tensors.");
    return [args] { return compare(*args); };
}

}  // namespace

const Command kDiff = {
    .name = "diff",
    .summary = "compare two model files",
    .help =
        "Lists the keys and tensors in which two GGUF files differ. For tensors of equal shapes, whatever "
        "their types, it also prints the relative error of B's weights, sqrt(sum (b - a)^2 / sum a^2), and "
        "the largest difference.",
    .examples =
        "  tessera diff model-f16.gguf model-q4_k_m.gguf\n"
        "  tessera diff old.gguf new.gguf --json | jq .same\n",
    .declare = declare_diff};

}  // namespace tessera
