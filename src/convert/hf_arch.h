#pragma once
// Tables of Hugging Face's model classes: their architecture, the names of their tensors and hyperparameters,
// and the conversions of values. Shapes and GGUF names come from the ArchSpec.
#include <span>
#include <string_view>
#include <utility>

#include "src/convert/hf_checkpoint.h"
#include "src/model/arch_spec.h"

namespace tessera::convert {

/// How the rows of a GGUF matrix are stored in the checkpoint.
enum class Take : uint8_t {
    All,
    Heads,        ///< rows of query or key heads: permuted if the architecture rotates adjacent pairs
    PlusOne,      ///< the checkpoint's values are 1 less
    FirstHalf,    ///< first half of a matrix with twice the rows
    SecondHalf,   ///< second half
    Even,         ///< rows (or elements of a vector) 0, 2, ... of a matrix with twice the rows
    Odd,          ///< rows 1, 3, ...
    Columns,      ///< transposed: [n_in, n_out]
    EvenColumns,  ///< columns 0, 2, ... of an [n_in, 2 n_out]
    OddColumns,   ///< columns 1, 3, ...
};

/// One source of a tensor. Several rows for one name are alternatives: the first one found in the folder is
/// used.
struct HfTensor {
    std::string_view gguf;  ///< the ArchSpec's name
    std::string_view hf;    ///< after "model.layers.N." for a layer's tensor; "{}" is the number of an expert
    Take take = Take::All;
    /// The boolean in config.json that tells whether an optional tensor exists; for folders without weights.
    std::string_view flag = {};
};

/// A number of config.json and its GGUF key (after the architecture's name).
struct HfKey {
    std::string_view hf, gguf;
    bool is_integer = false;
};

/// A value that the forward pass requires: config.json must have one of these, or no such key if one of them
/// is "".
struct HfDemand {
    std::string_view key;
    std::span<const std::string_view> values;
};

using HfDefault = std::pair<std::string_view, std::string_view>;

struct HfArch {
    std::string_view class_name;                              ///< in config.json's `architectures`
    std::string_view model_type;                              ///< used if class_name is absent
    std::string_view arch;                                    ///< ArchSpec's name
    std::span<const std::span<const HfTensor>> tensors = {};  ///< in groups, in order of precedence
    std::span<const HfKey> keys = {};                         ///< in addition to the common ones
    std::span<const HfDemand> demands = {};
    std::span<const HfDefault> defaults = {};
    std::string_view ff_key = "intermediate_size";
    /// Selects among several rows of a class; null: always.
    bool (*applies)(const HfConfig& config) = nullptr;
    /// Whether this class uses the architecture's sliding windows.
    bool has_windows = true;
};

std::span<const HfArch> all_hf_architectures();

/// The row of config.json's class. The error names the class and lists the supported ones.
Result<const HfArch*> find_hf_architecture(const HfConfig& config);

/// Errors name the key, the required values and the value found.
Result<void> check_demands(const HfArch& arch, const HfConfig& config);

}  // namespace tessera::convert
