// The table of samplers in default order, and the parameters that belong to the chain as a whole. A sampler
// that is not named here does not exist; there is no self-registration, which linkers drop.
#include <algorithm>

#include "common/strings.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kLogitBias;
extern const SamplerInfo kPenalties;
extern const SamplerInfo kTopK;
extern const SamplerInfo kTopP;
extern const SamplerInfo kMinP;
extern const SamplerInfo kTemperature;
extern const SamplerInfo kDraw;

namespace {

Result<void> check_order(std::string_view text) {
    TSR_TRY_VOID(parse_order(text));
    return {};
}

constexpr ParamInfo kChainParams[] = {
    {.name = "samplers",
     .kind = ParamKind::Text,
     .form = "NAME;NAME;...",
     .check = check_order,
     .help = "The samplers to use, in order; those not named are off. Empty: all, in the default order."},
};

}  // namespace

std::span<const SamplerInfo> all_samplers() {
    // Copied on first use, for the rows lie in other units; thus it is also there for static initialisers.
    static const SamplerInfo table[] = {kLogitBias, kPenalties, kTopK, kTopP, kMinP, kTemperature, kDraw};
    return table;
}

std::span<const ParamInfo> all_params() {
    static const std::vector<ParamInfo> rows = [] {
        std::vector<ParamInfo> all;
        for (const SamplerInfo& sampler : all_samplers()) {
            all.insert(all.end(), sampler.params.begin(), sampler.params.end());
        }
        all.insert(all.end(), std::begin(kChainParams), std::end(kChainParams));
        return all;
    }();
    return rows;
}

Result<std::vector<const SamplerInfo*>> parse_order(std::string_view text) {
    const std::span<const SamplerInfo> table = all_samplers();
    const SamplerInfo* const draw = &table.back();
    std::vector<const SamplerInfo*> order;
    if (trim(text).empty()) {
        for (const SamplerInfo& sampler : table) order.push_back(&sampler);
        return order;
    }
    std::string list(text);
    std::replace(list.begin(), list.end(), ',', ';');
    for (std::string_view part : split(list, ';')) {
        const std::string_view name = trim(part);
        const auto row =
            std::find_if(table.begin(), table.end(), [&](const auto& s) { return s.name == name; });
        if (row == table.end()) {
            std::string known;
            for (const SamplerInfo& sampler : table)
                known += (known.empty() ? "" : ", ") + std::string(sampler.name);
            return fail(ErrorCode::InvalidArgument, "samplers: expected names among %s; found '%s'",
                        known.c_str(), printable(name).c_str());
        }
        if (!order.empty() && order.back() == draw) {
            return fail(ErrorCode::InvalidArgument, "samplers: 'draw' ends the chain, found '%s' after it",
                        printable(name).c_str());
        }
        if (std::find(order.begin(), order.end(), &*row) != order.end()) {
            return fail(ErrorCode::InvalidArgument, "samplers: '%s' is named twice", printable(name).c_str());
        }
        order.push_back(&*row);
    }
    if (order.back() != draw) order.push_back(draw);
    return order;
}

}  // namespace tessera::sample
