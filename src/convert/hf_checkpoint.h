#pragma once
// An open Hugging Face folder: its JSON files, and the tensors of its safetensors files by name.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "common/json.h"
#include "src/convert/safetensors.h"

namespace tessera::convert {

/// Reads a JSON file; NotFound if there is none. Errors name the file.
Result<JsonValue> read_json_file(const std::string& path);
/// The same, or nothing if there is no file.
Result<std::optional<JsonValue>> read_optional_json(const std::string& path);
/// A file's bytes as text; NotFound if there is none.
Result<std::string> read_text_file(const std::string& path);

/// Numbers, strings and booleans of config.json. A text_config overrides the top level; null counts as
/// absent. Errors name the key, the expected value and the value found.
class HfConfig {
  public:
    explicit HfConfig(JsonValue root) : root_(std::move(root)) {}

    /// Defaults of the architecture for absent keys; static storage.
    void set_defaults(std::span<const std::pair<std::string_view, std::string_view>> defaults) {
        defaults_ = defaults;
    }

    const JsonValue* find(std::string_view key) const;
    bool has(std::string_view key) const { return find(key) || !fallback(key).empty(); }
    Result<int64_t> integer(std::string_view key, int64_t min, int64_t max) const;
    Result<int64_t> integer_or(std::string_view key, int64_t other, int64_t min, int64_t max) const;
    Result<double> real(std::string_view key) const;
    Result<double> real_or(std::string_view key, double other) const;
    Result<bool> boolean_or(std::string_view key, bool other) const;
    Result<std::string> text_or(std::string_view key, std::string_view other) const;
    /// The model's class: the first of `architectures`, or "".
    std::string class_name() const;
    /// Of the whole file, not of its text_config.
    const JsonValue& root() const { return root_; }

  private:
    std::string_view fallback(std::string_view key) const;

    JsonValue root_;
    std::span<const std::pair<std::string_view, std::string_view>> defaults_;
};

class HfCheckpoint {
  public:
    /// Reads config.json and the headers of all safetensors files: those of the index, or every
    /// `model*.safetensors`. A folder without weights can be opened; then has_weights() is false.
    static Result<HfCheckpoint> open(const std::string& folder);

    const std::string& folder() const { return folder_; }
    std::string path_of(std::string_view file) const { return folder_ + "/" + std::string(file); }
    HfConfig& config() { return config_; }
    const HfConfig& config() const { return config_; }
    bool has_weights() const { return !files_.empty(); }

    /// Finds a tensor by its name within the text model, "model.layers.0.input_layernorm.weight", even if the
    /// folder adds the prefix of a larger model. Null if absent.
    const SafeTensor* find(std::string_view name) const;
    const std::map<std::string, const SafeTensor*, std::less<>>& tensors() const { return tensors_; }
    /// Number of tensors of other parts (vision, audio), which are ignored.
    size_t n_foreign() const { return n_foreign_; }
    /// Releases the pages of a part of a tensor's data.
    void release(std::span<const std::byte> data) const;

  private:
    explicit HfCheckpoint(HfConfig config) : config_(std::move(config)) {}
    Result<void> open_files();
    Result<void> index_tensors();

    std::string folder_;
    HfConfig config_;
    std::vector<SafetensorsFile> files_;
    std::map<std::string, const SafeTensor*, std::less<>> tensors_;
    size_t n_foreign_ = 0;
};

}  // namespace tessera::convert
