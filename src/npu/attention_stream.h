#pragma once
// Instructions for attention that keeps scores and probabilities in VTCM.
#include <optional>

#include "src/npu/linear_stream.h"

namespace tessera::npu {

struct AttentionShape {
    int64_t rows = 0, n_head = 0, n_head_kv = 0, head_dim = 0;
    int64_t n_ctx = 0;  ///< positions of the graph; all of them are evaluated
    int planes_q = 2, planes_scores = 2, planes_out = 2;

    int64_t row_tiles() const;
    /// Tiles of channels per head, and of positions.
    int64_t dim_tiles() const;
    int64_t ctx_tiles() const;
};

/// One of the two products: queries by keys, or probabilities by values. Pairs of buffers are used
/// alternately (double buffering).
struct AttentionProduct {
    int64_t n_tiles = 0, k_tiles = 0;  ///< output tiles, input tiles
    int64_t packet_k_tiles = 1;        ///< see TilePlan
    int planes_in = 2, planes_out = 2;
    uint32_t bytes, weights[2], records[2];  ///< cached bytes, and the weight tiles and records made of them
    uint32_t act[2], out[2];
};

struct AttentionPlan {
    int kv_buffers =
        2;  ///< weight buffers; 1: the next group's weights are made only when the previous group is done
    AttentionProduct scores, values;
    uint32_t tables;
    int64_t vtcm_bytes = 0;  ///< end of the last buffer
};

/// nullopt if scores have to go through DDR: rows or heads that are not whole tiles, or a context whose keys,
/// values, scores and probabilities of one head do not fit into VTCM.
std::optional<AttentionPlan> plan_attention(const AttentionShape& shape, const HtpDevice& device);

struct AttentionPlaces {
    ActPlace q, out;          ///< heads side by side, from first_tile on
    uint64_t k = 0, v = 0;    ///< offset of the first head in the cache
    int64_t cache_n_ctx = 0;  ///< positions of the cache
    uint64_t tables = 0;      ///< ExpTables in the constants
    int32_t window = 0;       ///< 0: all positions up to a row's own
    int32_t zero_scores = 0, zero_out = 0;
    int32_t centre_q = 0, centre_p = 0;
    Multiplier scores_factor, values_factor;
    OutputMode mode = OutputMode::Exact;
};

/// Iterates over heads and row tiles. The scores of the next tile are multiplied while the softmax of the
/// current one is computed. The heads of a GQA group share their keys and values, which are converted to
/// weight tiles while the previous group is computed.
Stream attention_stream(const AttentionShape& shape, const AttentionPlan& plan,
                        const AttentionPlaces& places);

}  // namespace tessera::npu
