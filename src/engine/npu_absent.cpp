// Replaces npu_offload.cpp in builds without NPU.
#include "src/engine/npu_model.h"

namespace tessera::engine {

Result<std::shared_ptr<NpuModel>> create_npu_model(gguf::File, const kernels::KernelTable&,
                                                   const NpuOptions&) {
    return fail(ErrorCode::Unsupported,
                "npu: expected a build with an NPU, found one that was configured with TSR_NPU=OFF");
}

}  // namespace tessera::engine
