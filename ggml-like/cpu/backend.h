#pragma once
// CpuBackend: runs each operation at once on a thread pool with one instruction set's kernels. Owns the
// workers' scratch. Results do not depend on the number of threads, the batch or the instruction set
// (docs/design/numerics.md).
#include <algorithm>
#include <memory>
#include <vector>

#include "common/arena.h"
#include "common/threads.h"
#include "ggml-like/backend.h"
#include "ggml-like/cpu/float_products.h"
#include "ggml-like/cpu/row_partition.h"
#include "ggml-like/cpu/tuning.h"
#include "ggml-like/cpu/vec.h"
#include "quants/act_layout.h"
#include "quants/dispatch.h"
#include "quants/kernels/table.h"

namespace tessera {

class CpuBackend final : public Backend {
  public:
    /// Sizes that the scratch must hold: the largest of each over all layers, models and batches.
    struct Limits {
        int64_t max_tok = 1;   ///< tokens of a batch
        int64_t max_rows = 1;  ///< rows of a matrix product: max_tok times the experts a token uses
        int64_t n_head = 1;
        int64_t n_group = 1;             ///< query heads that share a KV head
        int64_t k_dim = 16, v_dim = 16;  ///< elements of a head
        int64_t n_expert = 0;

        int64_t head_dim() const { return std::max(k_dim, v_dim); }
    };

    /// `pool` and `tuning` outlive the backend. The kernel table is chosen by the caller (quants/dispatch.h).
    /// `products`: take the place of its float kernels.
    static Result<std::unique_ptr<CpuBackend>> create(
        ThreadPool& pool, const kernels::KernelTable& kernels, const Limits& limits,
        const kernels::CpuTuning& tuning = kernels::choose_tuning(), const cpu::FloatProducts& products = {});

    /// Bytes of memory that create() takes.
    static size_t scratch_bytes(const Limits& limits, int n_threads);

    const kernels::KernelTable& kernels() const { return kernels_; }
    ThreadPool& pool() { return pool_; }

    void run(const Op& op) override;

  private:
    struct Scratch {
        float* kernel = nullptr;  // kernels::kScratchFloats or kPackedScratchBytes, whichever is larger
        float* tile = nullptr;    // [2, cpu::tile_floats()] results before their epilogue
        float* attention = nullptr;
    };

    CpuBackend(ThreadPool& pool, const kernels::KernelTable& kernels, const cpu::VecTable& vec,
               const Limits& limits, const kernels::CpuTuning& tuning, const cpu::FloatProducts& products)
        : pool_(pool), kernels_(kernels), vec_(vec), tuning_(tuning), products_(products), limits_(limits) {}

    struct Buffers {
        std::vector<Scratch> scratch;
        float* partials = nullptr;
        int64_t partial_rows = 0;
        float* router_logits = nullptr;
    };
// One function for each operation, in cpu/.
#define TSR_CPU_OP(Struct, name) void compute(const Struct<Direct>& op);
    TSR_OPS(TSR_CPU_OP)
#undef TSR_CPU_OP

    template <class Memory>
    static Buffers allocate(const Limits& limits, int n_threads, Memory& memory);

