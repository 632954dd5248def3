// CpuBackend's matrix verbs: products with their epilogues. A unit is a block of rows times all tokens; which
// kernel runs is decided by the weight's layout and type alone (packed and no floats = integer path).
#include <algorithm>
#include <cstring>

#include "ggml-like/cpu/backend.h"
#include "ggml-like/cpu/tuning.h"
#include "ggml-like/cpu/regions.h"

namespace tessera {

using cpu::rows_at, cpu::Stretch, cpu::unit_size, cpu::units_in_pieces;

namespace {

/// What a part of rows of w is followed by: what is left of them, or behind the last part `next`. Pieces go
/// on by themselves.
const std::byte* behind(const Weight& w, const Stretch& part, bool last, const std::byte* next) {
    if (last) return next;
    return part.apart > 0 ? nullptr : w.row(part.row + part.n);
}

}  // namespace

bool CpuBackend::in_pieces(const Weight& w, int64_t n_tok) const {
    return fetch_ == kernels::Fetch::FarStreams && w.takes_int8() && n_tok <= cpu::kPieceTok;
}

void CpuBackend::fetch_next_phase(const kernels::PackedMatmulArgs& now, const Weight& w, int worker) {
    const auto group_bytes = kernels::kGroupRows * static_cast<int64_t>(w.row_bytes);
    const int64_t n_groups = now.n_rows / (kernels::kPieces * kernels::kGroupRows);
    const int64_t groups_apart = now.apart > 0
                                     ? now.apart / kernels::kGroupRows
                                     : kernels::groups_of_stream(n_groups, group_bytes, kernels::kPieces);
    const Streams next = phase_starts_.next(
        worker, {static_cast<const std::byte*>(now.w), groups_apart * group_bytes, kernels::kPieces});
    if (next.n > 0) pool_.fetch_while_waiting(worker, next);
}

void CpuBackend::multiply(const Weight& w, const Stretch& rows, const ActBuffer& x, ActRun run, int64_t tok0,
                          int64_t n_tok, float* tile, int64_t tile_stride, int64_t tile_apart, int worker,
                          const std::byte* next) {
    float* scratch = scratch_[static_cast<size_t>(worker)].kernel;
    if (w.takes_int8()) {
        kernels::PackedMatmulArgs args{};
        args.w = w.row(rows.row);
        args.n_rows = rows.n_rows();
        args.apart = rows.apart;
        args.y_apart = tile_apart;
        args.n_k = w.n_in;
        const int64_t row_blocks = x.dim / kernels::kActBlock, at = tok0 * row_blocks;
        const kernels::ActRow first = act_row(x, at, 1);
        args.x = {first.q,    first.d, first.s,    first.sum16,
                  first.sum8, x.dim,   row_blocks, act_tile(kernels_, run.n)};
        args.n_tok = n_tok;
        args.y = tile;
        args.y_stride = tile_stride;
        args.scratch = scratch;
        args.next = next;
        args.fetch = fetch_;
        if (in_pieces(w, n_tok)) fetch_next_phase(args, w, worker);
        kernels_.packed[static_cast<uint32_t>(w.type)].matmul(args);
        return;
    }
    kernels::MatmulArgs args{};
    args.w = w.row(rows.row);
    args.w_stride = w.row_bytes;
    args.n_rows = rows.n;
    args.n_k = w.n_in;
    args.x = x.row(tok0);
    args.x_stride = x.dim;
    args.n_tok = n_tok;
    args.y = tile;
    args.y_stride = tile_stride;
    args.scratch = scratch;
    args.next = next;
    args.fetch = float_fetch_;
    const auto& products = w.layout == Layout::Packed ? kernels_.matmul_packed_f32 : kernels_.matmul_f32;
    products[static_cast<uint32_t>(w.type)](args);
}

void CpuBackend::linear_rows(const LinearOut& out, const Stretch& rows, const ActBuffer& x, int64_t n_tok,
                             int worker, const std::byte* next) {
    // One piece of a token's results, in `tile` or where they belong.
    const auto finish = [&](int64_t t, int64_t row0, int64_t n_rows, float* row) {
        if (out.bias) vec_.add(row, out.bias.data + row0, n_rows);
        if (out.add) return vec_.add_scaled(out.y->row(t) + row0, row, out.scale, n_rows);
        if (out.scale != 1.0f) vec_.scale(row, out.scale, n_rows);
        if (out.softcap > 0) vec_.softcap(row, out.softcap, n_rows);
    };
    rows.each_part(cpu::stream_rows(n_tok), [&](const Stretch& part, bool last) {
        for (int64_t tok0 = 0; tok0 < n_tok; tok0 += cpu::kTokBlock) {
            const int64_t n = std::min(cpu::kTokBlock, n_tok - tok0);
            float* tile = out.y->row(tok0) + part.row;
            int64_t stride = out.y->dim, apart = part.apart;
            if (out.add) {
                tile = scratch_[static_cast<size_t>(worker)].tile;
                stride = part.n_rows(), apart = part.n;
            }
            multiply(out.w, part, x, {0, n_tok}, tok0, n, tile, stride, apart, worker,
                     behind(out.w, part, last, next));
            for (int64_t t = 0; t < n; ++t) {
                if (out.add && t + cpu::kRowsAhead < n)
                    vec_.prefetch_for_write(out.y->row(tok0 + t + cpu::kRowsAhead) + part.row,
                                    part.n * int64_t{sizeof(float)});
                for (int64_t i = 0; i < part.n_pieces(); ++i)
                    finish(tok0 + t, part.row + i * part.apart, part.n, tile + t * stride + i * apart);
            }
        }
    });
}

void CpuBackend::linear(const ActBuffer& x, int64_t n_tok, std::span<const LinearOut> outs) {
    phase_starts_.begin_phase();
    const auto out_of = [&](int64_t i) -> const LinearOut& { return outs[static_cast<size_t>(i)]; };
    const auto run = [&](const auto& regions) {
        cpu::run_units(pool_, regions.n_units(), n_tok, [&](int64_t first, int64_t end, int worker) {
            regions.each_stretch(first, end, [&](const Stretch& rows, const Stretch& next) {
                linear_rows(out_of(rows.matrix), rows, x, n_tok, worker,
                            rows_at(out_of(next.matrix).w, next));
            });
        });
    };
    if (outs.size() == 1) {
        const Weight& w = outs[0].w;
        const cpu::UnitSize unit = unit_size(w, in_pieces(w, n_tok), cpu::kPieceRows);
        return run(cpu::regions_of(w.n_out, unit));
    }
    const auto whole = [&](int64_t i) { return Stretch{i, 0, out_of(i).w.n_out}; };
    run(cpu::Regions{static_cast<int64_t>(outs.size()), cpu::UnitSize{cpu::kUnitRows, 0}, whole});
}

void CpuBackend::qk_rows(const ActBuffer& x, const QkvArgs& args, int64_t n_tok, ActBuffer& q) {
    const LinearOut rows[] = {{.w = args.wq, .bias = args.bq, .y = &q},
                              {.w = args.wk, .bias = args.bk, .y = args.k_scratch}};
    linear(x, n_tok, rows);
    pool_.run(n_tok, [&](int64_t t, int) {
        const auto norm = [&](float* row, const Vector& w) {
            if (w.n > args.kv.head_dim) vec_.rms_norm(row, w.data, w.n, args.norm_eps, row);
        };
        norm(q.row(t), args.q_norm);
        norm(args.k_scratch->row(t), args.k_norm);
    });
}

void CpuBackend::qkv(const ActBuffer& x, int64_t n_tok, const QkvArgs& args,
                     std::span<const Segment> segments, ActBuffer& q) {
    const int64_t head_dim = args.kv.head_dim;
    const int64_t n_heads[3] = {args.n_head, args.kv.n_head_kv, args.kv.n_head_kv};
    const Weight* weights[3] = {&args.wq, &args.wk, &args.wv};
    const Vector* biases[3] = {&args.bq, &args.bk, &args.bv};
    const bool whole_rows = args.q_norm.n > head_dim || args.k_norm.n > head_dim;
    if (whole_rows) qk_rows(x, args, n_tok, q);
    // Whole heads of one part.
    const auto run_heads = [&](const Stretch& rows, const std::byte* next, int worker) {
        const int part = static_cast<int>(rows.matrix);
        const int64_t head0 = rows.row / head_dim, heads = rows.n / head_dim, n_rows = rows.n;
        float* tile = scratch_[static_cast<size_t>(worker)].tile;
        for (int64_t tok0 = 0; tok0 < n_tok; tok0 += cpu::kTokBlock) {
            const int64_t n = std::min(cpu::kTokBlock, n_tok - tok0);
            if (whole_rows && part < 2) {
                const ActBuffer& made = part == 0 ? q : *args.k_scratch;
                for (int64_t h = head0; h < head0 + heads; ++h)
                    store_qkv(args, part, h, made.row(tok0) + h * head_dim, made.dim, tok0, n, segments, q);
                continue;
            }
            multiply(*weights[part], rows, x, {0, n_tok}, tok0, n, tile, n_rows, 0, worker, next);
            if (*biases[part])
                for (int64_t t = 0; t < n; ++t)
                    vec_.add(tile + t * n_rows, biases[part]->data + rows.row, n_rows);
            for (int64_t h = 0; h < heads; ++h)
                store_qkv(args, part, head0 + h, tile + h * head_dim, n_rows, tok0, n, segments, q);
        }
    };
    const auto whole = [&](int64_t part) { return Stretch{part, 0, n_heads[part] * head_dim}; };
    const int64_t unit_rows = std::max<int64_t>(1, cpu::kUnitRows / head_dim) * head_dim;
    const cpu::Regions regions{3, cpu::UnitSize{unit_rows, 0}, whole};
    phase_starts_.begin_phase();
    const int64_t most = std::max<int64_t>(1, cpu::stream_rows(n_tok) / head_dim) * head_dim;
    cpu::run_units(pool_, regions.n_units(), n_tok, [&](int64_t first, int64_t end, int worker) {
        regions.each_stretch(first, end, [&](const Stretch& rows, const Stretch& next) {
            const std::byte* after = rows_at(*weights[next.matrix], next);
            rows.each_part(most, [&](const Stretch& part, bool last) {
                run_heads(part, behind(*weights[rows.matrix], part, last, after), worker);
            });
        });
    });
}

void CpuBackend::shared_expert_gate(const Weight& w, const ActBuffer& x, ActRun run, int64_t tok0,
                                    int64_t n_tok, float* gates, int worker) {
    multiply(w, {0, 0, 1}, x, run, tok0, n_tok, gates, 1, 0, worker);
    vec_.scale(gates, -1, n_tok);
    vec_.exp(gates, gates, n_tok);
    for (int64_t t = 0; t < n_tok; ++t) gates[t] = 1 / (1 + gates[t]);
}

CpuBackend::GatedWeights CpuBackend::gated_weights(const FfnGateUpArgs& args, int64_t n_tok) const {
    const Weight &gate = args.gate, &up = args.up;
    const bool pieces = in_pieces(gate, n_tok) && in_pieces(up, n_tok);
    GatedWeights out{{}, gate.n_out, unit_size(gate, pieces, kernels::kActBlock)};
    const int64_t n_both = 2 * gate.n_out;
    const bool in_a_row = up.type == gate.type && up.n_out == gate.n_out && up.data == gate.row(gate.n_out);
    if (pieces && in_a_row &&
        units_in_pieces(n_both, out.unit) * out.unit.rows * kernels::kPieces == n_both) {
        out.both = gate;
        out.both.n_out = out.n_rows = n_both;
    }
    return out;
}

void CpuBackend::gated_rows(const FfnGateUpArgs& args, const Weight& both, const Stretch& rows,
                            const ActBuffer& x, ActRun run, ActBuffer& y, int worker,
                            const std::byte* const (&next)[2]) {
    float* gate_tile = scratch_[static_cast<size_t>(worker)].tile;
    bool& up_first = scratch_[static_cast<size_t>(worker)].up_first;
    // Rows of y are far apart, and a tile is near: floats that nobody reads need not leave it.
    const auto activate = [&](int64_t row0, int64_t n_rows, int64_t t, float* gate, float* up,
                              const float* shared_expert_gate) {
        float* out = y.needs_f32 ? y.row(t) + row0 : gate;
        if (args.gate_bias) vec_.add(gate, args.gate_bias.data + row0, n_rows);
        if (args.up_bias) vec_.add(up, args.up_bias.data + row0, n_rows);
        switch (args.activation) {
            case Activation::Silu:
                vec_.silu_mul(gate, up, out, n_rows);
                break;
            case Activation::Gelu:
                vec_.gelu_mul(gate, up, out, n_rows);
                break;
            case Activation::ClampedSilu:
                vec_.clamped_silu_mul(gate, up, out, n_rows);
                break;
        }
        if (args.shared_expert_gate) vec_.scale(out, *shared_expert_gate, n_rows);
        if (y.needs_int8) quantize_part(y, run, t, row0, n_rows, out);
    };
    const auto run_tokens = [&](const Stretch& part, bool last, int64_t t0, int64_t n) {
        const int64_t n_rows = part.n_rows();
        // Of both at once the first pieces are the gate's.
        const int64_t n_own = both ? kernels::kPieces / 2 : part.n_pieces();
        float* up_tile =
            gate_tile + (both ? n_own * part.n : cpu::tile_floats(limits_.max_rows, limits_.head_dim));
        // Few tokens' image at once, while the products take their time; of many, some ahead of each.
        const int64_t together = act_tile(kernels_, run.n);
        for (int64_t t = t0; y.needs_int8 && run.n <= cpu::kMemoryBoundBatch && t < t0 + n; t += together)
            part.each_piece(n_own, [&](int64_t row, int64_t) { prefetch_image_for_write(y, run, t, row, part.n); });
        const Weight* weights[] = {&args.gate, &args.up};
        const auto product = [&](bool up, const std::byte* then) {
            multiply(*weights[up], part, x, run, t0, n, up ? up_tile : gate_tile, n_rows, part.n, worker,
                     then);
        };
        if (both) {
            multiply(both, part, x, run, t0, n, gate_tile, n_rows, part.n, worker, last ? next[0] : nullptr);
        } else {
            product(up_first, weights[!up_first]->row(part.row));
            up_first = !up_first;
            product(up_first, behind(*weights[up_first], part, last, next[up_first]));
        }
        float token_gates[cpu::kTokBlock];
        if (args.shared_expert_gate)
            shared_expert_gate(args.shared_expert_gate, x, run, t0, n, token_gates, worker);
        for (int64_t t = 0; t < n; ++t) {
            const bool asks = (t + cpu::kRowsAhead) % together == 0 && t + cpu::kRowsAhead < n;
            if (y.needs_int8 && run.n > cpu::kMemoryBoundBatch && asks)
                prefetch_image_for_write(y, run, t0 + t + cpu::kRowsAhead, part.row, part.n);
            part.each_piece(n_own, [&](int64_t row, int64_t at) {
                activate(row, part.n, t0 + t, gate_tile + t * n_rows + at, up_tile + t * n_rows + at,
                         token_gates + t);
            });
        }
    };
    rows.each_part(cpu::stream_rows(run.n), [&](const Stretch& part, bool last) {
        const int64_t end = run.first + run.n;
        for (int64_t t = run.first; t < end; t += cpu::kTokBlock)
            run_tokens(part, last, t, std::min(cpu::kTokBlock, end - t));
    });
}

void CpuBackend::ffn_gate_up(const ActBuffer& x, int64_t n_tok, const FfnGateUpArgs& args, ActBuffer& y) {
    phase_starts_.begin_phase();
    const GatedWeights weights = gated_weights(args, n_tok);
    const auto regions = cpu::regions_of(weights.n_rows, weights.unit);
    cpu::run_units(pool_, regions.n_units(), n_tok, [&](int64_t first, int64_t end, int worker) {
        regions.each_stretch(first, end, [&](const Stretch& rows, const Stretch& next) {
            gated_rows(args, weights.both, rows, x, {0, n_tok}, y, worker,
                       {rows_at(args.gate, next), rows_at(args.up, next)});
        });
    });
}

}  // namespace tessera
