// Queries, keys and values between their product and attention: norms, rotation by position, and the stores
// of keys and values into the cache's pages. Layouts: KvLayer in ggml-like/backend.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/exact_math.h"
#include "ggml-like/cpu/backend.h"
#include "ggml-like/cpu/prefetch.h"
#include "ggml-like/cpu/tuning.h"
#include "quants/blocks.h"

namespace tessera {

namespace {

bool is_float_type(Type type) { return type == Type::F32 || type == Type::F16; }

/// The factor of a query `periods` whole periods from the start (AttnTempScaling).
float attn_temp_factor(double strength, int64_t periods) {
    return static_cast<float>(1 + strength * exact_log(static_cast<double>(1 + periods)));
}

}  // namespace

/// Hadamard blocks of the largest power of two that divides the head size.
void CpuBackend::rotate_key(float* x, int64_t head_dim) {
    const int64_t block = head_dim & -head_dim;
    const float scale = 1.0f / std::sqrt(static_cast<float>(block));
    for (int64_t i = 0; i < head_dim; i += block) vec_.hadamard(x + i, block, scale);
}

void CpuBackend::store_keys(const KvLayer& kv, const Segment& segment, int64_t head, int64_t pos, int64_t n,
                            const float* rows, int64_t stride) {
    const int64_t k_dim = kv.k_dim;
    if (!is_float_type(kv.k_type)) {
        const TypeInfo& type = type_info(kv.k_type);
        const auto& packed = kernels_.packed[static_cast<uint32_t>(kv.k_type)];
        const auto row_bytes = static_cast<size_t>(type.row_bytes(k_dim));
        const size_t group_bytes = kKvGroup * row_bytes;
        alignas(64) std::byte plain[cpu::kMaxKvGroupBytes];
        for (const int64_t end = pos + n; pos < end;) {
            const int64_t first = pos / kKvGroup * kKvGroup, last = std::min(first + kKvGroup, end);
            std::byte* group =
                segment.pages[pos / kKvPage] + kv.k_offset +
                static_cast<size_t>(head * (kKvPage / kKvGroup) + pos % kKvPage / kKvGroup) * group_bytes;
            std::memset(plain, 0, group_bytes);
            if (pos > first) packed.unpack(group, static_cast<int>(pos - first), k_dim, plain, row_bytes);
            for (; pos < last; ++pos, rows += stride)
                type.store(rows, plain + static_cast<size_t>(pos - first) * row_bytes, k_dim);
            packed.pack(plain, row_bytes, kKvGroup, k_dim, group);
        }
        return;
    }
    const size_t element = static_cast<size_t>(type_info(kv.k_type).block_bytes);
    uint16_t halves[kMaxHeadDim];
    for (int64_t i = 0; i < n; ++i, ++pos, rows += stride) {
        const auto* from = reinterpret_cast<const std::byte*>(rows);
        if (kv.k_type == Type::F16) {
            vec_.f32_to_f16(rows, halves, k_dim);
            from = reinterpret_cast<const std::byte*>(halves);
        }
        const int64_t tile = head * (kKvPage / kKvTile) + pos % kKvPage / kKvTile;
        std::byte* to = segment.pages[pos / kKvPage] + kv.k_offset +
                        static_cast<size_t>(tile * k_dim * kKvTile + pos % kKvTile) * element;
        for (int64_t d = 0; d < k_dim; ++d)
            std::memcpy(to + static_cast<size_t>(d * kKvTile) * element,
                        from + static_cast<size_t>(d) * element, element);
    }
}

namespace {

/// One head's quantized values of a page.
struct ValuePage {
    uint8_t* scales;  // [v_dim / 32, kKvPage] halves
    uint8_t* codes;   // [kKvPage / 2, v_dim, 2] of 8 or 4 bits

    ValuePage(std::byte* at, int64_t v_dim)
        : scales(reinterpret_cast<uint8_t*>(at)), codes(scales + v_dim / 32 * kKvPage * 2) {}

