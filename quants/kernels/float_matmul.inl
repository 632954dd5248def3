// The float product of any weight type, for any Isa: 16 rows by kPanelK are unpacked into a k-major panel
// that stays in L1 while the tokens pass by. Included by the ISA units after float_gemm.inl; the unpackers
// are in float_unpack.inl. No byte beyond the weights is read, since a mapped file may end with them.
#include <string.h>

#include "quants/kernels/float_gemm.inl"
#include "quants/kernels/formats.h"

namespace tessera::kernels {
namespace {

/// Unpacks Isa::kRowLanes rows, stride bytes apart, n_k weights each (a multiple of the block, at most
/// kPanelK): weight k of row r goes to panel[k * kPanelRows + r].
using RowUnpackFn = void (*)(const uint8_t* w, size_t stride, int64_t n_k, float* panel);

constexpr int64_t kPanelFloats = kPanelRows * kPanelK;

/// Batch up to which two panels are taken at a time and sums are kept out of y.
constexpr int kGemvTokens = 3;
constexpr int kGemvPanels = 2;
constexpr int64_t kGemvRows = kGemvPanels * kPanelRows;
/// Bytes of a row that are unpacked at a time: a cache line.
constexpr int64_t kLine = 64;

/// Larger batches take Isa::kGemmPanels panels of up to kGemmChunks times kPanelK. The longer a tile runs,
/// the less its start and end weigh: 512 tokens reach 89 % of the fma roofline with one chunk, 92 % with two
/// and 93 % with three (Sapphire Rapids, 3 GHz). Such panels leave L1, which costs nothing: they are read at
/// 11 to 21 bytes per cycle.
constexpr int kGemmChunks = 3;
constexpr int64_t kGemmFloats = kGemmChunks * kPanelFloats;

/// Place of the last rows' copy in the scratch, after the panels.
constexpr int kTailChunk = 12;

inline int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

/// The product for more than a few tokens.
template <class Isa>
struct Gemm {
    static constexpr int kPanels = Isa::kGemmPanels;
    static_assert(kPanels * kGemmChunks <= kTailChunk);

    const MatmulArgs& args;

    /// The last rows, fewer than a panel has, times all tokens. They go through a separate tile, so that
    /// nothing is written beyond column n_rows of y.
    void last_rows(const float* panel, int64_t row0, int64_t k0, int64_t n_k) const {
        const float* x = args.x + k0;
        float* y = args.y + row0;
        const int64_t n_rows = args.n_rows - row0;
        const Panels<Isa, kGemmFloats> w{panel};
        const TileArgs part_args{n_k, args.x_stride, kPanelRows, k0 > 0};
        const size_t row_bytes = static_cast<size_t>(n_rows) * sizeof(float);
        alignas(64) float part[Isa::kTileTokens * kPanelRows] = {};
        for (int64_t t0 = 0; t0 < args.n_tok; t0 += Isa::kTileTokens) {
            const int64_t n_tok = at_most(args.n_tok - t0, Isa::kTileTokens);
            for (int64_t t = 0; t < n_tok && k0 > 0; t++) {
                memcpy(part + t * kPanelRows, y + (t0 + t) * args.y_stride, row_bytes);
            }
            gemm_tiles<Isa, 1>(w, part_args, x + t0 * args.x_stride, n_tok, part);
            for (int64_t t = 0; t < n_tok; t++) {
                memcpy(y + (t0 + t) * args.y_stride, part + t * kPanelRows, row_bytes);
            }
        }
    }

    /// A block of rows and k: rows row0 .. end - 1, at most kPanels panels.
    struct Block {
        int64_t row0, end, k0, n_k;
    };
    TileArgs tile_args(const Block& b) const { return {b.n_k, args.x_stride, args.y_stride, b.k0 > 0}; }

