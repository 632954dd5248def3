// Collects the names from the tables of other layers; none are listed here again.
#include "src/engine/name_tables.h"

#include <array>

#include "common/expected.h"
#include "quants/dispatch.h"
#include "src/convert/quantize_mixture.h"
#include "src/engine/session.h"
#include "src/model/arch_spec.h"
#include "src/sample/sampler.h"
#include "src/text/chat/parsers/formats.h"
#include "src/text/chat/template.h"

namespace tessera::engine {

namespace {

using Names = std::vector<std::string_view>;

template <class Rows, class Name>
Names listed(const Rows& rows, Name name) {
    Names out;
    for (const auto& row : rows) out.push_back(name(row));
    return out;
}

Names read(NameTable table) {
    switch (table) {
        case NameTable::Architectures:
            return listed(all_architectures(), [](const ArchSpec* arch) { return arch->name; });
        case NameTable::TensorTypes:
            return listed(all_types(), [](const TypeInfo& type) { return type.name; });
        case NameTable::Quantizations:
            return listed(convert::all_mixtures(),
                          [](const convert::Mixture& mixture) { return mixture.name; });
        case NameTable::Isas: {
            Names out;
            for (const kernels::IsaInfo& isa : kernels::all_isas())
                if (isa.usable) out.push_back(isa.name);
            return out;
        }
        case NameTable::CacheTypes:
            return listed(kKvTypes, [](Type type) { return type_info(type).name; });
        case NameTable::ChatTemplates:
            return chat::builtin_names();
        case NameTable::AnswerFormats:
            return listed(chat::formats(), [](const chat::Format& format) { return format.name; });
        case NameTable::Samplers:
            return listed(sample::all_samplers(), [](const sample::SamplerInfo& one) { return one.name; });
    }
    return {};
}

}  // namespace

const Names& names_in(NameTable table) {
    static const auto all = [] {
        std::array<Names, static_cast<size_t>(NameTable::Samplers) + 1> out;
        for (size_t i = 0; i < out.size(); ++i) out[i] = read(static_cast<NameTable>(i));
        return out;
    }();
    return all[static_cast<size_t>(table)];
}

}  // namespace tessera::engine
