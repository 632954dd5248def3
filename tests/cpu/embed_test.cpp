// Rows looked up in a packed table equal those of the file, for any length and any place in their group.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ggml-like/cpu/backend.h"
#include "tests/cpu/packed_rows.h"

namespace tessera {
namespace {

TEST(Embed, PackedRowsAreTheFiles) {
    constexpr int64_t kRows = 13;  // the last group is not full
    const std::vector<int32_t> tokens = {12, 0, 7, 8, 3, 12};
    ThreadPool pool(2);
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        auto backend = CpuBackend::create(pool, *isa.table, {.max_tok = 8, .max_rows = 8});
        ASSERT_TRUE(backend) << backend.error().message;
        for (const Type type : {Type::F32, Type::F16, Type::BF16, Type::Q8_0, Type::Q4_K}) {
            // A group of the longest rows has more bytes than a worker's scratch buffer.
            for (const int64_t n_in : {256, 4096, 4096 + 512, 24576}) {
                const TypeInfo& info = type_info(type);
                const PackedRows table(*isa.table, type, kRows, n_in);
                const auto n = static_cast<size_t>(n_in);
                std::vector<float> got(tokens.size() * n), want(n);
                ActBuffer x{.name = "x", .dim = n_in, .f32 = got.data()};
                (*backend)->embed({.table = table.weight, .tokens = tokens, .x = &x});
                for (size_t t = 0; t < tokens.size(); t++) {
                    const size_t at = static_cast<size_t>(tokens[t]) * table.weight.row_bytes;
                    info.dequantize(table.rows.data() + at, want.data(), n_in);
                    EXPECT_EQ(0, std::memcmp(want.data(), got.data() + t * n, n * sizeof(float)))
                        << isa.name << ' ' << info.name << ' ' << n_in << " token " << tokens[t];
                }
            }
        }
    }
}

}  // namespace
}  // namespace tessera
