// Finds and opens the files of a Hugging Face folder. hf_arch.cpp defines the required names; safetensors.cpp
// reads the safetensors files.
#include "src/convert/hf_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "common/mapped_file.h"
#include "common/strings.h"

namespace tessera::convert {

namespace fs = std::filesystem;

namespace {

/// Prefixes of text models inside larger models, and their replacements.
constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
    {"model.language_model.", "model."},
};
/// Parts of larger models other than the text model.
constexpr std::string_view kForeign[] = {
    "vision_tower.", "model.vision_tower.", "multi_modal_projector.", "model.multi_modal_projector.",
    "vision_model.", "model.vision_model.", "audio_tower.",           "model.audio_tower.",
};

std::string name_in_text_model(std::string_view name) {
    for (const auto& [prefix, other] : kPrefixes)
        if (name.starts_with(prefix)) return std::string(other) + std::string(name.substr(prefix.size()));
    return std::string(name);
}

const JsonValue* present(const JsonValue* value) {
    return value && !value->is(JsonValue::Kind::Null) ? value : nullptr;
}

std::string shown(const JsonValue& value) {
    if (value.is(JsonValue::Kind::Number)) return printable(value.text, 40);
    if (value.is(JsonValue::Kind::String)) return "\"" + printable(value.text, 40) + "\"";
    if (value.is(JsonValue::Kind::Boolean)) return value.boolean ? "true" : "false";
    return json_kind_name(value.kind);
}

tl::unexpected<Error> wrong(std::string_view key, const std::string& expected, const JsonValue& found) {
    return fail(ErrorCode::Malformed, "config.json: '%s': expected %s, found %s", printable(key).c_str(),
                expected.c_str(), shown(found).c_str());
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
    TSR_TRY(const MappedFile file, MappedFile::open(path));
    const auto bytes = file.bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<JsonValue> read_json_file(const std::string& path) {
    TSR_TRY(const MappedFile file, MappedFile::open(path));
    const auto bytes = file.bytes();
    auto json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!json) return fail_in(printable(path, 400), std::move(json.error()));
    return json;
}

Result<std::optional<JsonValue>> read_optional_json(const std::string& path) {
    auto json = read_json_file(path);
    if (json) return std::optional(std::move(*json));
    if (json.error().code == ErrorCode::NotFound) return std::optional<JsonValue>();
    return tl::unexpected<Error>(std::move(json.error()));
}

const JsonValue* HfConfig::find(std::string_view key) const {
    if (const JsonValue* text = present(root_.find("text_config")))
        if (const JsonValue* value = present(text->find(key))) return value;
    return present(root_.find(key));
}

std::string_view HfConfig::fallback(std::string_view key) const {
    for (const auto& [name, value] : defaults_)
        if (name == key) return value;
    return {};
}

Result<int64_t> HfConfig::integer(std::string_view key, int64_t min, int64_t max) const {
    const JsonValue* value = find(key);
    if (!value) {
        if (const auto usual = parse_int(fallback(key))) return *usual;
        return fail(ErrorCode::NotFound, "config.json: '%s': expected an integer, found none",
                    printable(key).c_str());
    }
    const auto n = value->is(JsonValue::Kind::Number) ? parse_int(value->text) : std::nullopt;
    if (!n || *n < min || *n > max)
        return wrong(
            key,
            strf("an integer from %lld to %lld", static_cast<long long>(min), static_cast<long long>(max)),
            *value);
    return *n;
}

Result<int64_t> HfConfig::integer_or(std::string_view key, int64_t other, int64_t min, int64_t max) const {
    return has(key) ? integer(key, min, max) : Result<int64_t>(other);
}

Result<double> HfConfig::real(std::string_view key) const {
    const JsonValue* value = find(key);
    if (!value) {
        if (const auto usual = parse_double(fallback(key))) return *usual;
        return fail(ErrorCode::NotFound, "config.json: '%s': expected a number, found none",
                    printable(key).c_str());
    }
    const auto x = value->is(JsonValue::Kind::Number) ? parse_double(value->text) : std::nullopt;
    if (!x) return wrong(key, "a number", *value);
    return *x;
}

Result<double> HfConfig::real_or(std::string_view key, double other) const {
    return has(key) ? real(key) : Result<double>(other);
}

Result<bool> HfConfig::boolean_or(std::string_view key, bool other) const {
    const JsonValue* value = find(key);
    if (!value) return fallback(key).empty() ? other : fallback(key) == "true";
    if (!value->is(JsonValue::Kind::Boolean)) return wrong(key, "true or false", *value);
    return value->boolean;
}

Result<std::string> HfConfig::text_or(std::string_view key, std::string_view other) const {
    const JsonValue* value = find(key);
    if (!value) return std::string(fallback(key).empty() ? other : fallback(key));
    if (!value->is(JsonValue::Kind::String)) return wrong(key, "a text", *value);
    return value->text;
}

std::string HfConfig::class_name() const {
    const JsonValue* classes = present(root_.find("architectures"));
    if (!classes || !classes->is(JsonValue::Kind::Array) || classes->items.empty() ||
        !classes->items[0].is(JsonValue::Kind::String))
        return "";
    return classes->items[0].text;
}

Result<HfCheckpoint> HfCheckpoint::open(const std::string& folder) {
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored))
        return fail(ErrorCode::NotFound, "'%s': expected a folder with a config.json and safetensors files",
                    printable(folder, 400).c_str());
    if (!std::filesystem::exists(folder + "/config.json", ignored))
        return fail(ErrorCode::NotFound, "'%s' is not a Hugging Face folder: it has no config.json",
                    printable(folder, 400).c_str());
    TSR_TRY(JsonValue config, read_json_file(folder + "/config.json"));
    if (!config.is(JsonValue::Kind::Object))
        return fail(ErrorCode::Malformed, "config.json: expected an object, found %s",
                    json_kind_name(config.kind));
    HfCheckpoint checkpoint{HfConfig(std::move(config))};
    checkpoint.folder_ = folder;
    TSR_TRY_VOID(checkpoint.open_files());
    TSR_TRY_VOID(checkpoint.index_tensors());
    return checkpoint;
}

