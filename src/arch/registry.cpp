// The list of architectures: an explicit table, since linkers drop self-registering objects of static
// libraries.
#include <string>

#include "common/strings.h"
#include "src/arch/specs.h"

namespace tessera {

namespace {

constexpr const ArchSpec* kAll[] = {
    &arch::kLlama, &arch::kMistral3, &arch::kSmolLm3, &arch::kQwen2,      &arch::kQwen2Moe,
    &arch::kQwen3, &arch::kQwen3Moe, &arch::kGemma,   &arch::kGemma2,     &arch::kGemma3,
    &arch::kPhi3,  &arch::kOlmo2,    &arch::kGranite, &arch::kGraniteMoe, &arch::kGptOss,
};

}  // namespace

std::span<const ArchSpec* const> all_architectures() { return kAll; }

Result<const ArchSpec*> find_architecture(std::string_view name) {
    std::string supported;
    for (const ArchSpec* spec : kAll) {
        if (spec->name == name) return spec;
        if (!supported.empty()) supported += ", ";
        supported += spec->name;
    }
    return fail(ErrorCode::Unsupported,
                "key 'general.architecture': architecture '%s' is not supported (supported: %s; see "
                "docs/guide/models.md)",
                printable(name).c_str(), supported.c_str());
}

}  // namespace tessera
