// Walks the rows of parameters, which name their keys in model files.
#include "src/sample/model_defaults.h"

#include "common/log.h"

namespace tessera::sample {

namespace {

Result<void> take_over(const ParamInfo& param, const gguf::Value& value, Params& params) {
    if (!param.is_number()) {
        const std::optional<std::string_view> text = value.as_string();
        if (!text) return fail(ErrorCode::Malformed, "expected text, found %s", value.to_string().c_str());
        return params.set_default(param.name, *text);
    }
    const std::optional<double> number = value.as_float();
    if (!number) return fail(ErrorCode::Malformed, "expected a number, found %s", value.to_string().c_str());
    return params.set_default(param.name, *number);
}

}  // namespace

std::vector<std::string> apply_model_defaults(const gguf::File& file, Params& params) {
    std::vector<std::string> names;
    for (const ParamInfo& param : all_params()) {
        if (param.model_key.empty() || params.given(param.name)) continue;
        const std::string key = "general.sampling." + std::string(param.model_key);
        const gguf::Value* const value = file.find(key);
        if (!value) continue;
        if (const auto taken = take_over(param, *value, params); !taken) {
            log::warn("model file: %s is ignored: %s", key.c_str(), taken.error().message.c_str());
        } else {
            names.emplace_back(param.name);
        }
    }
    return names;
}

}  // namespace tessera::sample
