// Best fit by decreasing size over lifetime intervals. Each step lists the placed buffers that are live, so a
// buffer is compared only with those of its own lifetime.
#include "common/arena_plan.h"

#include <algorithm>
#include <numeric>

namespace tessera {

namespace {

struct Extent {
    size_t begin, end;
};

/// The smallest gap between the extents, or the first byte behind them. Sorts the extents.
size_t best_fit(std::vector<Extent>& taken, size_t n_bytes) {
    std::sort(taken.begin(), taken.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    size_t best = 0, best_gap = SIZE_MAX, end = 0;
    for (const Extent& extent : taken) {
        const size_t gap = extent.begin > end ? extent.begin - end : 0;
        if (gap >= n_bytes && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        end = std::max(end, extent.end);
    }
    return best_gap == SIZE_MAX ? end : best;
}

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> buffers, size_t alignment) {
    std::vector<SpanLifetimes> spans;
    for (const Lifetime& buffer : buffers) spans.push_back({buffer.n_bytes, {buffer}});
    return plan_arena(spans, alignment);
}

ArenaPlan plan_arena(std::span<const SpanLifetimes> buffers, size_t alignment) {
    const auto padded = [alignment](size_t n_bytes) { return (n_bytes + alignment - 1) & ~(alignment - 1); };
    ArenaPlan plan;
    plan.offsets.resize(buffers.size());
    int32_t n_steps = 0;
    for (const SpanLifetimes& buffer : buffers)
        for (const Lifetime& span : buffer.spans) n_steps = std::max(n_steps, span.last + 1);
    std::vector<size_t> needed(static_cast<size_t>(n_steps));
    std::vector<std::vector<uint32_t>> living(static_cast<size_t>(n_steps));  // of those that are placed
    std::vector<uint32_t> seen_by(buffers.size(), UINT32_MAX);

    std::vector<uint32_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return buffers[a].n_bytes != buffers[b].n_bytes ? buffers[a].n_bytes > buffers[b].n_bytes : a < b;
    });
    std::vector<Extent> taken;
    for (const uint32_t i : order) {
        const size_t n_bytes = padded(buffers[i].n_bytes);
        const auto live_at = [&](size_t step) {
            needed[step] += n_bytes;
            plan.least = std::max(plan.least, needed[step]);
            for (const uint32_t other : living[step]) {
                if (seen_by[other] == i) continue;
                seen_by[other] = i;
                const size_t begin = plan.offsets[other];
                taken.push_back({begin, begin + padded(buffers[other].n_bytes)});
            }
            living[step].push_back(i);
        };
        taken.clear();
        for (const Lifetime& span : buffers[i].spans)
            for (int32_t step = span.first; step <= span.last; ++step) live_at(static_cast<size_t>(step));
        plan.offsets[i] = best_fit(taken, n_bytes);
        plan.n_bytes = std::max(plan.n_bytes, plan.offsets[i] + n_bytes);
    }
    return plan;
}

}  // namespace tessera
