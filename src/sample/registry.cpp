// The table of samplers in default order, and the parameters that belong to the chain as a whole. Every
// sampler must be listed here; there is no self-registration, since linkers drop unreferenced objects.
#include <algorithm>

#include "common/strings.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

extern const SamplerInfo kLogitBias;
extern const SamplerInfo kBannedStrings;
extern const SamplerInfo kPenalties;
extern const SamplerInfo kDry;
extern const SamplerInfo kNoRepeatNgram;
extern const SamplerInfo kTopNSigma;
extern const SamplerInfo kTopK;
extern const SamplerInfo kTypP;
extern const SamplerInfo kTopP;
extern const SamplerInfo kMinP;
extern const SamplerInfo kXtc;
extern const SamplerInfo kInfill;
extern const SamplerInfo kTemperature;
extern const SamplerInfo kAdaptiveP;
extern const SamplerInfo kMirostat;
extern const SamplerInfo kDraw;

namespace {

using Order = std::vector<const SamplerInfo*>;

Result<void> check_order(std::string_view text) {
    TSR_TRY_VOID(parse_order(text));
    return {};
}

Result<void> check_letters(std::string_view text) {
    TSR_TRY_VOID(parse_letters(text));
    return {};
}

constexpr ParamInfo kChainParams[] = {
    {.name = "min_keep",
     .kind = ParamKind::Int,
     .default_value = 0,
     .min = 0,
     .max = 16777216,
     .help = "typ_p, top_p, min_p and xtc keep at least this many tokens."},
    {.name = "samplers",
     .kind = ParamKind::Text,
     .form = "NAME;NAME;... or LETTERS",
     .check = check_order,
     .model_key = "sequence",
     .help = "Samplers to use, in order, by name or by letters such as edskypmxt; those not named are off. "
             "Empty: all, in the default order."},
    {.name = "sampling_seq",
     .kind = ParamKind::Text,
     .form = "LETTERS",
     .check = check_letters,
     .help = "The same by letters only, instead of `samplers`."},
};

// The order with mirostat if none is given: other filters would distort its estimate.
constexpr std::string_view kMirostatOrder = "temperature;mirostat";

const SamplerInfo* draw_row() { return &all_samplers().back(); }

/// Adds the samplers that are part of every order.
Order complete(Order order) {
    if (order.empty() || order.back() != draw_row()) order.push_back(draw_row());
    const std::span<const SamplerInfo> table = all_samplers();
    for (auto row = table.rbegin(); row != table.rend(); ++row) {
        if (row->always_first && std::find(order.begin(), order.end(), &*row) == order.end())
            order.insert(order.begin(), &*row);
    }
    return order;
}

Result<void> append(Order& order, const SamplerInfo& row, const char* param) {
    const std::string name(row.name);
    if (!order.empty() && order.back() == draw_row())
        return fail(ErrorCode::InvalidArgument, "%s: 'draw' ends the chain, found '%s' after it", param,
                    name.c_str());
    if (std::find(order.begin(), order.end(), &row) != order.end())
        return fail(ErrorCode::InvalidArgument, "%s: '%s' is named twice", param, name.c_str());
    order.push_back(&row);
    return {};
}

tl::unexpected<Error> unknown_sampler(std::string_view name) {
    std::string known;
    std::vector<std::string_view> names;
    for (const SamplerInfo& sampler : all_samplers()) {
        known += (known.empty() ? "" : ", ") + std::string(sampler.name);
        names.push_back(sampler.name);
    }
    const std::string nearest(nearest_name(name, names));
    const std::string hint = nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
    return fail(ErrorCode::InvalidArgument, "samplers: expected names among %s; found '%s'%s", known.c_str(),
                printable(name).c_str(), hint.c_str());
}

}  // namespace

std::span<const SamplerInfo> all_samplers() {
    // Copied on first use, since the rows are in other units: static initializers may use it too.
    static const SamplerInfo table[] = {
        kLogitBias, kBannedStrings, kPenalties, kDry,    kNoRepeatNgram, kTopNSigma, kTopK,     kTypP,
        kTopP,      kMinP,          kXtc,       kInfill, kTemperature,   kAdaptiveP, kMirostat, kDraw};
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

Result<Order> parse_order(std::string_view text) {
    const std::span<const SamplerInfo> table = all_samplers();
    Order order;
    if (trim(text).empty()) {
        for (const SamplerInfo& sampler : table) order.push_back(&sampler);
        return order;
    }
    // No name consists only of samplers' letters, so that names and letters cannot be confused.
    const auto is_letter = [table](char c) {
        return std::any_of(table.begin(), table.end(),
                           [c](const auto& s) { return s.letter && s.letter == c; });
    };
    if (std::all_of(text.begin(), text.end(), is_letter)) return parse_letters(text);
    std::string list(text);
    std::replace(list.begin(), list.end(), ',', ';');
    for (std::string_view part : split(list, ';')) {
        const std::string_view name = trim(part);
        const auto row =
            std::find_if(table.begin(), table.end(), [&](const auto& s) { return s.name == name; });
        if (row == table.end()) return unknown_sampler(name);
        TSR_TRY_VOID(append(order, *row, "samplers"));
    }
    return complete(std::move(order));
}

Result<Order> parse_letters(std::string_view text) {
    Order order;
    std::string known;
    for (const SamplerInfo& sampler : all_samplers()) {
        if (sampler.letter) known += strf("%s%c", known.empty() ? "" : ", ", sampler.letter);
    }
    for (size_t i = 0; i < text.size(); i++) {
        const std::span<const SamplerInfo> table = all_samplers();
        const auto row = std::find_if(table.begin(), table.end(),
                                      [&](const auto& s) { return s.letter && s.letter == text[i]; });
        if (row == table.end())
            return fail(ErrorCode::InvalidArgument, "sampling_seq: expected letters among %s; found '%s'",
                        known.c_str(), printable(text.substr(i, 1)).c_str());
        TSR_TRY_VOID(append(order, *row, "sampling_seq"));
    }
    return complete(std::move(order));
}

Result<Order> chosen_order(const Params& params) {
    const std::string &names = params.text("samplers"), &letters = params.text("sampling_seq");
    const bool asked =
        !trim(names).empty() && params.given("samplers");  // by the user, not by the model file
    if (!letters.empty()) {
        if (asked)
            return fail(ErrorCode::InvalidArgument,
                        "expected samplers or sampling_seq, found both ('%s' and '%s')",
                        printable(names).c_str(), printable(letters).c_str());
        return parse_letters(letters);
    }
    if (!asked && params.number("mirostat") != 0) return parse_order(kMirostatOrder);
    return parse_order(names);
}

Result<const text::Tokenizer*> need_tokenizer(const Setting& setting, const char* param) {
    if (setting.tokenizer) return setting.tokenizer;
    return fail(ErrorCode::InvalidArgument, "%s: expected a tokenizer, which this sampler needs, found none",
                param);
}

}  // namespace tessera::sample