    /// A block's panels, kAtOnce at a time while that many are left, then fewer.
    template <int kAtOnce>
    void gemm_rows(const float* panel, Block b) const {
        for (; b.end - b.row0 >= kAtOnce * kPanelRows; b.row0 += kAtOnce * kPanelRows) {
            gemm_tiles<Isa, kAtOnce>(Panels<Isa, kGemmFloats>{panel}, tile_args(b), args.x + b.k0, args.n_tok,
                                     args.y + b.row0);
            panel += kAtOnce * kGemmFloats;
        }
        if constexpr (kAtOnce > 1) {
            gemm_rows<kAtOnce / 2>(panel, b);
        } else if (b.row0 < b.end) {
            last_rows(panel, b.row0, b.k0, b.n_k);
        }
    }

    /// A block times all tokens: full panels unpacked by their first token tile if `rows` can, others
    /// unpacked before.
    template <class Rows>
    void multiply(const Rows& rows, const Block& b) const {
        constexpr bool kUnpacksInFirstTile = requires { rows.unpacking(b.row0, b.k0, b.n_k, args.scratch); };
        if constexpr (kUnpacksInFirstTile) {
            if (b.end - b.row0 == kPanels * kPanelRows) {
                return gemm_tiles<Isa, kPanels>(rows.unpacking(b.row0, b.k0, b.n_k, args.scratch),
                                                Panels<Isa, kGemmFloats>{args.scratch}, tile_args(b),
                                                args.x + b.k0, args.n_tok, args.y + b.row0);
            }
        }
        float* panel = args.scratch;
        for (int64_t row = b.row0; row < b.end; row += kPanelRows, panel += kGemmFloats) {
            for (int64_t k = 0; k < b.n_k; k += kPanelK) {
                rows.fill_panel(row, b.k0 + k, at_most(b.n_k - k, kPanelK), panel + k * kPanelRows);
            }
        }
        if constexpr (!kUnpacksInFirstTile) rows.prefetch(b.end, b.k0, kPanels * kPanelRows, b.n_k);
        gemm_rows<kPanels>(args.scratch, b);
    }

    /// k outermost: all row groups read the tokens' x of one chunk while it is in L2. `rows` has
    /// fill_panel(), and either prefetch() for the weights of the next panels or unpacking(), a source of
    /// whole panels' weights that stores them in the panel and prefetches the next ones.
    template <class Rows>
    void run(const Rows& rows) const {
        constexpr int64_t kStep = kGemmChunks * kPanelK;
        for (int64_t k0 = 0; k0 < args.n_k; k0 += kStep) {
            const int64_t n_k = at_most(args.n_k - k0, kStep);
            for (int64_t row0 = 0; row0 < args.n_rows; row0 += kPanels * kPanelRows) {
                multiply(rows, {row0, at_most(args.n_rows, row0 + kPanels * kPanelRows), k0, n_k});
            }
        }
    }
};

template <class Isa>
struct Matmul {
    static constexpr int kLanes = Isa::kRowLanes;
    static_assert(kPanelRows % kLanes == 0);
    static_assert(kGemvPanels <= kTailChunk);
    static_assert((kTailChunk + 1) * kPanelFloats <= static_cast<int64_t>(kScratchFloats));

    const MatmulArgs& args;
    Format format;
    RowUnpackFn unpack;

    int64_t bytes_of(int64_t n_k) const { return n_k / format.block * format.block_bytes; }
    const uint8_t* weights(int64_t row, int64_t k) const {
        return static_cast<const uint8_t*>(args.w) + static_cast<size_t>(row) * args.w_stride + bytes_of(k);
    }

