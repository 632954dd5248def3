#pragma once
// The instructions of attention whose scores and probabilities never leave VTCM.
#include <optional>

#include "src/npu/linear_stream.h"

namespace tessera::npu {

struct AttentionShape {
    int64_t rows = 0, n_head = 0, n_head_kv = 0, head_dim = 0;
    int64_t n_ctx = 0;  ///< positions of the graph; all of them are evaluated
    int planes_q = 2, planes_scores = 2, planes_out = 2;

    int64_t row_tiles() const;
    /// Tiles of a head's channels, and of its positions.
    int64_t dim_tiles() const;
    int64_t ctx_tiles() const;
};

/// One of the two products, of queries and keys or of probabilities and values. Buffers of which there are
/// two are used in turn.
struct AttentionProduct {
    int64_t n_tiles = 0, k_tiles = 0;  ///< of outputs and of inputs
    int64_t packet_k_tiles = 1;        ///< as TilePlan's
    int planes_in = 2, planes_out = 2;
    uint32_t bytes, weights[2], records[2];  ///< what is in the cache, and what becomes of it
    uint32_t act[2], out[2];
};

struct AttentionPlan {
    int kv_buffers = 2;  ///< of weights; 1: a group's are made only once those before them are done with
    AttentionProduct scores, values;
    uint32_t tables;
    int64_t vtcm_bytes = 0;  ///< up to the end of the last buffer
};

/// Nothing where scores have to go through DDR: rows or heads that are no whole tiles, or a context of which
/// a head's keys, values, scores and probabilities do not fit.
std::optional<AttentionPlan> plan_attention(const AttentionShape& shape, const HtpDevice& device);

struct AttentionPlaces {
    ActPlace q, out;          ///< heads side by side, from first_tile on
    uint64_t k = 0, v = 0;    ///< of the first head in the cache
    int64_t cache_n_ctx = 0;  ///< positions of the cache
    uint64_t tables = 0;      ///< ExpTables in the constants
    int32_t window = 0;       ///< 0: all positions up to a row's own
    int32_t zero_scores = 0, zero_out = 0;
    int32_t centre_q = 0, centre_p = 0;
    Multiplier scores_factor, values_factor;
    OutputMode mode = OutputMode::Exact;
};

/// Head by head and row tile by row tile. While probabilities of one are computed, the scores of the next are
/// multiplied; heads of a group share their keys and values, which become weights while the group before is
/// at work.
Stream attention_stream(const AttentionShape& shape, const AttentionPlan& plan,
                        const AttentionPlaces& places);

}  // namespace tessera::npu
