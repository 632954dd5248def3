// The product of packed floats (quants/pack/floats.h), for any Isa, with the bits of float_matmul.inl: the
// same chain of fma over k for each row. Few tokens read the groups directly, many go through panels.
// Included by the ISA units after float_matmul.inl. The last group of a matrix is padded with zeros.
#include "quants/kernels/packed.h"
#include "quants/pack/floats.h"

namespace tessera::kernels {
namespace {

/// How packed weights of a type become numbers: 16 rows' of one k, 8 at each of two places.
template <class Isa, uint32_t kId>
struct PackedElement {
    static constexpr int kBytes = kFloatBytes<kId>;
    TSR_INLINE typename Isa::Wide load(const void* a, const void* b) {
        if constexpr (kId == kF32) return Isa::load_groups_f32(a, b);
        if constexpr (kId == kF16) return Isa::load_groups_f16(a, b);
        if constexpr (kId == kBF16) return Isa::load_groups_bf16(a, b);
    }
};

/// A tile's weights straight from packed groups, each a stream of its own.
template <class Isa, class Element>
struct GroupStreams {
    static constexpr int kRowBytes = kGroupRows * Element::kBytes;  // of one k
    static constexpr int kStep = kLine / kRowBytes;                 // k of a cache line
    const uint8_t* w;                                               // of the first group
    int64_t group_bytes;                                            // between groups
    const uint8_t* end;                                             // of the first group
    int64_t wrap;  // from there to the group that its stream reads next
    PrefetchDistance distance;

    [[gnu::always_inline]] inline const uint8_t* ahead(int n_bytes) const {
        const uint8_t* p = w + n_bytes;
        return p >= end ? p + wrap : p;
    }
    [[gnu::always_inline]] inline void prefetch(int n_panels) const {
        const uint8_t *l2 = ahead(distance.l2), *l1 = ahead(distance.l1);
        TSR_UNROLL
        for (int g = 0; g < 2 * n_panels; g++) {
            if (distance.l2 > 0) Isa::prefetch_l2(l2 + g * group_bytes);
            Isa::prefetch_l1(l1 + g * group_bytes);
        }
    }
    [[gnu::always_inline]] inline typename Isa::Wide load(int p) const {
        return Element::load(w + 2 * p * group_bytes, w + (2 * p + 1) * group_bytes);
    }
    [[gnu::always_inline]] inline void next() { w += kRowBytes; }
};

/// The same for the first token tile of a panel, which stores the weights there as it goes.
template <class Isa, class Element>
struct UnpackingGroups : GroupStreams<Isa, Element> {
    using Groups = GroupStreams<Isa, Element>;
    float* panel;

    [[gnu::always_inline]] inline typename Isa::Wide load(int p) const {
        const typename Isa::Wide weights = Groups::load(p);
        Isa::store(panel + p * kGemmFloats, weights);
        return weights;
    }
    [[gnu::always_inline]] inline void next() {
        Groups::next();
        panel += kPanelRows;
    }
};

template <class Isa, class Element>
struct PackedFloats {
    using Streams = GroupStreams<Isa, Element>;
    /// Up to this many tokens four groups side by side fill the registers with sums.
    static constexpr int kFourGroups = Isa::kTileTokens / 2;
    /// Up to this many, converting weights again for each tile costs less than a panel.
    static constexpr int kStreamTokens = Isa::kTileTokens;

    const MatmulArgs& args;

    int64_t group_bytes() const { return args.n_k * Streams::kRowBytes; }
    /// n_groups streams from `row` on, n_k k from k0 on, which continue with the same k of later groups.
    /// Where a matrix ends with the first of two groups, both are that one.
    Streams streams(int64_t row, int n_groups, int64_t k0, int64_t n_k) const {
        const uint8_t* group = static_cast<const uint8_t*>(args.w) + row / kGroupRows * group_bytes();
        const uint8_t* w = group + k0 * Streams::kRowBytes;
        const int64_t n_bytes = n_k * Streams::kRowBytes;
        const int64_t next = args.n_rows - row > kGroupRows ? group_bytes() : 0;
        Streams streams{w, next, w + n_bytes, n_groups * group_bytes() - n_bytes, args.prefetch};
        if (row + n_groups * kGroupRows >= args.n_rows)
            streams.wrap = args.next ? static_cast<const uint8_t*>(args.next) - streams.end : -n_bytes;
        return streams;
    }
    Streams streams(int64_t row, int n_groups) const { return streams(row, n_groups, 0, args.n_k); }

    // ---- the interface of Gemm

    void fill_panel(int64_t row0, int64_t k0, int64_t n_k, float* panel) const {
        Streams from = streams(row0, 2, k0, n_k);
        for (int64_t k = 0; k < n_k; k++, from.next()) Isa::store(panel + k * kPanelRows, from.load(0));
    }
    UnpackingGroups<Isa, Element> unpacking(int64_t row0, int64_t k0, int64_t n_k, float* panel) const {
        return {streams(row0, 2 * Isa::kGemmPanels, k0, n_k), panel};
    }

    // ---- few tokens

    /// The rows from `row` on while kPanels times 16 are left. Returns the first that is not done.
    template <int kPanels>
    int64_t stream_rows(int64_t row) const {
        const TileArgs tile_args{args.n_k, args.x_stride, args.y_stride, false};
        for (; row + kPanels * kPanelRows <= args.n_rows; row += kPanels * kPanelRows)
            gemm_tiles<Isa, kPanels>(streams(row, 2 * kPanels), tile_args, args.x, args.n_tok, args.y + row);
        return row;
    }

    /// The matrix's last rows, fewer than 16.
    void last_rows(int64_t row) const {
        alignas(64) float part[Isa::kTileTokens * kPanelRows];
        const size_t row_bytes = static_cast<size_t>(args.n_rows - row) * sizeof(float);
        const TileArgs tile_args{args.n_k, args.x_stride, kPanelRows, false};
        for (int64_t t0 = 0; t0 < args.n_tok; t0 += Isa::kTileTokens) {
            const int64_t n_tok = at_most(args.n_tok - t0, Isa::kTileTokens);
            gemm_tiles<Isa, 1>(streams(row, 2), tile_args, args.x + t0 * args.x_stride, n_tok, part);
            for (int64_t t = 0; t < n_tok; t++)
                memcpy(args.y + (t0 + t) * args.y_stride + row, part + t * kPanelRows, row_bytes);
        }
    }

    void run() const {
        if (args.n_tok > kStreamTokens) return Gemm<Isa>{args}.run(*this);
        const bool is_wide = Isa::kGemmPanels > 1 || args.n_tok <= kFourGroups;
        int64_t row = is_wide ? stream_rows<2>(0) : 0;
        row = stream_rows<1>(row);
        if (row < args.n_rows) last_rows(row);
    }
};

}  // namespace
}  // namespace tessera::kernels
