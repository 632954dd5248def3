#pragma once
// What Hugging Face's model classes are to us, as data: which architecture, which names their tensors and
// numbers go by, and what has to be done to the values. Shapes and GGUF names are the ArchSpec's.
#include <span>
#include <string_view>
#include <utility>

#include "src/convert/hf_checkpoint.h"
#include "src/model/arch_spec.h"

namespace tessera::convert {

/// How the rows of our matrix lie in theirs.
enum class Take : uint8_t {
    All,
    Heads,        ///< rows of query or key heads: in pairs, where the architecture rotates neighbours
    PlusOne,      ///< theirs are 1 less
    FirstHalf,    ///< of a matrix with twice the rows
    SecondHalf,   ///< the same
    Even,         ///< rows 0, 2, ... of a matrix with twice the rows; of a vector the elements
    Odd,          ///< rows 1, 3, ...
    Columns,      ///< theirs is [n_in, n_out]
    EvenColumns,  ///< columns 0, 2, ... of an [n_in, 2 n_out]
    OddColumns,   ///< columns 1, 3, ...
};

/// One source of a tensor. Several rows for one name are alternatives: the first that the folder has counts.
struct HfTensor {
    std::string_view gguf;  ///< the ArchSpec's name
    std::string_view hf;  ///< after "model.layers.N." where it is a layer's; "{}" is the number of an expert
    Take take = Take::All;
    /// The truth value of config.json that says whether an optional tensor is there; for folders without
    /// weights.
    std::string_view flag = {};
};

/// A number of config.json under a key of ours (after the architecture's name).
struct HfKey {
    std::string_view hf, gguf;
    bool is_integer = false;
};

/// A value that the forward pass takes for granted: config.json has to say one of these, or nothing where
/// one of them is "".
struct HfDemand {
    std::string_view key;
    std::span<const std::string_view> values;
};

using HfDefault = std::pair<std::string_view, std::string_view>;

struct HfArch {
    std::string_view class_name;                              ///< in config.json's `architectures`
    std::string_view model_type;                              ///< where that is absent
    std::string_view arch;                                    ///< ArchSpec's name
    std::span<const std::span<const HfTensor>> tensors = {};  ///< in groups; earlier ones come first
    std::span<const HfKey> keys = {};                         ///< besides those that all have
    std::span<const HfDemand> demands = {};
    std::span<const HfDefault> defaults = {};
    std::string_view ff_key = "intermediate_size";
    /// Whether this row is the one, of several of a class; null: yes.
    bool (*applies)(const HfConfig& config) = nullptr;
    /// Whether layers of an architecture with windows have them in this class.
    bool has_windows = true;
};

std::span<const HfArch> all_hf_architectures();

/// The row of config.json's class. The error names the class and lists ours.
Result<const HfArch*> find_hf_architecture(const HfConfig& config);

/// Errors name the key, what the architecture takes and what was found.
Result<void> check_demands(const HfArch& arch, const HfConfig& config);

}  // namespace tessera::convert
