#pragma once
// Where segments may be cut in two for address spaces of the device that do not hold all of a model.
#include <cstdint>
#include <span>
#include <vector>

#include "src/npu/partition.h"

namespace tessera::npu {

/// Consecutive operations of one segment, behind which a session may end.
struct SessionPiece {
    /// What ends with it: a cut at an earlier kind is to be preferred.
    enum class End : uint8_t { Layer, Part, Product };

    int32_t segment = 0;  ///< of the ranges
    int32_t first_op = 0, last_op = 0;
    End end = End::Layer;
    int64_t least_bytes = 0;  ///< of its matrices, keys and values; it takes more
};
constexpr SessionPiece::End kSessionEnds[] = {SessionPiece::End::Layer, SessionPiece::End::Part,
                                              SessionPiece::End::Product};

/// All operations of the ranges, for a cache of n_ctx positions. The head is one piece.
std::vector<SessionPiece> session_pieces(const record::Program& program, std::span<const DeviceRange> ranges,
                                         const Recipe& recipe, int64_t n_ctx);

/// Consecutive pieces as ranges, those of one segment in one. Values have the same names and numbers however
/// a segment is cut.
std::vector<DeviceRange> ranges_of(const record::Program& program, std::span<const SessionPiece> pieces);

}  // namespace tessera::npu
