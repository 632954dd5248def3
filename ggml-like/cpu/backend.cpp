// CpuBackend: its scratch, and the operations on single rows (embedding, rotary angles, norms). Matrix
// products are in matmul.cpp, attention in attention.cpp, experts in moe.cpp. Assumes that shapes were
// checked at load.
#include "ggml-like/cpu/backend.h"

#include <algorithm>
#include <cstring>

#include "ggml-like/cpu/prefetch.h"
#include "ggml-like/cpu/sincos.h"
#include "ggml-like/cpu/tuning.h"

namespace tessera {

namespace {

/// The mean in float64: element i belongs to lane i % 16, the lanes are added in rising order.
float row_mean(const float* x, int64_t n) {
    double lanes[16] = {}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int64_t lane = 0; lane < 16; ++lane) lanes[lane] += static_cast<double>(x[i + lane]);
    for (; i < n; ++i) lanes[i % 16] += static_cast<double>(x[i]);
    for (const double lane : lanes) sum += lane;
    return static_cast<float>(sum / static_cast<double>(n));
}

}  // namespace

/// `memory` is an arena, or an ArenaSize that counts the bytes of one.
template <class Memory>
CpuBackend::Buffers CpuBackend::allocate(const Limits& limits, int n_threads, Memory& memory) {
    const size_t kernel_floats =
        std::max(kernels::kScratchFloats, kernels::kPackedScratchBytes / sizeof(float));
    const auto tile_floats = static_cast<size_t>(2 * cpu::tile_floats(limits.max_rows, limits.head_dim()));
    const size_t attention_floats = cpu::attention_scratch_floats(limits.n_group, limits.k_dim, limits.v_dim);
    Buffers out;
    for (int i = 0; i < n_threads; ++i) {
        Scratch scratch;
        scratch.kernel = memory.template take<float>(kernel_floats).data();
        scratch.tile = memory.template take<float>(tile_floats).data();
        scratch.attention = memory.template take<float>(attention_floats).data();
        out.scratch.push_back(scratch);
    }
    out.partial_rows = cpu::kSplitMaxTok * cpu::kSplitRound * limits.n_head;
    const auto partial_floats = static_cast<size_t>(out.partial_rows * (limits.v_dim + 2));
    out.partials = memory.template take<float>(partial_floats).data();
    const auto router_floats = static_cast<size_t>(limits.max_tok * limits.n_expert);
    out.router_logits = memory.template take<float>(router_floats).data();
    return out;
}

size_t CpuBackend::scratch_bytes(const Limits& limits, int n_threads) {
    ArenaSize size;
    allocate(limits, n_threads, size);
    return size.bytes();
}

Result<std::unique_ptr<CpuBackend>> CpuBackend::create(ThreadPool& pool, const kernels::KernelTable& kernels,
                                                       const Limits& limits, const kernels::CpuTuning& tuning,
                                                       const cpu::FloatProducts& products) {
    const cpu::VecTable* vec = cpu::vec_table(kernels.name);
    if (!vec)
        return fail(ErrorCode::Internal, "no vector functions for the instruction set '%s'", kernels.name);
    std::unique_ptr<CpuBackend> backend(new CpuBackend(pool, kernels, *vec, limits, tuning, products));
    TSR_TRY(backend->arena_, Arena::create(scratch_bytes(limits, pool.n_threads()), "the workers' scratch"));
    Buffers buffers = allocate(limits, pool.n_threads(), backend->arena_);
    backend->scratch_ = std::move(buffers.scratch);
    backend->partials_ = buffers.partials;
    backend->partial_rows_ = buffers.partial_rows;
    backend->router_logits_ = buffers.router_logits;
    return backend;
}

