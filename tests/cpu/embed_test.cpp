// Rows looked up in a packed table: those of the file, however long they are and wherever they stand in their
// group.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/rng.h"
#include "ggml-like/cpu/backend.h"
#include "quants/dispatch.h"

namespace tessera {
namespace {

/// n rows of random bytes whose floats are numbers: no byte has all bits of an exponent.
std::vector<std::byte> random_rows(size_t n_bytes) {
    Rng rng(5);
    std::vector<std::byte> rows(n_bytes);
    for (std::byte& b : rows) b = static_cast<std::byte>(rng.next_u64() % 0x30);
    return rows;
}

TEST(Embed, PackedRowsAreTheFiles) {
    constexpr int64_t kRows = 13;  // the last group is not full
    const std::vector<int32_t> tokens = {12, 0, 7, 8, 3, 12};
    ThreadPool pool(2);
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        auto backend = CpuBackend::create(pool, *isa.table, {.max_tok = 8, .max_rows = 8});
        ASSERT_TRUE(backend) << backend.error().message;
        for (const Type type : {Type::F32, Type::F16, Type::BF16, Type::Q8_0, Type::Q4_K}) {
            // The longest is a group of more bytes than a worker's scratch.
            for (const int64_t n_in : {256, 4096, 4096 + 512, 24576}) {
                const TypeInfo& info = type_info(type);
                const auto row_bytes = static_cast<size_t>(info.row_bytes(n_in));
                const std::vector<std::byte> rows = random_rows(kRows * row_bytes);
                std::vector<std::byte> packed(16 * row_bytes);
                const auto& functions = isa.table->packed[static_cast<uint32_t>(type)];
                functions.pack(rows.data(), row_bytes, 8, n_in, packed.data());
                functions.pack(rows.data() + 8 * row_bytes, row_bytes, kRows - 8, n_in,
                               packed.data() + 8 * row_bytes);
                const Weight table{.type = type,
                                   .layout = Layout::Packed,
                                   .n_out = kRows,
                                   .n_in = n_in,
                                   .data = packed.data(),
                                   .row_bytes = row_bytes};
                const auto n = static_cast<size_t>(n_in);
                std::vector<float> got(tokens.size() * n), want(n);
                Act x{.name = "x", .dim = n_in, .f32 = got.data()};
                (*backend)->embed(table, tokens, 1.0f, x);
                for (size_t t = 0; t < tokens.size(); t++) {
                    info.dequantize(rows.data() + static_cast<size_t>(tokens[t]) * row_bytes, want.data(),
                                    n_in);
                    EXPECT_EQ(0, std::memcmp(want.data(), got.data() + t * n, n * sizeof(float)))
                        << isa.name << ' ' << info.name << ' ' << n_in << " token " << tokens[t];
                }
            }
        }
    }
}

}  // namespace
}  // namespace tessera