Result<void> HfCheckpoint::open_files() {
    std::set<std::string> names;
    TSR_TRY(const auto index, read_optional_json(path_of("model.safetensors.index.json")));
    if (index) {
        const JsonValue* map = index->find("weight_map");
        if (!map || !map->is(JsonValue::Kind::Object))
            return fail(ErrorCode::Malformed,
                        "model.safetensors.index.json: expected a weight_map, found none");
        for (const auto& [tensor, file] : map->members) {
            if (!file.is(JsonValue::Kind::String) || file.text.empty() ||
                file.text.find('/') != std::string::npos)
                return fail(ErrorCode::Malformed,
                            "model.safetensors.index.json: '%s': expected the name of a file in the folder",
                            printable(tensor).c_str());
            names.insert(file.text);
        }
    } else {
        std::error_code error;
        bool has_pickles = false;
        for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
            const std::string name = at->path().filename().string();
            if (name.starts_with("model") && name.ends_with(".safetensors")) names.insert(name);
            has_pickles = has_pickles || (name.starts_with("pytorch_model") && name.ends_with(".bin"));
        }
        if (error)
            return fail(ErrorCode::Io, "cannot list '%s': %s", printable(folder_, 400).c_str(),
                        error.message().c_str());
        if (names.empty() && has_pickles)
            return fail(ErrorCode::Unsupported,
                        "'%s': pickled weights (pytorch_model*.bin) are not supported; save the "
                        "model as safetensors",
                        printable(folder_, 400).c_str());
    }
    for (const std::string& name : names) {
        TSR_TRY(SafetensorsFile file, SafetensorsFile::open(path_of(name)));
        files_.push_back(std::move(file));
    }
    if (!index) return {};
    std::set<std::string_view> present_names;
    for (const SafetensorsFile& file : files_)
        for (const SafeTensor& tensor : file.tensors()) present_names.insert(tensor.name);
    for (const auto& [tensor, file] : index->find("weight_map")->members)
        if (!present_names.contains(tensor))
            return fail(
                ErrorCode::Malformed,
                "tensor '%s': expected in '%s', as model.safetensors.index.json says, but not found there",
                printable(tensor).c_str(), printable(file.text).c_str());
    return {};
}

Result<void> HfCheckpoint::index_tensors() {
    for (const SafetensorsFile& file : files_) {
        for (const SafeTensor& tensor : file.tensors()) {
            if (std::any_of(std::begin(kForeign), std::end(kForeign),
                            [&](std::string_view part) { return tensor.name.starts_with(part); })) {
                n_foreign_++;
                continue;
            }
            if (!tensors_.emplace(name_in_text_model(tensor.name), &tensor).second)
                return fail(ErrorCode::Malformed, "%s: tensor '%s' occurs twice in the folder",
                            printable(file.path(), 400).c_str(), printable(tensor.name).c_str());
        }
    }
    return {};
}

const SafeTensor* HfCheckpoint::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second;
}

void HfCheckpoint::release(std::span<const std::byte> data) const {
    for (const SafetensorsFile& file : files_) file.release(data);
}

}  // namespace tessera::convert