/// Decodes kPiece weights of the row's group at a time, which is the most that the scratch holds.
void CpuBackend::decode_packed_row(const Weight& table, int64_t row, int worker, float* out) {
    constexpr int64_t kPiece = 4096;  // a multiple of every block
    static_assert(kernels::kGroupRows * kPiece * sizeof(float) <= kernels::kPackedScratchBytes);
    const TypeInfo& info = type_info(table.type);
    const kernels::UnpackFn unpack = kernels_.packed[static_cast<uint32_t>(table.type)].unpack;
    auto* rows = reinterpret_cast<std::byte*>(scratch_[static_cast<size_t>(worker)].kernel);
    const int place = static_cast<int>(row % kernels::kGroupRows);
    const std::byte* group = table.row(row - place);
    for (int64_t k = 0; k < table.n_in; k += kPiece) {
        const int64_t n = std::min(kPiece, table.n_in - k);
        const auto n_bytes = static_cast<size_t>(info.row_bytes(n));
        unpack(group, place + 1, n, rows, n_bytes);
        info.dequantize(rows + static_cast<size_t>(place) * n_bytes, out + k, n);
        group += kernels::kGroupRows * n_bytes;
    }
}

void CpuBackend::run(const Op& op) {
    std::visit([this](const auto& one) { compute(one); }, op);
}

void CpuBackend::compute(const EmbedOp<Direct>& op) {
    const Weight& table = op.table;
    const TypeInfo& info = type_info(table.type);
    pool_.run(std::ssize(op.tokens), [&](int64_t t, int worker) {
        const int64_t token = op.tokens[static_cast<size_t>(t)];
        float* row = op.x->row(t);
        if (table.layout == Layout::Packed)
            decode_packed_row(table, token, worker, row);
        else
            info.dequantize(table.row(token), row, table.n_in);
        if (op.scale != 1.0f) vec_.scale(row, op.scale, table.n_in);
    });
}

void CpuBackend::compute(const RopeAnglesOp<Direct>& op) {
    const RopeSpec& rope = op.rope;
    const int64_t half = rope.n_rot / 2;
    for (const Segment& segment : op.positions) {
        cpu::run_rows(pool_, segment.n_tok, 16 * half, [&](int64_t i, int) {
            float* out = op.angles->row(segment.row0 + i);
            const double pos = static_cast<double>(segment.pos0 + i);
            for (int64_t j = 0; j < half; ++j) {
                const cpu::SinCos angle = cpu::sincos_exact(pos * rope.freq[j]);
                out[2 * j] = static_cast<float>(angle.cos * static_cast<double>(rope.magnitude));
                out[2 * j + 1] = static_cast<float>(angle.sin * static_cast<double>(rope.magnitude));
            }
        });
    }
}

void CpuBackend::compute(const NormOp<Direct>& op) {
    const ActBuffer& x = *op.x;
    ActBuffer& y = *op.y;
    const int64_t n_tok = op.n_tok;
    cpu::run_rows(pool_, n_tok, x.dim, [&](int64_t t, int) {
        // The next row and its image; for a single row its own image, while the sum is computed: a norm
        // writes 52 lines that every core has read, 3.4 us where cores are far apart, 0.8 us prefetched.
        const int64_t soon = std::min(t + 1, n_tok - 1);
        if (soon > t) cpu::prefetch_l2(x.row(soon), static_cast<size_t>(x.dim) * sizeof(float));
        if (y.needs_int8) prefetch_image_for_write(y, {0, n_tok}, soon, 0, y.dim);
        vec_.rms_norm(x.row(t), op.w.data, x.dim, op.eps, y.row(t));
        if (y.needs_int8) quantize_part(y, {0, n_tok}, t, 0, y.dim, y.row(t));
    });
}

void CpuBackend::compute(const LayerNormOp<Direct>& op) {
    const int64_t n = op.x->dim, n_tok = op.n_tok;
    ActBuffer& y = *op.y;
    cpu::run_rows(pool_, n_tok, 4 * n, [&](int64_t t, int) {
        const float* x = op.x->row(t);
        float* row = y.row(t);
        const float mean = row_mean(x, n);
        for (int64_t i = 0; i < n; ++i) row[i] = x[i] - mean;
        vec_.rms_norm(row, op.w.data, n, op.eps, row);
        if (op.bias) vec_.add(row, op.bias.data, n);
        if (y.needs_int8) quantize_part(y, {0, n_tok}, t, 0, y.dim, row);
    });
}

