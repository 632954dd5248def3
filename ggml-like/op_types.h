#pragma once
// Operands of the operations in ops.h: the KV cache, segments of a batch, RoPE, experts, and the enumerations
// of variants.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ggml-like/tensor.h"

namespace tessera {

/// Positions per KV page; attention is computed in chunks of kKvChunk positions at fixed absolute boundaries,
/// so that results do not depend on how a prompt is split into chunks.
constexpr int kKvPage = 64;
constexpr int kKvChunk = 512;
/// Float keys are stored in tiles of 16 positions, k-major, so that scores are a panel product; quantized
/// keys in packed groups of 8 positions (quants/kernels/packed.h), so that scores are an integer product.
constexpr int kKvTile = 16;
constexpr int kKvGroup = 8;

/// The largest head: keys of 512 latent and 64 rotated elements (MLA, arXiv 2405.04434).
constexpr int64_t kMaxHeadDim = 576;

/// Types that the KV cache supports.
constexpr Type kKvTypes[] = {Type::F32, Type::F16, Type::Q8_0, Type::Q4_0};

/// Where one layer's keys and values lie inside a page.
///   K, float:     [n_head_kv, kKvPage / kKvTile, k_dim, kKvTile]
///   K, quantized: [n_head_kv, kKvPage / kKvGroup, packed group of kKvGroup rows of k_dim]
///   V, float:     [n_head_kv, kKvPage, v_dim]
///   V, quantized: [n_head_kv, { f16 scales [v_dim / 32, kKvPage], codes [kKvPage / 2, v_dim, 2] }],
///                 scales and codes as in the type's blocks; the codes of two positions are adjacent, 4-bit
///                 codes in one byte with the even position in the low half
struct KvLayer {
    Type k_type = Type::F16, v_type = Type::F16;  // of kKvTypes
    size_t k_offset = 0, v_offset = 0;            // bytes from the start of the page
    int64_t n_head_kv = 0;
    int64_t k_dim = 0, v_dim = 0;  // elements of a head; multiples of 16, of 32 for quantized types

    /// Keys of fewer than 8 bits and their queries are rotated, which spreads outliers over all dimensions
    /// (QuaRot, arXiv 2404.00456): the scores are the same and the quantization error is smaller.
    bool rotates_keys() const { return k_type == Type::Q4_0; }
};

/// Where one recurrent layer's state lies inside a sequence's slot of state.
struct StateLayer {
    size_t offset = 0;  // floats from the start of the slot, a multiple of a cache line
    int64_t n = 0;      // floats; 0 = the layer has no state
};

/// Consecutive tokens of one sequence in a batch: rows row0 .. row0 + n_tok at positions pos0 .. pos0 +
/// n_tok.
struct Segment {
    std::byte* const* pages = nullptr;  // [ceil((pos0 + n_tok) / kKvPage)], indexed by position / kKvPage
    int64_t row0 = 0, n_tok = 0;
    int64_t pos0 = 0;
    /// Slots of state before the first token and after the last; null if the model has no recurrent layers.
    /// An operation reads its StateLayer of state_in and fills that of state_out, which may hold anything
    /// before. So a pass that is aborted, or repeated, changes no state.
    const float* state_in = nullptr;
    float* state_out = nullptr;
};

enum class RopeKind : uint8_t { None, Norm, Neox };

struct RopeSpec {
    RopeKind kind = RopeKind::None;
    int64_t n_rot = 0;             // elements of a head that are rotated
    const double* freq = nullptr;  // [n_rot / 2] radians per position
    float magnitude = 1;           // factor of cosine and sine
};

/// Function of a product's result; ggml-like/cpu/vec.h has the formulas. ClampedSilu is one of gate and up
/// together.
enum class Activation : uint8_t { None, Silu, Gelu, ClampedSilu };

/// Whether an operation stores the floats of a result: always, or only if a reader needs them
/// (ActBuffer::needs_f32) and not its int8 image.
enum class Floats : uint8_t { Always, IfRead };

/// Attention temperature scaling by the position p of a query: q *= 1 + strength ln(1 + floor(p / period)).
struct AttnTempScaling {
    double strength = 0;  // 0 = off
    int64_t period = 1;
};

/// Weights of the selected experts, which are those with the largest logits: the softmax over these logits,
/// or their values in the softmax over all experts.
enum class RouterKind : uint8_t { SoftmaxOverSelected, SoftmaxOverAll };

/// The experts of each token, chosen by one operation and used by the products of experts. "Expert order"
/// groups the n_tok * n_used rows by expert.
struct MoeRoutes {
    int64_t n_expert = 0, n_used = 0;
    int32_t* expert = nullptr;         // [n_tok, n_used] by descending weight
    float* weight = nullptr;           // [n_tok, n_used]
    int32_t* row_of_slot = nullptr;    // [n_tok, n_used] row in expert order
    int32_t* token_of_row = nullptr;   // [n_tok * n_used] token of each row in expert order
    int32_t* expert_offset = nullptr;  // [n_expert + 1] first row of each expert
    int32_t* active_experts =
        nullptr;  // [n_expert] the first n_active are the experts that some token takes, ascending
    int64_t n_active = 0;
};

}  // namespace tessera
