// CpuBackend's matrix products with their epilogues. A unit of work is a block of rows times all tokens. The
// kernel is chosen by the weight's layout and type alone: packed and quantized weights take the integer path
// (kernels::PackedKernels, quants/kernels/packed_gemm.inl), all others a float product. Where to look next:
// row_partition.h for the units, tuning.h for their sizes.
#include <algorithm>
#include <cstring>

#include "ggml-like/cpu/activation.h"
#include "ggml-like/cpu/backend.h"
#include "ggml-like/cpu/prefetch.h"
#include "ggml-like/cpu/row_partition.h"
#include "ggml-like/cpu/tuning.h"

namespace tessera {

using cpu::PrefetchedRows, cpu::row_ptr, cpu::RowRange;

void CpuBackend::multiply(const Weight& w, const RowRange& rows, const ActBuffer& x, ActRun run, int64_t tok0,
                          int64_t n_tok, float* tile, int64_t tile_stride, int worker,
                          const std::byte* next) {
    float* scratch = scratch_[static_cast<size_t>(worker)].kernel;
    if (w.takes_int8()) {
        kernels::PackedMatmulArgs args{};
        args.w = w.row(rows.row);
        args.n_rows = rows.n;
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
        args.tuning = tuning_.packed;
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
    args.prefetch = tuning_.floats;
    if (products_ && n_tok >= products_.min_tok) return products_.multiply(w, args, vec_);
    const auto& products = w.layout == Layout::Packed ? kernels_.matmul_packed_f32 : kernels_.matmul_f32;
    products[static_cast<uint32_t>(w.type)](args);
}

void CpuBackend::finish_row(const Product<Direct>& product, int64_t col, int64_t n, float* row) {
    if (product.bias) vec_.add(row, product.bias.data + col, n);
    cpu::activate(vec_, product.activation, row, n);
    if (product.scale != 1.0f) vec_.scale(row, product.scale, n);
    if (product.softcap > 0) vec_.softcap(row, product.softcap, n);
}

void CpuBackend::linear_rows(const LinearOp<Direct>& op, const RowRange& rows, int worker,
                             const std::byte* next) {
    const Product<Direct>& product = op.product;
    const int64_t n_tok = op.n_tok;
    // One token's results, in a tile or where they belong.
    const auto finish = [&](int64_t t, float* row) {
        if (!product.add) return finish_row(product, rows.row, rows.n, row);
        if (product.bias) vec_.add(row, product.bias.data + rows.row, rows.n);
        cpu::activate(vec_, product.activation, row, rows.n);
        vec_.add_scaled(op.y->row(t) + rows.row, row, product.scale, rows.n);
    };
    for (int64_t tok0 = 0; tok0 < n_tok; tok0 += cpu::kTokBlock) {
        const int64_t n = std::min(cpu::kTokBlock, n_tok - tok0);
        float* tile = product.add ? scratch_[static_cast<size_t>(worker)].tile : op.y->row(tok0) + rows.row;
        const int64_t stride = product.add ? rows.n : op.y->dim;
        const PrefetchedRows y_rows(n, 1, [&](int64_t t) {
            if (!product.add) return;  // the product writes to y itself
            vec_.prefetch_for_write(op.y->row(tok0 + t) + rows.row, rows.n * int64_t{sizeof(float)});
        });
        multiply(product.w, rows, *op.x, {0, n_tok}, tok0, n, tile, stride, worker, next);
        y_rows.each([&](int64_t t) {
            finish(tok0 + t, tile + t * stride);
            if (op.y->needs_int8)
                quantize_part(*op.y, {0, n_tok}, tok0 + t, rows.row, rows.n, op.y->row(tok0 + t) + rows.row);
        });
    }
}

void CpuBackend::compute(const LinearOp<Direct>& op) {
    const Weight& w = op.product.w;
    const auto partition = cpu::partition_of(w.n_out);
    cpu::run_units(pool_, partition.n_units(), op.n_tok, [&](int64_t first, int64_t end, int worker) {
        partition.each_range(first, end, cpu::max_rows(op.n_tok),
                             [&](const RowRange& rows, const RowRange& next) {
                                 linear_rows(op, rows, worker, row_ptr(w, next));
                             });
    });
}

void CpuBackend::qk_rows(const QkvOp<Direct>& op) {
    const LinearOp<Direct> parts[] = {{.x = op.x, .n_tok = op.n_tok, .product = op.q, .y = op.queries},
                                      {.x = op.x, .n_tok = op.n_tok, .product = op.k, .y = op.k_scratch}};
    const cpu::RowPartition partition(2, cpu::kUnitRows, [&](int64_t i) {
        return RowRange{i, 0, parts[i].product.w.n_out};
    });
    cpu::run_units(pool_, partition.n_units(), op.n_tok, [&](int64_t first, int64_t end, int worker) {
        partition.each_range(
            first, end, cpu::max_rows(op.n_tok), [&](const RowRange& rows, const RowRange& next) {
                linear_rows(parts[rows.matrix], rows, worker, row_ptr(parts[next.matrix].product.w, next));
            });
    });
    pool_.run(op.n_tok, [&](int64_t t, int) {
        const auto norm = [&](float* row, const Vector& w) {
            if (w.n > op.cache.k_dim) vec_.rms_norm(row, w.data, w.n, op.norm_eps, row);
        };
        norm(op.queries->row(t), op.q_norm);
        norm(op.k_scratch->row(t), op.k_norm);
    });
}

void CpuBackend::compute(const QkvOp<Direct>& op) {
    const int64_t n_tok = op.n_tok;
    const int64_t n_heads[3] = {op.n_head, op.cache.n_head_kv, op.cache.n_head_kv};
    const int64_t head_dims[3] = {op.cache.k_dim, op.cache.k_dim, op.cache.v_dim};
    const Product<Direct>* products[3] = {&op.q, &op.k, &op.v};
    const bool whole_rows = op.norms_whole_rows();
    if (whole_rows) qk_rows(op);
    const auto rows_of = [&](const RowRange& heads) -> RowRange {
        const int64_t dim = head_dims[heads.matrix];
        return {heads.matrix, heads.row * dim, heads.n * dim};
    };
    // Heads of q, k or v.
    const auto run_heads = [&](const RowRange& heads, const std::byte* next, int worker) {
        const int part = static_cast<int>(heads.matrix);
        const RowRange rows = rows_of(heads);
        const int64_t head_dim = head_dims[part], n_rows = rows.n;
        float* tile = scratch_[static_cast<size_t>(worker)].tile;
        for (int64_t tok0 = 0; tok0 < n_tok; tok0 += cpu::kTokBlock) {
            const int64_t n = std::min(cpu::kTokBlock, n_tok - tok0);
            if (whole_rows && part < 2) {
                const ActBuffer& made = part == 0 ? *op.queries : *op.k_scratch;
                for (int64_t h = heads.row; h < heads.row + heads.n; ++h)
                    store_qkv(op, part, h, made.row(tok0) + h * head_dim, made.dim, tok0, n);
                continue;
            }
            multiply(products[part]->w, rows, *op.x, {0, n_tok}, tok0, n, tile, n_rows, worker, next);
            for (int64_t t = 0; t < n; ++t) finish_row(*products[part], rows.row, n_rows, tile + t * n_rows);
            for (int64_t h = 0; h < heads.n; ++h)
                store_qkv(op, part, heads.row + h, tile + h * head_dim, n_rows, tok0, n);
        }
    };
    // Matrices are cut between heads.
    const int64_t head_rows = std::max(op.cache.k_dim, op.cache.v_dim);
    const int64_t unit_heads = std::max<int64_t>(1, cpu::kUnitRows / head_rows);
    const int64_t max_units = std::max<int64_t>(1, cpu::max_rows(n_tok) / (unit_heads * head_rows));
    const cpu::RowPartition partition(3, unit_heads, [&](int64_t part) {
        return RowRange{part, 0, n_heads[part]};
    });
    cpu::run_units(pool_, partition.n_units(), n_tok, [&](int64_t first, int64_t end, int worker) {
        partition.each_range(first, end, max_units * unit_heads,
                             [&](const RowRange& heads, const RowRange& next) {
                                 run_heads(heads, row_ptr(products[next.matrix]->w, rows_of(next)), worker);
                             });
    });
}

void CpuBackend::shared_expert_gate(const Weight& w, const ActBuffer& x, ActRun run, int64_t tok0,
                                    int64_t n_tok, float* gates, int worker) {
    multiply(w, {0, 0, 1}, x, run, tok0, n_tok, gates, 1, worker);
    vec_.scale(gates, -1, n_tok);
    vec_.exp(gates, gates, n_tok);
    for (int64_t t = 0; t < n_tok; ++t) gates[t] = 1 / (1 + gates[t]);
}

void CpuBackend::gate_up_rows(const GateUp& args, const RowRange& rows, const ActBuffer& x, ActRun run,
                              ActBuffer& y, int worker, const std::byte* next) {
    float* gate_tile = scratch_[static_cast<size_t>(worker)].tile;
    float* up_tile = gate_tile + cpu::tile_floats(limits_.max_rows, limits_.head_dim());
    const int64_t n_rows = rows.n;
    const auto activate = [&](int64_t t, float* gate, float* up, const float* expert_gate) {
        // Rows of y are far apart: floats that no one needs stay in the tile.
        float* out = y.needs_f32 ? y.row(t) + rows.row : gate;
        if (args.gate_bias) vec_.add(gate, args.gate_bias.data + rows.row, n_rows);
        if (args.up_bias) vec_.add(up, args.up_bias.data + rows.row, n_rows);
        cpu::activate_mul(vec_, args.activation, gate, up, out, n_rows);
        if (args.shared_expert_gate) vec_.scale(out, *expert_gate, n_rows);
        if (y.needs_int8) quantize_part(y, run, t, rows.row, n_rows, out);
    };
    const int64_t end = run.first + run.n;
    for (int64_t tok0 = run.first; tok0 < end; tok0 += cpu::kTokBlock) {
        const int64_t n = std::min(cpu::kTokBlock, end - tok0);
        const PrefetchedRows images(n, act_tile(kernels_, run.n), [&](int64_t t) {
            if (y.needs_int8) prefetch_image_for_write(y, run, tok0 + t, rows.row, n_rows);
        });
        multiply(args.gate, rows, x, run, tok0, n, gate_tile, n_rows, worker, args.up.row(rows.row));
        multiply(args.up, rows, x, run, tok0, n, up_tile, n_rows, worker, next);
        float expert_gates[cpu::kTokBlock];
        if (args.shared_expert_gate)
            shared_expert_gate(args.shared_expert_gate, x, run, tok0, n, expert_gates, worker);
        images.each([&](int64_t t) {
            activate(tok0 + t, gate_tile + t * n_rows, up_tile + t * n_rows, expert_gates + t);
        });
    }
}

void CpuBackend::compute(const FfnGateUpOp<Direct>& op) {
    const GateUp args{
        op.gate.w, op.up.w, op.gate.bias, op.up.bias, op.gate.activation, op.shared_expert_gate};
    const auto partition = cpu::partition_of(args.gate.n_out);
    cpu::run_units(pool_, partition.n_units(), op.n_tok, [&](int64_t first, int64_t end, int worker) {
        partition.each_range(
            first, end, cpu::max_rows(op.n_tok), [&](const RowRange& rows, const RowRange& next) {
                gate_up_rows(args, rows, *op.x, {0, op.n_tok}, *op.y, worker, row_ptr(args.gate, next));
            });
    });
}

}  // namespace tessera