void CpuBackend::compute(const AddNormOp<Direct>& op) {
    const ActBuffer& delta = *op.delta;
    cpu::run_rows(pool_, op.n_tok, op.x->dim, [&](int64_t t, int) {
        vec_.rms_norm(delta.row(t), op.w.data, delta.dim, op.eps, delta.row(t));
        vec_.add(op.x->row(t), delta.row(t), op.x->dim);
    });
}

void CpuBackend::compute(const CopyOp<Direct>& op) {
    const ActBuffer& x = *op.x;
    ActBuffer& y = *op.y;
    const int64_t n_tok = op.n_tok;
    cpu::run_rows(pool_, n_tok, x.dim, [&](int64_t t, int) {
        std::memcpy(y.row(t), x.row(t), static_cast<size_t>(x.dim) * sizeof(float));
        if (y.needs_int8) quantize_part(y, {0, n_tok}, t, 0, y.dim, y.row(t));
    });
}

void CpuBackend::quantize_part(ActBuffer& y, ActRun run, int64_t t, int64_t col, int64_t n, const float* x) {
    const auto [block, step] = act_place(kernels_, run, t, y.dim);
    kernels_.quantize_act(x, n, act_row(y, block + col / kernels::kActBlock * step, step));
}

void CpuBackend::prefetch_image_for_write(ActBuffer& y, ActRun run, int64_t t, int64_t col, int64_t n) {
    const auto [block, step] = act_place(kernels_, run, t, y.dim);
    const kernels::ActRow to = act_row(y, block + col / kernels::kActBlock * step, step);
    const int64_t n_blocks = n / kernels::kActBlock * step;
    vec_.prefetch_for_write(to.q, n_blocks * kernels::kActBlock);
    vec_.prefetch_for_write(to.d, n_blocks * 4);
    vec_.prefetch_for_write(to.s, n_blocks * 4);
    vec_.prefetch_for_write(to.sum16, n_blocks * 4);
    vec_.prefetch_for_write(to.sum8, n_blocks * 8);
}

void CpuBackend::copy_row(const ActBuffer& from, ActRun run, int64_t t, ActBuffer& to, ActRun to_run,
                          int64_t row) {
    const int64_t dim = from.dim;
    if (to.needs_f32) std::memcpy(to.row(row), from.row(t), static_cast<size_t>(dim) * sizeof(float));
    if (!to.needs_int8) return;
    const ActPlace source = act_place(kernels_, run, t, dim), place = act_place(kernels_, to_run, row, dim);
    for (int64_t b = 0; b < dim / kernels::kActBlock; ++b) {
        const int64_t in = source.block + b * source.step, out = place.block + b * place.step;
        std::memcpy(to.q + out * kernels::kActBlock, from.q + in * kernels::kActBlock, kernels::kActBlock);
        to.d[out] = from.d[in];
        to.s[out] = from.s[in];
        std::memcpy(to.sum16 + 2 * out, from.sum16 + 2 * in, 2 * sizeof *to.sum16);
        std::memcpy(to.sum8 + 4 * out, from.sum8 + 4 * in, 4 * sizeof *to.sum8);
    }
}

void CpuBackend::compute(const GatherRowsOp<Direct>& op) {
    // Row numbers rise, so each row is read before it is overwritten. The remaining rows are a run of their
    // own.
    ActBuffer& a = *op.a;
    const int64_t n = std::ssize(op.rows);
    for (int64_t i = 0; i < n; ++i)
        std::memmove(a.row(i), a.row(op.rows[static_cast<size_t>(i)]),
                     static_cast<size_t>(a.dim) * sizeof(float));
    for (int64_t i = 0; a.needs_int8 && i < n; ++i) quantize_part(a, {0, n}, i, 0, a.dim, a.row(i));
}

}  // namespace tessera