    /// Row `row` of a packed matrix as floats.
    void decode_packed_row(const Weight& table, int64_t row, int worker, float* out);
    /// tile[t, r] = W[rows[r]] . x[tok0 + t] for n_tok tokens of a run, which begin a multiple of
    /// KernelTable::act_tile after its first token and end with another multiple or the run. next: the
    /// weights that this worker multiplies with afterwards, null if unknown.
    void multiply(const Weight& w, const cpu::RowRange& rows, const ActBuffer& x, ActRun run, int64_t tok0,
                  int64_t n_tok, float* tile, int64_t tile_stride, int worker,
                  const std::byte* next = nullptr);
    void linear_rows(const LinearOp<Direct>& op, const cpu::RowRange& rows, int worker,
                     const std::byte* next);
    /// The epilogue of part of one result row, from column col on, in place.
    void finish_row(const Product<Direct>& product, int64_t col, int64_t n, float* row);
    /// gates[t] = sigmoid(w . x[tok0 + t]). Every unit computes them again, which is one row more among its
    /// many.
    void shared_expert_gate(const Weight& w, const ActBuffer& x, ActRun run, int64_t tok0, int64_t n_tok,
                            float* gates, int worker);
    /// Gate and up of a dense feed-forward sublayer or of one expert.
    struct GateUp {
        Weight gate, up;
        Vector gate_bias, up_bias;
        Activation activation = Activation::Silu;
        Weight shared_expert_gate = {};
    };
    /// Rows of gate and up, their activation and its int8 image, for all tokens of a run of x and y.
    void gate_up_rows(const GateUp& args, const cpu::RowRange& rows, const ActBuffer& x, ActRun run,
                      ActBuffer& y, int worker, const std::byte* next);
    /// The products q and k as rows, and norms over whole rows; store_qkv does the rest head by head.
    void qk_rows(const QkvOp<Direct>& op);
    /// Rotates one head of n_tok tokens in `tile` and stores it: queries (part 0) into q, keys and values (1
    /// and 2) into the segments' pages.
    void store_qkv(const QkvOp<Direct>& op, int part, int64_t head, float* tile, int64_t tile_stride,
                   int64_t tok0, int64_t n_tok);
    void rotate_key(float* x, int64_t head_dim);
    void store_keys(const KvLayer& kv, const Segment& segment, int64_t head, int64_t pos, int64_t n,
                    const float* rows, int64_t stride);
    void store_values(const KvLayer& kv, const Segment& segment, int64_t head, int64_t pos, int64_t n,
                      const float* rows, int64_t stride);
    struct AttnTask;
    void gather_queries(const AttnTask& unit, int worker);
    void attn_chunk(const AttnTask& unit, int64_t chunk, float* chunk_max, float* chunk_sum, float* chunk_out,
                    int worker);
    void attn_scores_quantized(const AttnTask& unit, int64_t begin, int64_t end, int worker);
    kernels::PanelsArgs page_panels(Type type, const std::byte* page, int64_t first, int64_t n,
                                    int64_t n_rows, const std::byte* next, float* floats);
    void attn_scores_f32(const AttnTask& unit, int64_t begin, int64_t end, int worker);
    void attn_values_f32(const AttnTask& unit, int64_t begin, int64_t end, float* chunk_out, int worker);
    void attn_values_quantized(const AttnTask& unit, int64_t begin, int64_t end, float* chunk_sum,
                               float* chunk_out, int worker);
    void attn_single_pass(const AttnTask& unit, ActBuffer& y, int worker);
    void attn_split_kv(const AttendOp<Direct>& op);
    /// Divides a task's rows, which are in y, by their sums (and the sink's share), and quantizes them.
    void finish_task(const AttnTask& unit, const float* maxima, const float* sums, ActBuffer& y);
    /// Quantizes part of a row from its floats x into its int8 image; col and n are multiples of 32.
    void quantize_part(ActBuffer& y, ActRun run, int64_t t, int64_t col, int64_t n, const float* x);
    /// Prefetches that part's image for writing, since other cores have read it; and the images of the tile's
    /// other tokens, which share its cache lines.
    void prefetch_image_for_write(ActBuffer& y, ActRun run, int64_t t, int64_t col, int64_t n);
    /// Copies a token's floats and image, whichever of them `to` needs.
    void copy_row(const ActBuffer& from, ActRun run, int64_t t, ActBuffer& to, ActRun to_run, int64_t row);

    ThreadPool& pool_;
    const kernels::KernelTable& kernels_;
    const cpu::VecTable& vec_;
    const kernels::CpuTuning& tuning_;
    cpu::FloatProducts products_;
    Limits limits_;
    Arena arena_;
    std::vector<Scratch> scratch_;  // [n_threads]
    float* partials_ = nullptr;     // split attention: results of one round of chunks
    int64_t partial_rows_ = 0;
    float* router_logits_ = nullptr;  // [max_tok, n_expert]
};

}  // namespace tessera