    /// Unpacks rows row0 .. row0 + 15, weights k0 .. k0 + n_k, into a panel. Rows past the end become rows of
    /// zero bytes, which are finite in every format, copied to the spare scratch. Meanwhile prefetches as
    /// many weights of the rows at `next`, unless null.
    void fill_panel(int64_t row0, int64_t k0, int64_t n_k, float* panel,
                    const uint8_t* next = nullptr) const {
        for (int first = 0; first < kPanelRows; first += kLanes) {
            const int64_t n_left = args.n_rows - row0 - first;
            if (n_left < kLanes) {
                fill_last(row0 + first, n_left, k0, n_k, panel + first);
                continue;
            }
            const uint8_t* w = weights(row0 + first, k0);
            if (!next) {
                unpack(w, args.w_stride, n_k, panel + first);
                continue;
            }
            const int64_t step = (kLine + format.block_bytes - 1) / format.block_bytes * format.block;
            for (int64_t k = 0; k < n_k; k += step) {
                const int64_t n = at_most(n_k - k, step);
                prefetch_rows(next + static_cast<size_t>(first) * args.w_stride + bytes_of(k), kLanes, n);
                unpack(w + bytes_of(k), args.w_stride, n, panel + first + k * kPanelRows);
            }
        }
    }

    /// The n_left rows from `row` on, fewer than a vector has, and zeros.
    void fill_last(int64_t row, int64_t n_left, int64_t k0, int64_t n_k, float* panel) const {
        const size_t row_bytes = static_cast<size_t>(bytes_of(n_k));
        auto* copy = reinterpret_cast<uint8_t*>(args.scratch + kTailChunk * kPanelFloats);
        memset(copy, 0, kLanes * row_bytes);
        for (int64_t r = 0; r < n_left; r++)
            memcpy(copy + static_cast<size_t>(r) * row_bytes, weights(row + r, k0), row_bytes);
        unpack(copy, row_bytes, n_k, panel);
    }

    void prefetch(int64_t row0, int64_t k0, int64_t n_rows, int64_t n_k) const {
        prefetch_rows(weights(row0, k0), n_rows, n_k);
    }
    /// Prefetches n_k weights of each of n_rows rows. A prefetch beyond the tensor has no effect.
    void prefetch_rows(const uint8_t* w, int64_t n_rows, int64_t n_k) const {
        const int64_t n_bytes = bytes_of(n_k);
        for (int64_t r = 0; r < n_rows; r++, w += args.w_stride) {
            for (int64_t b = 0; b < n_bytes; b += kLine) Isa::prefetch_l1(w + b);
        }
    }

    /// Rows outermost, so that the sums stay in registers and L1. The weights of the next step are prefetched
    /// as those of this one are unpacked: all at once they would stall what follows, and 32 streams are too
    /// many for the hardware prefetcher.
    void gemv() const {
        const Panels<Isa, kPanelFloats> panels{args.scratch};
        const auto run_tile = tile_of<Isa, kGemvPanels, kGemvTokens, Panels<Isa, kPanelFloats>>(args.n_tok);
        alignas(64) float sums[kGemvTokens * kGemvRows];
        TileArgs tile_args{0, args.x_stride, kGemvRows, false};
        for (int64_t row0 = 0; row0 < args.n_rows; row0 += kGemvRows) {
            for (int64_t k0 = 0; k0 < args.n_k; k0 += kPanelK) {
                const bool is_last = k0 + kPanelK >= args.n_k;
                const uint8_t* next = is_last ? weights(row0 + kGemvRows, 0) : weights(row0, k0 + kPanelK);
                const int64_t n_k = at_most(args.n_k - k0, kPanelK);
                for (int p = 0; p < kGemvPanels; p++) {
                    fill_panel(row0 + p * kPanelRows, k0, n_k, args.scratch + p * kPanelFloats,
                               next + static_cast<size_t>(p * kPanelRows) * args.w_stride);
                }
                tile_args.n_k = n_k;
                tile_args.accumulate = k0 > 0;
                run_tile(panels, tile_args, args.x + k0, sums);
            }
            const size_t row_bytes =
                static_cast<size_t>(at_most(args.n_rows - row0, kGemvRows)) * sizeof(float);
            for (int64_t t = 0; t < args.n_tok; t++) {
                memcpy(args.y + t * args.y_stride + row0, sums + t * kGemvRows, row_bytes);
            }
        }
    }

    void run() const {
        if (args.n_tok > kGemvTokens) {
            Gemm<Isa>{args}.run(*this);
        } else if (args.n_tok > 0) {
            gemv();
        }
    }
};

}  // namespace
}  // namespace tessera::kernels
