#pragma once
// Places where segments can be split into sessions, for models that exceed the device's address space.
#include <cstdint>
#include <span>
#include <vector>

#include "src/npu/partition.h"

namespace tessera::npu {

/// Consecutive operations of one segment after which a session may end.
struct SessionPiece {
    /// The unit that ends here, in order of preference as a boundary.
    enum class End : uint8_t { Layer, Part, Product };

    int32_t segment = 0;  ///< index into the ranges
    int32_t first_op = 0, last_op = 0;
    End end = End::Layer;
    int64_t least_bytes = 0;  ///< bytes of matrices, keys and values: a lower bound
};
constexpr SessionPiece::End kSessionEnds[] = {SessionPiece::End::Layer, SessionPiece::End::Part,
                                              SessionPiece::End::Product};

/// Splits the operations of the ranges into pieces, for a cache of n_ctx positions. The head is one piece.
std::vector<SessionPiece> session_pieces(const record::Program& program, std::span<const DeviceRange> ranges,
                                         const Recipe& recipe, int64_t n_ctx);

/// Joins consecutive pieces of one segment to a range. Names and numbers of values do not depend on how a
/// segment is split.
std::vector<DeviceRange> ranges_of(const record::Program& program, std::span<const SessionPiece> pieces);

}  // namespace tessera::npu
