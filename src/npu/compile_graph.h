#pragma once
// Compiles graphs to instructions.
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

/// Consecutive offsets for the caches of a program, indexed by CacheId; caches without `is_used` get none.
struct CachePlan {
    std::vector<DeviceCache> caches;
    int64_t n_bytes = 0;
};
CachePlan plan_caches(const record::Program& program, const std::vector<bool>& is_used, int64_t n_ctx);

/// Compiles the graphs of one model, session by session.
class GraphCompiler {
  public:
    /// All arguments must outlive the compiler. n_ctx: positions of the caches, a multiple of 32, and the
    /// maximum of all graphs.
    GraphCompiler(const HtpDevice& device, QuantizedMatrices& matrices, int64_t n_ctx)
        : device_(device), matrices_(matrices), n_ctx_(n_ctx) {}

    /// Starts a session: graphs compiled after it use these caches and share a new set of constants. The
    /// caches must outlive them.
    void start_session(std::span<const DeviceCache> caches) {
        caches_ = caches;
        constants_ = {};
        placed_.clear();
    }

    /// encodings: indexed by the graph's values. The graph's n_ctx must be a multiple of 32 if it has
    /// attention. Errors name the node: values that the device's number formats cannot represent, or operands
    /// that do not fit into VTCM.
    Result<DeviceGraph> compile(const Graph& graph, std::span<const Encoding> encodings);

    /// Reserves memory for the matrices of these operations, to avoid reallocating the constants.
    void reserve(const record::Program& program, std::span<const DeviceRange> segments);

    /// The constants that all graphs of the session refer to.
    std::vector<std::byte> take_constants() { return constants_.take(); }

  private:
    class Writer;

    /// Key of a matrix and its records in the constants: name, first row, encodings of input and output,
    /// width of the padded heads that it reads (0: none) and bias.
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
