// The list of architectures. An explicit table: self-registration is dropped by linkers.
#include <string>

#include "common/strings.h"
#include "src/arch/specs.h"

namespace tessera {

namespace {

constexpr const ArchSpec* kAll[] = {&arch::kLlama, &arch::kQwen2, &arch::kQwen3, &arch::kQwen3Moe};

}  // namespace

std::span<const ArchSpec* const> all_architectures() { return kAll; }

Result<const ArchSpec*> find_architecture(std::string_view name) {
    std::string known;
    for (const ArchSpec* spec : kAll) {
        if (spec->name == name) return spec;
        if (!known.empty()) known += ", ";
        known += spec->name;
    }
    return fail(ErrorCode::Unsupported,
                "key 'general.architecture': architecture '%s' is not one we run (%s)",
                printable(name).c_str(), known.c_str());
}

}  // namespace tessera
