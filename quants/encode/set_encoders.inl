// Puts the encoders of TSR_ENCODE_SET into a kernel table. Included by ISA units.
#include "quants/encode/encoders.h"
#include "quants/kernels/table.h"

namespace tessera::kernels {
namespace {

constexpr void set_encoders(KernelTable& table) {
    enum Id {
#define TSR_TYPE(Name, id, name, block, bytes, role) k##Name##Id = id,
#include "quants/types.def"
#undef TSR_TYPE
    };
#define TSR_ENCODER(Name, name, Kind) table.encode[k##Name##Id] = quants::TSR_ENCODE_SET::encode_##name;
#include "quants/encode/encoders.def"
#undef TSR_ENCODER
}

}  // namespace
}  // namespace tessera::kernels
