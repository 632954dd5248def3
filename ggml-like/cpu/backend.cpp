// CpuBackend: its scratch, and the verbs that work row by row (embed, rotary angles, norm). The matrix verbs
// are in matmul.cpp, attention in attention.cpp, experts in moe.cpp. Assumes that shapes were checked at
// load.
#include "ggml-like/cpu/backend.h"

#include <algorithm>
#include <cstring>

#include "ggml-like/cpu/fetch.h"
#include "ggml-like/cpu/limits.h"
#include "ggml-like/cpu/sincos.h"

namespace tessera {

/// From `memory`, which is an arena or counts what one would have to hold.
template <class Memory>
CpuBackend::Places CpuBackend::place(const Limits& limits, int n_threads, Memory& memory) {
    const size_t kernel_floats =
        std::max(kernels::kScratchFloats, kernels::kPackedScratchBytes / sizeof(float));
    const auto tile_floats = static_cast<size_t>(2 * cpu::tile_floats(limits.max_rows, limits.head_dim));
    const size_t attention_floats =
        cpu::attention_scratch_floats(limits.n_head, limits.n_head_kv, limits.head_dim);
    Places out;
    for (int i = 0; i < n_threads; ++i) {
        Scratch scratch;
        scratch.kernel = memory.template take<float>(kernel_floats).data();
        scratch.tile = memory.template take<float>(tile_floats).data();
        scratch.attention = memory.template take<float>(attention_floats).data();
        out.scratch.push_back(scratch);
    }
    out.partial_rows = cpu::kSplitMaxTok * cpu::kSplitRound * limits.n_head;
    const auto partial_floats = static_cast<size_t>(out.partial_rows * (limits.head_dim + 2));
    out.partials = memory.template take<float>(partial_floats).data();
    const auto router_floats = static_cast<size_t>(limits.max_tok * limits.n_expert);
    out.router_logits = memory.template take<float>(router_floats).data();
    return out;
}

size_t CpuBackend::scratch_bytes(const Limits& limits, int n_threads) {
    ArenaSize size;
    place(limits, n_threads, size);
    return size.bytes();
}

Result<std::unique_ptr<CpuBackend>> CpuBackend::create(ThreadPool& pool, const kernels::KernelTable& kernels,
                                                       const Limits& limits) {
    const cpu::VecTable* vec = cpu::vec_table(kernels.name);
    if (!vec) return fail(ErrorCode::Internal, "no vector verbs for the instruction set '%s'", kernels.name);
    std::unique_ptr<CpuBackend> backend(new CpuBackend(pool, kernels, *vec, limits));
    TSR_TRY(backend->arena_, Arena::create(scratch_bytes(limits, pool.n_threads()), "the workers' scratch"));
    Places places = place(limits, pool.n_threads(), backend->arena_);
    backend->scratch_ = std::move(places.scratch);
    backend->partials_ = places.partials;
    backend->partial_rows_ = places.partial_rows;
    backend->router_logits_ = places.router_logits;
    return backend;
}

/// A piece of the row's group at a time, as k rises in it and the scratch holds a group of no more than that.
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

void CpuBackend::embed(const Weight& table, std::span<const int32_t> tokens, float scale, Act& x) {
    const TypeInfo& info = type_info(table.type);
    pool_.run(static_cast<int64_t>(tokens.size()), [&](int64_t t, int worker) {
        const int64_t token = tokens[static_cast<size_t>(t)];
        if (table.layout == Layout::Packed)
            decode_packed_row(table, token, worker, x.row(t));
        else
            info.dequantize(table.row(token), x.row(t), table.n_in);
        if (scale != 1.0f) vec_.scale(x.row(t), scale, table.n_in);
    });
}

void CpuBackend::rope_angles(const RopeSpec& rope, std::span<const Segment> segments, Act& angles) {
    const int64_t half = rope.n_rot / 2;
    for (const Segment& segment : segments) {
        cpu::run_rows(pool_, segment.n_tok, 16 * half, [&](int64_t i, int) {
            float* out = angles.row(segment.row0 + i);
            const double pos = static_cast<double>(segment.pos0 + i);
            for (int64_t j = 0; j < half; ++j) {
                const cpu::SinCos angle = cpu::sincos_exact(pos * rope.freq[j]);
                out[2 * j] = static_cast<float>(angle.cos * static_cast<double>(rope.magnitude));
                out[2 * j + 1] = static_cast<float>(angle.sin * static_cast<double>(rope.magnitude));
            }
        });
    }
}

void CpuBackend::norm(const Act& x, const Vector& w, float eps, int64_t n_tok, Act& y) {
    cpu::run_rows(pool_, n_tok, x.dim, [&](int64_t t, int) {
        // Of a row alone its image, in the time that its sum takes; else what the next one needs.
        const int64_t soon = std::min(t + 1, n_tok - 1);
        if (soon > t) cpu::fetch(x.row(soon), static_cast<size_t>(x.dim) * sizeof(float));
        if (y.wants_int8) will_quantize_part(y, soon, 0, y.dim);
        vec_.rms_norm(x.row(t), w.data, x.dim, eps, y.row(t));
        if (y.wants_int8) quantize_part(y, t, 0, y.dim, y.row(t));
    });
}

void CpuBackend::add_norm(Act& part, const Vector& w, float eps, int64_t n_tok, Act& x) {
    cpu::run_rows(pool_, n_tok, x.dim, [&](int64_t t, int) {
        vec_.rms_norm(part.row(t), w.data, part.dim, eps, part.row(t));
        vec_.add(x.row(t), part.row(t), x.dim);
    });
}

void CpuBackend::copy(const Act& x, int64_t n_tok, Act& y) {
    cpu::run_rows(pool_, n_tok, x.dim, [&](int64_t t, int) {
        std::memcpy(y.row(t), x.row(t), static_cast<size_t>(x.dim) * sizeof(float));
        if (y.wants_int8) quantize_part(y, t, 0, y.dim, y.row(t));
    });
}

void CpuBackend::quantize_part(Act& y, int64_t t, int64_t col, int64_t n, const float* x) {
    const int64_t at = t * y.dim + col;
    kernels_.quantize_act(x, n, {y.q + at, y.d + at / 32, y.s + at / 32, y.sum16 + at / 16, y.sum8 + at / 8});
}

void CpuBackend::will_quantize_part(Act& y, int64_t t, int64_t col, int64_t n) {
    const int64_t at = t * y.dim + col;
    vec_.will_write(y.q + at, n);
    vec_.will_write(y.d + at / 32, n / 8);
    vec_.will_write(y.s + at / 32, n / 8);
    vec_.will_write(y.sum16 + at / 16, n / 8);
    vec_.will_write(y.sum8 + at / 8, n / 4);
}

namespace {

/// Row i of one array becomes row rows[i]. Rows rise, so each is read before it is overwritten.
template <class T>
void keep_rows_of(T* array, int64_t width, std::span<const int32_t> rows) {
    for (size_t i = 0; array && i < rows.size(); ++i)
        std::memmove(array + static_cast<int64_t>(i) * width, array + rows[i] * width,
                     static_cast<size_t>(width) * sizeof(T));
}

}  // namespace

void CpuBackend::keep_rows(std::span<const int32_t> rows, Act& a) {
    keep_rows_of(a.f32, a.dim, rows);
    keep_rows_of(a.q, a.dim, rows);
    keep_rows_of(a.d, a.dim / 32, rows);
    keep_rows_of(a.s, a.dim / 32, rows);
    keep_rows_of(a.sum16, a.dim / 16, rows);
    keep_rows_of(a.sum8, a.dim / 8, rows);
}

}  // namespace tessera
