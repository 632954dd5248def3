// The rows come from src/sample, so a new sampler needs no change here.
#include "examples/tessera/sampling_flags.h"

#include "src/sample/params.h"

namespace tessera {

void declare_sampling(
    Options& options,
    const std::function<Result<void>(std::string_view name, const std::string& text)>& set) {
    options.group("Sampling");
    for (const sample::ParamInfo& param : sample::all_params()) {
        const std::string form = !param.is_number()                     ? std::string(param.form)
                                 : param.kind == sample::ParamKind::Int ? "N"
                                                                        : "X";
        std::string help(param.help);
        if (param.is_number() || !param.default_text.empty())
            help += " (default: " + sample::default_of(param) + ")";
        options.parsed(
            sample::flag_of(param).c_str(), form,
            [set, name = param.name](const std::string& text) { return set(name, text); }, help);
    }
}

std::vector<std::pair<std::string, std::string>> sampling_names() {
    std::vector<std::pair<std::string, std::string>> out;
    for (const sample::ParamInfo& param : sample::all_params())
        out.emplace_back(param.name, sample::flag_of(param));
    return out;
}

}  // namespace tessera
