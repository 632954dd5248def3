// The list of architectures: an explicit table, since linkers drop self-registering objects of static
// libraries. The specs are in the other files of this folder, one for each family.
#include <string>

#include "common/strings.h"
#include "src/model/arch_spec.h"

namespace tessera {

namespace arch {

extern const ArchSpec kLlama, kMistral3, kSmolLm3;
extern const ArchSpec kQwen2, kQwen2Moe, kQwen3, kQwen3Moe;
extern const ArchSpec kGemma, kGemma2, kGemma3;
extern const ArchSpec kPhi3;
extern const ArchSpec kExaone4;
extern const ArchSpec kGlm4;
extern const ArchSpec kSeedOss;
extern const ArchSpec kStarCoder2;
extern const ArchSpec kOlmo2;
extern const ArchSpec kGranite, kGraniteMoe;
extern const ArchSpec kGptOss;

}  // namespace arch

namespace {

constexpr const ArchSpec* kAll[] = {
    &arch::kLlama,   &arch::kMistral3, &arch::kSmolLm3, &arch::kQwen2,      &arch::kQwen2Moe,
    &arch::kQwen3,   &arch::kQwen3Moe, &arch::kGemma,   &arch::kGemma2,     &arch::kGemma3,
    &arch::kPhi3,    &arch::kOlmo2,    &arch::kGranite, &arch::kGraniteMoe, &arch::kGptOss,
    &arch::kExaone4, &arch::kGlm4,     &arch::kSeedOss, &arch::kStarCoder2,
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
