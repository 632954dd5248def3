#pragma once
// From graphs to instructions.
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "src/npu/constants.h"
#include "src/npu/device.h"
#include "src/npu/device_model.h"
#include "src/npu/partition.h"
#include "src/npu/prepare.h"
#include "src/npu/tile_plan.h"

namespace tessera::npu {

/// The caches of a program that have a place, one behind the other, by CacheId; `is_used` says which.
struct CachePlan {
    std::vector<DeviceCache> caches;
    int64_t n_bytes = 0;
};
CachePlan plan_caches(const record::Program& program, const std::vector<bool>& is_used, int64_t n_ctx);

/// Compiles the graphs of one model, session by session.
class GraphCompiler {
  public:
    /// All outlive this. n_ctx: positions of the caches, a multiple of 32; no graph has more.
    GraphCompiler(const HtpDevice& device, QuantizedMatrices& matrices, int64_t n_ctx)
        : device_(device), matrices_(matrices), n_ctx_(n_ctx) {}

    /// Graphs from now on have these caches and share constants of their own. The caches outlive them.
    void start_session(std::span<const DeviceCache> caches) {
        caches_ = caches;
        constants_ = {};
        placed_.clear();
    }

    /// encodings: by the graph's values. n_tok and n_ctx are those of the graph, n_ctx a multiple of 32 where
    /// it attends. Errors name the node: what cannot be said in the device's numbers, and what does not fit
    /// into VTCM.
    Result<DeviceGraph> compile(const Graph& graph, std::span<const Encoding> encodings);

    /// Room for the matrices of these operations, so that no constants are moved for lack of it.
    void reserve(const record::Program& program, std::span<const DeviceRange> segments);

    /// What all graphs of the session refer to.
    std::vector<std::byte> take_constants() { return constants_.take(); }

  private:
    class Writer;

    /// A matrix with its records in the constants: by its first row, the encodings of input and output, the
    /// width of the padded heads that it reads (0: none) and whether it has a bias.
    using MatrixKey = std::tuple<std::string, int64_t, int, float, int32_t, int, float, int32_t, float,
                                 int64_t, const float*>;
    struct PlacedMatrix {
        uint64_t at = 0;
        int64_t mult_offset = 0, record_offset = 0, n_in = 0, n_out = 0, block = 0;
    };
    using ShapeKey = std::tuple<int64_t, int64_t, int64_t, int64_t, int, int, bool, int64_t>;

    Result<TilePlan> plan_of(const LinearShape& shape);

    const HtpDevice& device_;
    QuantizedMatrices& matrices_;
    std::span<const DeviceCache> caches_;
    int64_t n_ctx_;
    Constants constants_;
    std::map<MatrixKey, PlacedMatrix> placed_;
    std::map<ShapeKey, TilePlan> plans_;
};

}  // namespace tessera::npu