    void put_scale(int64_t pos, int64_t block, const uint8_t* d) {
        std::memcpy(scales + 2 * (block * kKvPage + pos), d, 2);
    }
    void put(int64_t pos, int64_t v_dim, int64_t block, const quants::BlockQ8_0& b) {
        put_scale(pos, block, b.d);
        uint8_t* to = codes + pos / 2 * 2 * v_dim + 64 * block + pos % 2;
        for (int e = 0; e < b.kWeights; ++e) to[2 * e] = static_cast<uint8_t>(b.qs[e]);
    }
    void put(int64_t pos, int64_t v_dim, int64_t block, const quants::BlockQ4_0& b) {
        put_scale(pos, block, b.d);
        uint8_t* to = codes + pos / 2 * v_dim + 32 * block;
        const int shift = pos % 2 == 0 ? 0 : 4;
        for (int e = 0; e < b.kWeights; ++e) {
            const int code = b.qs[e % 16] >> e / 16 * 4 & 15;
            to[e] = static_cast<uint8_t>((to[e] & 0xf0 >> shift) | code << shift);
        }
    }
};

template <class Block>
void put_values(const TypeInfo& type, ValuePage page, int64_t pos, int64_t v_dim, const float* row) {
    for (int64_t i = 0; i < v_dim / Block::kWeights; ++i) {
        Block block;
        type.store(row + Block::kWeights * i, reinterpret_cast<std::byte*>(&block), Block::kWeights);
        page.put(pos, v_dim, i, block);
    }
}

}  // namespace

void CpuBackend::store_values(const KvLayer& kv, const Segment& segment, int64_t head, int64_t pos, int64_t n,
                              const float* rows, int64_t stride) {
    const TypeInfo& type = type_info(kv.v_type);
    const auto row_bytes = static_cast<size_t>(type.row_bytes(kv.v_dim));
    for (int64_t i = 0; i < n; ++i, ++pos, rows += stride) {
        const int64_t at = pos % kKvPage;
        std::byte* page =
            segment.pages[pos / kKvPage] + kv.v_offset + static_cast<size_t>(head * kKvPage) * row_bytes;
        if (kv.v_type == Type::Q8_0)
            put_values<quants::BlockQ8_0>(type, {page, kv.v_dim}, at, kv.v_dim, rows);
        else if (kv.v_type == Type::Q4_0)
            put_values<quants::BlockQ4_0>(type, {page, kv.v_dim}, at, kv.v_dim, rows);
        else if (kv.v_type == Type::F16)
            vec_.f32_to_f16(rows, reinterpret_cast<uint16_t*>(page) + at * kv.v_dim, kv.v_dim);
        else
            std::memcpy(page + static_cast<size_t>(at) * row_bytes, rows, row_bytes);
    }
}

void CpuBackend::store_qkv(const QkvOp<Direct>& op, int part, int64_t head, float* tile, int64_t tile_stride,
                           int64_t tok0, int64_t n_tok) {
    const KvLayer& kv = op.cache;
    ActBuffer& q = *op.queries;
    const int64_t head_dim = part < 2 ? kv.k_dim : kv.v_dim;
    const int64_t head_bytes = head_dim * int64_t{sizeof(float)};
    const Vector& norm = part == 0 ? op.q_norm : op.k_norm;
    for (const Segment& segment : op.segments) {
        const int64_t first = std::max(segment.row0, tok0);
        const int64_t last = std::min(segment.row0 + segment.n_tok, tok0 + n_tok);
        if (first >= last) continue;
        float* rows = tile + (first - tok0) * tile_stride;
        for (int64_t t = first; part < 2 && t < last; ++t) {
            float* row = rows + (t - first) * tile_stride;
            if (norm.n == head_dim) vec_.rms_norm(row, norm.data, head_dim, op.norm_eps, row);
            if (op.rope == RopeKind::Norm) vec_.rope_norm(row, op.angles->row(t), op.n_rot);
            if (op.rope == RopeKind::Neox) vec_.rope_neox(row, op.angles->row(t), op.n_rot);
            const int64_t periods = (segment.pos0 + t - segment.row0) / op.attn_temp.period;
            if (part == 0 && op.attn_temp.strength > 0 && periods > 0)
                vec_.scale(row, attn_temp_factor(op.attn_temp.strength, periods), head_dim);
            if (kv.rotates_keys()) rotate_key(row, head_dim);
        }
        const int64_t pos = segment.pos0 + (first - segment.row0), n = last - first;
        if (part == 1) store_keys(kv, segment, head, pos, n, rows, tile_stride);
        if (part == 2) store_values(kv, segment, head, pos, n, rows, tile_stride);
        // Queries with a norm over whole rows are in q already.
        if (part != 0 || rows == q.row(first) + head * head_dim) continue;
        const cpu::PrefetchedRows q_rows(n, 1, [&](int64_t t) {
            vec_.prefetch_for_write(q.row(first + t) + head * head_dim, head_bytes);
        });
        q_rows.each([&](int64_t t) {
            std::memcpy(q.row(first + t) + head * head_dim, rows + t * tile_stride,
                        static_cast<size_t>(head_bytes));
        });
    }
}

}  // namespace tessera
