#pragma once
// Mixtures: which type each kind of tensor gets under a name such as Q4_K_M. The table gives the types that
// other programs give under that name, so that sizes and qualities can be compared.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/expected.h"
#include "quants/types.h"

namespace tessera::convert {

/// What a matrix does, as far as mixtures care. Value includes the fused attn_qkv and attn_kv_b.
enum class Role { Output, Embedding, Value, Key, Query, AttnOutput, Down, Gate, Up, Other };

/// The role that a tensor's name says.
Role role_from_name(std::string_view name);

/// What rules look at. `index` of `count`: the how-manieth matrix of its role, layer by layer.
struct Place {
    Role role = Role::Other;
    int64_t index = 0, count = 0;
    int64_t n_expert = 0;      ///< of the model
    int64_t heads_per_kv = 1;  ///< of the model
    bool has_importance = false;
};

/// When a rule applies.
enum class When {
    Always,
    More,  ///< the first and last eighth and every third in between
    FirstEighth,
    FirstSixteenth,
    FirstTwo,
    FirstFour,
    Middle,            ///< neither in the first nor in the last eighth
    Grouped,           ///< four or more heads share a key
    GroupedOrExperts,  ///< that, or four or more experts
    EightExperts,      ///< exactly
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
    Type base;                    ///< what no rule is about
    Type output;                  ///< output.weight, or the embedding table where it serves as such
    Type embedding;               ///< a table of its own
    std::span<const Rule> rules;  ///< the first that applies counts
    bool only_experts = false;    ///< base for matrices of experts, `output` for all others
    bool wants_importance = false;

    Type type_at(const Place& place) const;
};

std::span<const Mixture> all_mixtures();

/// By name, of any case; Q3_K, Q4_K and Q5_K mean their middle mixtures. The error hints at the nearest name.
Result<const Mixture*> mixture_from_name(std::string_view name);

}  // namespace tessera::convert
