// The table of mixtures. A mixture is a base type and rules for roles with other types. quantize_policy.cpp
// decides which tensors are quantized, and chooses types for rows that are not a multiple of a block.
#include "src/convert/quantize_mixture.h"

#include <string>
#include <vector>

#include "common/strings.h"

namespace tessera::convert {

namespace {

using enum Role;
using enum When;

bool is_first(const Place& at, int64_t nth) { return at.index < at.count / nth; }

bool applies(When when, const Place& at) {
    const int64_t eighth = at.count / 8;
    switch (when) {
        case Always:
            return true;
        case More:
            return at.index < eighth || at.index >= 7 * at.count / 8 || (at.index - eighth) % 3 == 2;
        case FirstEighth:
            return is_first(at, 8);
        case FirstSixteenth:
            return is_first(at, 16);
        case FirstTwo:
            return at.index < 2;
        case FirstFour:
            return at.index < 4;
        case Middle:
            return at.index >= eighth && at.index < 7 * at.count / 8;
        case Grouped:
            return at.heads_per_kv >= 4;
        case GroupedOrExperts:
            return at.heads_per_kv >= 4 || at.n_expert >= 4;
        case EightExperts:
            return at.n_expert == 8;
        case Blind:
            return !at.has_importance;
        case BlindFirstEighth:
            return !at.has_importance && is_first(at, 8);
        case SeeingFirstEighth:
            return at.has_importance && is_first(at, 8);
    }
    return false;
}

// Keys and values of models with eight experts are small and shared by all of them.
#define TSR_EIGHT_EXPERTS \
    {Key, EightExperts, Type::Q8_0}, { Value, EightExperts, Type::Q8_0 }

constexpr Rule kPlain[] = {TSR_EIGHT_EXPERTS};
constexpr Rule kQ4_0[] = {TSR_EIGHT_EXPERTS, {Down, SeeingFirstEighth, Type::Q4_1}};
constexpr Rule kQ5_0[] = {TSR_EIGHT_EXPERTS, {Down, SeeingFirstEighth, Type::Q5_1}};
constexpr Rule kQ2_K[] = {TSR_EIGHT_EXPERTS,
                          {Value, Grouped, Type::Q4_K},
                          {Value, Always, Type::Q3_K},
                          {AttnOutput, EightExperts, Type::Q5_K},
                          {AttnOutput, Always, Type::Q3_K},
                          {Down, Always, Type::Q3_K}};
constexpr Rule kQ2_K_S[] = {TSR_EIGHT_EXPERTS, {Value, Grouped, Type::Q4_K}, {Down, FirstEighth, Type::Q4_K}};
constexpr Rule kExpertsOutput[] = {TSR_EIGHT_EXPERTS, {AttnOutput, EightExperts, Type::Q5_K}};
constexpr Rule kQ3_K_M[] = {TSR_EIGHT_EXPERTS,
                            {Value, FirstTwo, Type::Q5_K},
                            {Value, Always, Type::Q4_K},
                            {AttnOutput, EightExperts, Type::Q5_K},
                            {AttnOutput, Always, Type::Q4_K},
                            {Down, FirstSixteenth, Type::Q5_K},
                            {Down, Always, Type::Q4_K}};
constexpr Rule kQ3_K_L[] = {TSR_EIGHT_EXPERTS,
                            {Value, Always, Type::Q5_K},
                            {AttnOutput, Always, Type::Q5_K},
                            {Down, Always, Type::Q5_K}};
constexpr Rule kQ4_K_S[] = {TSR_EIGHT_EXPERTS,
                            {Value, FirstFour, Type::Q5_K},
                            {AttnOutput, EightExperts, Type::Q5_K},
                            {Down, FirstEighth, Type::Q5_K}};
constexpr Rule kQ4_K_M[] = {TSR_EIGHT_EXPERTS,
                            {Value, More, Type::Q6_K},
                            {AttnOutput, EightExperts, Type::Q5_K},
                            {Down, More, Type::Q6_K}};
constexpr Rule kQ5_K_M[] = {TSR_EIGHT_EXPERTS, {Value, More, Type::Q6_K}, {Down, More, Type::Q6_K}};
constexpr Rule kIq4[] = {TSR_EIGHT_EXPERTS,
                         {Value, Grouped, Type::Q5_K},
                         {AttnOutput, EightExperts, Type::Q5_K},
                         {Down, BlindFirstEighth, Type::Q5_K}};
constexpr Rule kIq2Low[] = {{Value, GroupedOrExperts, Type::Q4_K},
                            {Value, Always, Type::Q2_K},
                            {Key, EightExperts, Type::Q4_K},
                            {Down, FirstEighth, Type::Q2_K},
                            {AttnOutput, EightExperts, Type::Q5_K}};
constexpr Rule kIq2High[] = {{Value, GroupedOrExperts, Type::Q4_K},  {Value, Always, Type::IQ3_S},
                             {Key, EightExperts, Type::Q4_K},        {Down, FirstEighth, Type::IQ3_S},
                             {AttnOutput, EightExperts, Type::Q5_K}, {AttnOutput, Always, Type::IQ3_S}};
constexpr Rule kIq3Xxs[] = {
    TSR_EIGHT_EXPERTS,          {Value, Grouped, Type::Q4_K},           {Value, Blind, Type::IQ3_S},
    {Key, Always, Type::IQ2_S}, {Query, Always, Type::IQ2_S},           {Down, BlindFirstEighth, Type::Q4_K},
    {Down, Blind, Type::Q3_K},  {AttnOutput, EightExperts, Type::Q5_K}, {AttnOutput, Always, Type::IQ3_S}};
constexpr Rule kIq3Xs[] = {TSR_EIGHT_EXPERTS,
                           {Value, Grouped, Type::Q4_K},
                           {Key, Always, Type::IQ3_XXS},
                           {Query, Always, Type::IQ3_XXS},
                           {Gate, Middle, Type::IQ3_XXS},
                           {Up, Middle, Type::IQ3_XXS},
                           {AttnOutput, EightExperts, Type::Q5_K}};
constexpr Rule kIq3S[] = {
    TSR_EIGHT_EXPERTS, {Value, Grouped, Type::Q4_K}, {AttnOutput, EightExperts, Type::Q5_K}};
constexpr Rule kIq3M[] = {TSR_EIGHT_EXPERTS,
                          {Value, Always, Type::Q4_K},
                          {Down, FirstEighth, Type::Q4_K},
                          {AttnOutput, EightExperts, Type::Q5_K},
                          {AttnOutput, Always, Type::Q4_K}};
#undef TSR_EIGHT_EXPERTS

constexpr Mixture plain(std::string_view name, uint32_t file_type, Type base,
                        std::span<const Rule> rules = kPlain) {
    return {name, file_type, base, Type::Q6_K, base, rules};
}
constexpr Mixture unquantized(std::string_view name, uint32_t file_type, Type base) {
    return {name, file_type, base, base, base, {}};
}
constexpr Mixture low(std::string_view name, uint32_t file_type, Type base, Type embedding,
                      std::span<const Rule> rules, Type output = Type::Q5_K) {
    return {name, file_type, base, output, embedding, rules, false, true};
}

constexpr Mixture kMixtures[] = {
    unquantized("F32", 0, Type::F32),
    unquantized("F16", 1, Type::F16),
    unquantized("BF16", 32, Type::BF16),
    {"Q8_0", 7, Type::Q8_0, Type::Q8_0, Type::Q8_0, {}},
    plain("Q6_K", 18, Type::Q6_K),
    plain("Q5_K_M", 17, Type::Q5_K, kQ5_K_M),
    plain("Q5_K_S", 16, Type::Q5_K),
    plain("Q5_1", 9, Type::Q5_1),
    plain("Q5_0", 8, Type::Q5_0, kQ5_0),
    plain("Q4_K_M", 15, Type::Q4_K, kQ4_K_M),
    plain("Q4_K_S", 14, Type::Q4_K, kQ4_K_S),
    plain("IQ4_NL", 25, Type::IQ4_NL, kIq4),
    plain("IQ4_XS", 30, Type::IQ4_XS, kIq4),
    plain("Q4_1", 3, Type::Q4_1),
    plain("Q4_0", 2, Type::Q4_0, kQ4_0),
    {"MXFP4_MOE", 38, Type::MXFP4, Type::Q8_0, Type::Q8_0, {}, true},
    plain("MXFP4", 38, Type::MXFP4),
    plain("Q3_K_L", 13, Type::Q3_K, kQ3_K_L),
    plain("Q3_K_M", 12, Type::Q3_K, kQ3_K_M),
    plain("Q3_K_S", 11, Type::Q3_K, kExpertsOutput),
    plain("IQ3_M", 27, Type::IQ3_S, kIq3M),
    plain("IQ3_S", 26, Type::IQ3_S, kIq3S),
    plain("IQ3_XS", 22, Type::IQ3_S, kIq3Xs),
    low("IQ3_XXS", 23, Type::IQ3_XXS, Type::IQ3_S, kIq3Xxs),
    plain("Q2_K", 10, Type::Q2_K, kQ2_K),
    low("Q2_K_S", 21, Type::Q2_K, Type::Q2_K, kQ2_K_S, Type::Q6_K),
    low("IQ2_M", 29, Type::IQ2_S, Type::IQ3_S, kIq2High),
    low("IQ2_S", 28, Type::IQ2_XS, Type::IQ3_S, kIq2High),
    low("IQ2_XS", 20, Type::IQ2_XS, Type::Q2_K, kIq2Low),
    low("IQ2_XXS", 19, Type::IQ2_XXS, Type::Q2_K, kIq2Low),
    {"TQ2_0", 37, Type::TQ2_0, Type::Q6_K, Type::Q4_K, {}},
    {"TQ1_0", 36, Type::TQ1_0, Type::Q6_K, Type::Q4_K, {}},
};

struct NamePart {
    std::string_view part;
    Role role;
};
constexpr NamePart kNameParts[] = {
    {"attn_qkv.weight", Value},
    {"attn_kv_b.weight", Value},
    {"attn_v.weight", Value},
    {"attn_k.weight", Key},
    {"attn_q.weight", Query},
    {"attn_output.weight", AttnOutput},
    {"ffn_up", Up},
    {"ffn_gate", Gate},
    {"ffn_down", Down},
};

}  // namespace

Role role_from_name(std::string_view name) {
    if (name == "output.weight") return Output;
    if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Embedding;
    for (const NamePart& known : kNameParts)
        if (name.find(known.part) != std::string_view::npos) return known.role;
    return Other;
}

Type Mixture::type_at(const Place& place) const {
    if (place.role == Output) return output;
    if (place.role == Embedding) return embedding;
    for (const Rule& rule : rules)
        if (rule.role == place.role && applies(rule.when, place)) return rule.type;
    return base;
}

std::span<const Mixture> all_mixtures() { return kMixtures; }

Result<const Mixture*> mixture_from_name(std::string_view name) {
    const std::string lower = to_lower(name);
    const bool family = lower == "q3_k" || lower == "q4_k" || lower == "q5_k";
    const std::string wanted = family ? lower + "_m" : lower;
    std::vector<std::string_view> names;
    std::string list;
    for (const Mixture& mixture : kMixtures) {
        if (to_lower(mixture.name) == wanted) return &mixture;
        names.push_back(mixture.name);
        list += (list.empty() ? "" : ", ") + std::string(mixture.name);
    }
    if (type_from_name(wanted))
        return fail(ErrorCode::Unsupported, "quantization type '%s' can be read, but not written",
                    printable(name).c_str());
    std::string upper = wanted;
    for (char& c : upper)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    const std::string_view nearest = nearest_name(upper, names);
    const std::string hint =
        nearest.empty() ? "expected one of " + list : "did you mean " + std::string(nearest) + "?";
    return fail(ErrorCode::InvalidArgument, "unknown quantization type '%s': %s", printable(name).c_str(),
                hint.c_str());
}

}  // namespace tessera::convert
