#pragma once
// Mixtures: the types of tensors for a name such as Q4_K_M. The table has the same types as other programs
// under that name, so that sizes and quality can be compared.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/expected.h"
#include "quants/types.h"

namespace tessera::convert {

/// The role of a matrix in rules of mixtures. Value includes the fused attn_qkv and attn_kv_b.
enum class Role { Output, Embedding, Value, Key, Query, AttnOutput, Down, Gate, Up, Other };

/// The role of a tensor by its name.
Role role_from_name(std::string_view name);

/// Inputs of rules. `index` of `count`: position among the matrices of the same role, by layer.
struct Place {
    Role role = Role::Other;
    int64_t index = 0, count = 0;
    int64_t n_expert = 0;      ///< of the model
    int64_t heads_per_kv = 1;  ///< of the model
    bool has_importance = false;
};

/// Conditions of rules.
enum class When {
    Always,
    More,  ///< the first and last eighth and every third in between
    FirstEighth,
    FirstSixteenth,
    FirstTwo,
    FirstFour,
    Middle,            ///< neither in the first nor in the last eighth
    Grouped,           ///< four or more heads share a key
    GroupedOrExperts,  ///< Grouped, or four or more experts
    EightExperts,      ///< exactly eight experts
    Blind,             ///< no importance matrix
    BlindFirstEighth,
    SeeingFirstEighth  ///< with an importance matrix
};

struct Rule {
    Role role;
    When when;
    Type type;
};

struct Mixture {
    std::string_view name;        ///< upper case, e.g. "Q4_K_M"
    uint32_t file_type;           ///< general.file_type
    Type base;                    ///< the type if no rule applies
    Type output;                  ///< output.weight, or the embedding table if tied
    Type embedding;               ///< an embedding table that is not tied
    std::span<const Rule> rules;  ///< the first one that applies is used
    bool only_experts = false;    ///< `base` for matrices of experts, `output` for all others
    bool wants_importance = false;

    Type type_at(const Place& place) const;
};

std::span<const Mixture> all_mixtures();

/// Finds a mixture by its name, in any case; Q3_K, Q4_K and Q5_K mean their _M mixtures. The error suggests
/// the nearest name.
Result<const Mixture*> mixture_from_name(std::string_view name);

}  // namespace tessera::convert
