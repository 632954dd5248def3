#pragma once
// A packed matrix of random finite weights, and the rows in file order from which it was packed.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/rng.h"
#include "ggml-like/tensor.h"
#include "quants/dispatch.h"

namespace tessera {

struct PackedRows {
    std::vector<std::byte> rows, packed;
    Weight weight;  // of `packed`

    PackedRows(const kernels::KernelTable& table, Type type, int64_t n_out, int64_t n_in, uint64_t seed = 5) {
        const auto row_bytes = static_cast<size_t>(type_info(type).row_bytes(n_in));
        const int64_t n_groups = (n_out + 7) / 8;
        rows.resize(static_cast<size_t>(n_out) * row_bytes);
        packed.resize(static_cast<size_t>(n_groups) * 8 * row_bytes);
        Rng rng(seed);
        // No byte has all exponent bits set, so that no weight is infinite or NaN.
        for (std::byte& b : rows) b = static_cast<std::byte>(rng.next_u64() % 0x30);
        for (int64_t row = 0; row < n_out; row += 8) {
            const size_t at = static_cast<size_t>(row) * row_bytes;
            const int n = static_cast<int>(n_out - row < 8 ? n_out - row : 8);
            table.packed[static_cast<uint32_t>(type)].pack(rows.data() + at, row_bytes, n, n_in,
                                                           packed.data() + at);
        }
        weight = {.type = type,
                  .layout = Layout::Packed,
                  .n_out = n_out,
                  .n_in = n_in,
                  .data = packed.data(),
                  .row_bytes = row_bytes};
    }
};

}  // namespace tessera
