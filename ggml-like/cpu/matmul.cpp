// CpuBackend's matrix verbs: products with their epilogues. A unit is a block of rows times all tokens; which
// kernel runs is decided by the weight's layout and type alone (packed and no floats = integer path).
#include <algorithm>
#include <cstring>

#include "ggml-like/cpu/backend.h"
#include "ggml-like/cpu/limits.h"

namespace tessera {

using cpu::n_blocks;

namespace {

/// Where row `row` of w lies; nothing for a negative one.
const std::byte* rows_at(const Weight& w, int64_t row) { return row < 0 ? nullptr : w.row(row); }

}  // namespace

void CpuBackend::multiply(const Weight& w, int64_t row0, int64_t n_rows, const Act& x, ActRun run,
                          int64_t tok0, int64_t n_tok, float* tile, int64_t tile_stride, int worker,
                          const std::byte* next) {
    float* scratch = scratch_[static_cast<size_t>(worker)].kernel;
    if (w.takes_int8()) {
        kernels::PackedMatmulArgs args{};
        args.w = w.row(row0);
        args.n_rows = n_rows;
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
        kernels_.packed[static_cast<uint32_t>(w.type)].matmul(args);
        return;
    }
    kernels::MatmulArgs args{};
    args.w = w.row(row0);
    args.w_stride = w.row_bytes;
    args.n_rows = n_rows;
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

void CpuBackend::linear_rows(const LinearOut& out, cpu::Range rows, const Act& x, int64_t n_tok, int worker) {
    cpu::each_stretch(rows, cpu::stream_rows(n_tok), [&](int64_t row0, int64_t n_rows, int64_t next) {
        for (int64_t tok0 = 0; tok0 < n_tok; tok0 += cpu::kTokBlock) {
            const int64_t n = std::min(cpu::kTokBlock, n_tok - tok0);
            float* tile = out.y->row(tok0) + row0;
            int64_t stride = out.y->dim;
            if (out.add) {
                tile = scratch_[static_cast<size_t>(worker)].tile;
                stride = n_rows;
            }
            multiply(out.w, row0, n_rows, x, {0, n_tok}, tok0, n, tile, stride, worker, rows_at(out.w, next));
            for (int64_t t = 0; t < n; ++t) {
                float* row = tile + t * stride;
                if (out.add && t + cpu::kRowsAhead < n)
                    vec_.will_write(out.y->row(tok0 + t + cpu::kRowsAhead) + row0,
                                    n_rows * int64_t{sizeof(float)});
                if (out.bias) vec_.add(row, out.bias.data + row0, n_rows);
                if (out.add) {
                    vec_.add_scaled(out.y->row(tok0 + t) + row0, row, out.scale, n_rows);
                    continue;
                }
                if (out.scale != 1.0f) vec_.scale(row, out.scale, n_rows);
                if (out.softcap > 0) vec_.softcap(row, out.softcap, n_rows);
            }
        }
    });
}

void CpuBackend::linear(const Act& x, int64_t n_tok, std::span<const LinearOut> outs) {
    int64_t n_units = 0;
    for (const LinearOut& out : outs) n_units += n_blocks(out.w.n_out, cpu::kUnitRows);
    cpu::run_units(pool_, n_units, n_tok, [&](int64_t first, int64_t end, int worker) {
        for (const LinearOut& out : outs) {
            linear_rows(out, cpu::unit_rows(first, end, out.w.n_out), x, n_tok, worker);
            const int64_t n = n_blocks(out.w.n_out, cpu::kUnitRows);
            first -= n, end -= n;
        }
    });
}

void CpuBackend::qk_rows(const Act& x, const QkvArgs& args, int64_t n_tok, Act& q) {
    const LinearOut rows[] = {{.w = args.wq, .bias = args.bq, .y = &q},
                              {.w = args.wk, .bias = args.bk, .y = args.k_rows}};
    linear(x, n_tok, rows);
    pool_.run(n_tok, [&](int64_t t, int) {
        const auto norm = [&](float* row, const Vector& w) {
            if (w.n > args.kv.head_dim) vec_.rms_norm(row, w.data, w.n, args.norm_eps, row);
        };
        norm(q.row(t), args.q_norm);
        norm(args.k_rows->row(t), args.k_norm);
    });
}

void CpuBackend::qkv(const Act& x, int64_t n_tok, const QkvArgs& args, std::span<const Segment> segments,
                     Act& q) {
    const int64_t head_dim = args.kv.head_dim;
    const int64_t n_heads[3] = {args.n_head, args.kv.n_head_kv, args.kv.n_head_kv};
    const Weight* weights[3] = {&args.wq, &args.wk, &args.wv};
    const Vector* biases[3] = {&args.bq, &args.bk, &args.bv};
    const bool whole_rows = args.q_norm.n > head_dim || args.k_norm.n > head_dim;
    if (whole_rows) qk_rows(x, args, n_tok, q);
    const int64_t unit_heads = std::max<int64_t>(1, cpu::kUnitRows / head_dim);
    int64_t n_units = 0;
    for (const int64_t n : n_heads) n_units += n_blocks(n, unit_heads);

    // A stretch of heads, all of one part; `next` is the head that the next one starts with.
    const auto run_heads = [&](int part, int64_t head0, int64_t heads, int64_t next, int worker) {
        const int64_t n_rows = heads * head_dim;
        float* tile = scratch_[static_cast<size_t>(worker)].tile;
        for (int64_t tok0 = 0; tok0 < n_tok; tok0 += cpu::kTokBlock) {
            const int64_t n = std::min(cpu::kTokBlock, n_tok - tok0);
            if (whole_rows && part < 2) {
                const Act& rows = part == 0 ? q : *args.k_rows;
                for (int64_t h = head0; h < head0 + heads; ++h)
                    store_qkv(args, part, h, rows.row(tok0) + h * head_dim, rows.dim, tok0, n, segments, q);
                continue;
            }
            multiply(*weights[part], head0 * head_dim, n_rows, x, {0, n_tok}, tok0, n, tile, n_rows, worker,
                     rows_at(*weights[part], next * head_dim));
            if (*biases[part])
                for (int64_t t = 0; t < n; ++t)
                    vec_.add(tile + t * n_rows, biases[part]->data + head0 * head_dim, n_rows);
            for (int64_t h = 0; h < heads; ++h)
                store_qkv(args, part, head0 + h, tile + h * head_dim, n_rows, tok0, n, segments, q);
        }
    };
    const int64_t stretch = std::max<int64_t>(1, cpu::stream_rows(n_tok) / head_dim);
    cpu::run_units(pool_, n_units, n_tok, [&](int64_t first, int64_t end, int worker) {
        for (int part = 0; part < 3; ++part) {
            const cpu::Range heads{std::max<int64_t>(first, 0) * unit_heads,
                                   std::min(end * unit_heads, n_heads[part])};
            cpu::each_stretch(heads, stretch, [&](int64_t head, int64_t n, int64_t next) {
                run_heads(part, head, n, next, worker);
            });
            const int64_t n = n_blocks(n_heads[part], unit_heads);
            first -= n, end -= n;
        }
    });
}

void CpuBackend::token_gate(const Weight& w, const Act& x, ActRun run, int64_t tok0, int64_t n_tok,
                            float* gates, int worker) {
    multiply(w, 0, 1, x, run, tok0, n_tok, gates, 1, worker);
    vec_.scale(gates, -1, n_tok);
    vec_.exp(gates, gates, n_tok);
    for (int64_t t = 0; t < n_tok; ++t) gates[t] = 1 / (1 + gates[t]);
}

void CpuBackend::gated_rows(const GatedArgs& args, cpu::Range rows, const Act& x, ActRun run, Act& y,
                            int worker) {
    float* gate_tile = scratch_[static_cast<size_t>(worker)].tile;
    float* up_tile = gate_tile + cpu::tile_floats(limits_.max_rows, limits_.head_dim);
    bool& up_first = scratch_[static_cast<size_t>(worker)].up_first;
    const auto run_tokens = [&](int64_t row0, int64_t n_rows, int64_t next, int64_t t0, int64_t n) {
        // Few tokens' image at once, while the products take their time; of many, some ahead of each.
        const int64_t together = act_tile(kernels_, run.n);
        for (int64_t t = t0; y.wants_int8 && run.n <= cpu::kStreamTok && t < t0 + n; t += together)
            will_quantize_part(y, run, t, row0, n_rows);
        const auto product = [&](bool up, const std::byte* then) {
            multiply(up ? args.up : args.gate, row0, n_rows, x, run, t0, n, up ? up_tile : gate_tile, n_rows,
                     worker, then);
        };
        product(up_first, (up_first ? args.gate : args.up).row(row0));
        up_first = !up_first;
        product(up_first, rows_at(up_first ? args.up : args.gate, next));
        float token_gates[cpu::kTokBlock];
        if (args.token_gate) token_gate(args.token_gate, x, run, t0, n, token_gates, worker);
        for (int64_t t = 0; t < n; ++t) {
            const bool asks = (t + cpu::kRowsAhead) % together == 0 && t + cpu::kRowsAhead < n;
            if (y.wants_int8 && run.n > cpu::kStreamTok && asks)
                will_quantize_part(y, run, t0 + t + cpu::kRowsAhead, row0, n_rows);
            float* gate = gate_tile + t * n_rows;
            float* up = up_tile + t * n_rows;
            // Rows of y are far apart, and a tile is near: floats that nobody reads need not leave it.
            float* out = y.wants_f32 ? y.row(t0 + t) + row0 : gate;
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
            if (args.token_gate) vec_.scale(out, token_gates[t], n_rows);
            if (y.wants_int8) quantize_part(y, run, t0 + t, row0, n_rows, out);
        }
    };
    cpu::each_stretch(rows, cpu::stream_rows(run.n), [&](int64_t row0, int64_t n_rows, int64_t next) {
        const int64_t end = run.first + run.n;
        for (int64_t t = run.first; t < end; t += cpu::kTokBlock)
            run_tokens(row0, n_rows, next, t, std::min(cpu::kTokBlock, end - t));
    });
}

void CpuBackend::gated(const Act& x, int64_t n_tok, const GatedArgs& args, Act& y) {
    const int64_t n_units = n_blocks(args.gate.n_out, cpu::kUnitRows);
    cpu::run_units(pool_, n_units, n_tok, [&](int64_t first, int64_t end, int worker) {
        gated_rows(args, cpu::unit_rows(first, end, args.gate.n_out), x, {0, n_tok}, y, worker);
    });
}

}  // namespace tessera
