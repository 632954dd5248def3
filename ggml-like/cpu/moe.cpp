// CpuBackend's mixture of experts. Tokens are sorted by expert, so that each expert's weights are read once a
// batch; every expert is then the same matrix product as a dense layer over its rows. The sum over a token's
// experts runs in its routing order, so results do not depend on the batch.
#include <algorithm>
#include <cstring>

#include "ggml-like/cpu/backend.h"
#include "ggml-like/cpu/row_partition.h"
#include "ggml-like/cpu/tuning.h"

namespace tessera {

using cpu::n_blocks, cpu::row_ptr, cpu::RowRange;

namespace {

/// The n_used largest logits of one token in falling order, ties to the lower expert, and their weights, by
/// insertion into the sorted list; most experts fail the first comparison, with its last entry. Overwrites
/// the logits.
void route_token(const cpu::VecTable& vec, RouterKind kind, float* logits, int64_t n_expert, int64_t n_used,
                 int32_t* expert, float* weight) {
    for (int64_t e = 0; e < n_expert; ++e) {
        int64_t j = std::min(e, n_used);
        if (j == n_used && !(logits[e] > logits[expert[--j]])) continue;
        for (; j > 0 && logits[e] > logits[expert[j - 1]]; --j) expert[j] = expert[j - 1];
        expert[j] = static_cast<int32_t>(e);
    }
    for (int64_t j = 0; j < n_used; ++j) weight[j] = logits[expert[j]] - logits[expert[0]];
    const float top = logits[expert[0]];
    vec.exp(weight, weight, n_used);
    float sum = 0;
    if (kind == RouterKind::SoftmaxOverSelected) {
        for (int64_t j = 0; j < n_used; ++j) sum += weight[j];
    } else {
        for (int64_t e = 0; e < n_expert; ++e) logits[e] -= top;
        vec.exp(logits, logits, n_expert);
        for (int64_t e = 0; e < n_expert; ++e) sum += logits[e];
    }
    for (int64_t j = 0; j < n_used; ++j) weight[j] /= sum;
}

/// The values of expert e, or none if `all` is empty.
Vector of_expert(const Vector& all, int64_t e, int64_t n) {
    return all ? Vector{all.data + e * n, n} : Vector{};
}

/// Sorts slots by expert: a counting sort of the (token, choice) pairs, stable in tokens.
void sort_by_expert(int64_t n_tok, MoeRoutes& routes) {
    std::fill(routes.expert_offset, routes.expert_offset + routes.n_expert + 1, 0);
    const int64_t n = n_tok * routes.n_used;
    for (int64_t i = 0; i < n; ++i) ++routes.expert_offset[routes.expert[i] + 1];
    for (int64_t e = 0; e < routes.n_expert; ++e) routes.expert_offset[e + 1] += routes.expert_offset[e];
    for (int64_t i = 0; i < n; ++i) {
        // first[e] walks to the end of expert e while its slots are dealt out; the loop below walks it back.
        routes.row_of_slot[i] = routes.expert_offset[routes.expert[i]]++;
        routes.token_of_row[routes.row_of_slot[i]] = static_cast<int32_t>(i / routes.n_used);
    }
    for (int64_t e = routes.n_expert; e > 0; --e) routes.expert_offset[e] = routes.expert_offset[e - 1];
    routes.expert_offset[0] = 0;
    routes.n_active = 0;
    for (int64_t e = 0; e < routes.n_expert; ++e)
        if (routes.expert_offset[e] < routes.expert_offset[e + 1])
            routes.active_experts[routes.n_active++] = static_cast<int32_t>(e);
}

/// fn(rows, next, worker) for all rows of the active experts' matrices, whose numbers are the experts';
/// `next` are the rows that follow.
template <class Fn>
void run_experts(ThreadPool& pool, const MoeRoutes& routes, int64_t n_out, int64_t n_tok, Fn&& fn) {
    const cpu::RowPartition partition(routes.n_active, cpu::kUnitRows, [&](int64_t i) {
        return RowRange{routes.active_experts[i], 0, n_out};
    });
    cpu::run_units(pool, partition.n_units(), n_tok, [&](int64_t first, int64_t end, int worker) {
        partition.each_range(first, end, cpu::max_rows(n_tok),
                             [&](const RowRange& rows, const RowRange& next) { fn(rows, next, worker); });
    });
}

/// The expert that row `row` in expert order belongs to.
int64_t expert_of(const MoeRoutes& routes, int64_t row) {
    return std::upper_bound(routes.expert_offset, routes.expert_offset + routes.n_expert + 1, row) -
           routes.expert_offset - 1;
}

ActRun expert_run(const MoeRoutes& routes, int64_t e) {
    return {routes.expert_offset[e], routes.expert_offset[e + 1] - routes.expert_offset[e]};
}

}  // namespace

void CpuBackend::compute(const MoeRouteOp<Direct>& op) {
    MoeRoutes& routes = *op.routes;
    const Weight& w = op.router.w;
    const ActBuffer& x = *op.x;
    const int64_t n_expert = routes.n_expert, n_tok = op.n_tok;
    const auto choose = [&](int64_t t) {
        float* row = router_logits_ + t * n_expert;
        finish_row(op.router, 0, n_expert, row);
        route_token(vec_, op.kind, row, n_expert, routes.n_used, routes.expert + t * routes.n_used,
                    routes.weight + t * routes.n_used);
    };
    constexpr int64_t kRows = 16, kTokens = 16, kFewTokens = 8;
    if (n_tok <= kFewTokens) {
        pool_.run_ranges(n_blocks(n_expert, kRows), [&](int64_t first, int64_t end, int worker) {
            const int64_t row0 = first * kRows, n_rows = std::min(end * kRows, n_expert) - row0;
            multiply(w, {0, row0, n_rows}, x, {0, n_tok}, 0, n_tok, router_logits_ + row0, n_expert, worker);
        });
        if (pool_.aborted()) return;
        for (int64_t t = 0; t < n_tok; ++t) choose(t);
    } else {
        pool_.run(n_blocks(n_tok, kTokens), [&](int64_t unit, int worker) {
            const int64_t tok0 = unit * kTokens, end = std::min(tok0 + kTokens, n_tok);
            multiply(w, {0, 0, n_expert}, x, {0, n_tok}, tok0, end - tok0, router_logits_ + tok0 * n_expert,
                     n_expert, worker);
            for (int64_t t = tok0; t < end; ++t) choose(t);
        });
    }
    if (pool_.aborted()) return;  // routes of skipped units are undefined
    sort_by_expert(n_tok, routes);
}

void CpuBackend::compute(const MoeGateUpOp<Direct>& op) {
    if (pool_.aborted()) return;
    const MoeRoutes& routes = *op.routes;
    const Product<Direct>&gate = op.gate, &up = op.up;
    const int64_t n_tok = op.n_tok;
    // A copy takes an eighth of the time of the element that run_rows counts in.
    cpu::run_rows(pool_, n_tok * routes.n_used, op.x->dim / 8, [&](int64_t row, int) {
        copy_row(*op.x, {0, n_tok}, routes.token_of_row[row], *op.gathered,
                 expert_run(routes, expert_of(routes, row)), row);
    });
    run_experts(
        pool_, routes, gate.w.n_out, n_tok, [&](const RowRange& rows, const RowRange& next, int worker) {
            const int64_t e = rows.matrix;
            const GateUp expert{gate.w.expert(e), up.w.expert(e), of_expert(gate.bias, e, gate.w.n_out),
                                of_expert(up.bias, e, up.w.n_out), gate.activation};
            gate_up_rows(expert, rows, *op.gathered, expert_run(routes, e), *op.y, worker,
                         row_ptr(gate.w, next));
        });
}

void CpuBackend::compute(const MoeDownOp<Direct>& op) {
    if (pool_.aborted()) return;
    const MoeRoutes& routes = *op.routes;
    const Weight& w = op.down.w;
    ActBuffer &rows = *op.rows, &out = *op.out;
    run_experts(pool_, routes, w.n_out, op.n_tok, [&](const RowRange& at, const RowRange& next, int worker) {
        const int64_t e = at.matrix;
        const ActRun run = expert_run(routes, e);
        const Vector bias = of_expert(op.down.bias, e, w.n_out);
        for (int64_t tok0 = run.first; tok0 < run.first + run.n; tok0 += cpu::kTokBlock) {
            const int64_t n = std::min(cpu::kTokBlock, run.first + run.n - tok0);
            multiply(w.expert(e), at, *op.y, run, tok0, n, rows.row(tok0) + at.row, rows.dim, worker,
                     row_ptr(w, next));
            for (int64_t i = tok0; bias && i < tok0 + n; ++i)
                vec_.add(rows.row(i) + at.row, bias.data + at.row, at.n);
        }
    });
    pool_.run_shares(op.n_tok, [&](int64_t t, int) {
        if (!op.down.add) std::fill_n(out.row(t), out.dim, 0.0f);
        for (int64_t j = 0; j < routes.n_used; ++j) {
            const int64_t i = t * routes.n_used + j;
            vec_.add_scaled(out.row(t), rows.row(routes.row_of_slot[i]), op.down.scale * routes.weight[i],
                            out.dim);
        }
    });
}

}  // namespace tessera
