// The encoders of every kernel table give the bytes of the registry's: all types, with and without
// importances, tails of a row's blocks, any address, and extreme weights.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/rng.h"
#include "quants/dispatch.h"
#include "quants/types.h"
#include "tests/quants/tables.h"

namespace tessera {
namespace {

enum class Kind { Even, Wide, Sparse, Huge, Odd };

float weight(Rng& rng, Kind kind) {
    const auto value = static_cast<float>(2 * rng.next_double() - 1);
    const uint64_t dice = rng.next_u64() % 256;
    switch (kind) {
        case Kind::Even:
            return 0.05f * value;
        case Kind::Wide:
            return std::ldexp(value, static_cast<int>(dice % 40) - 20);
        case Kind::Sparse:
            return dice < 16 ? value : 0.0f;
        case Kind::Huge:
            return std::numeric_limits<float>::max() * value;
        case Kind::Odd:
            return dice == 0 ? std::numeric_limits<float>::quiet_NaN()
                             : (dice == 1 ? std::numeric_limits<float>::infinity() : value * 1e-41f);
    }
    return 0;
}

TEST(EncodeIsa, SameBytesFromEveryTable) {
    Rng rng(1);
    int n_compared = 0;
    for (const TypeInfo& info : all_types()) {
        const auto tables = test::tables_by(
            [&](const kernels::KernelTable& t) { return t.encode[static_cast<uint32_t>(info.type)]; });
        for (const int64_t n_blocks : {1, 3, 8, 13}) {
            for (const Kind kind : {Kind::Even, Kind::Wide, Kind::Sparse, Kind::Huge, Kind::Odd}) {
                const auto n = static_cast<size_t>(n_blocks * info.block);
                std::vector<float> x(n), w(n);
                for (float& v : x) v = weight(rng, kind);
                for (float& v : w)
                    v = static_cast<float>(rng.next_double()) * static_cast<float>(rng.next_u64() % 3);
                const auto n_bytes = static_cast<size_t>(info.row_bytes(static_cast<int64_t>(n)));
                for (const float* importance :
                     {static_cast<const float*>(nullptr), static_cast<const float*>(w.data())}) {
                    std::vector<uint8_t> expected(n_bytes);
                    if (!info.quantize) continue;
                    info.quantize(x.data(), importance, expected.data(), static_cast<int64_t>(n));
                    for (const kernels::KernelTable* table : tables) {
                        const kernels::EncodeFn encode = table->encode[static_cast<uint32_t>(info.type)];
                        if (!encode) continue;
                        // Misaligned by one byte, and of exact size, so that sanitizers see a write past the
                        // end.
                        std::vector<uint8_t> found(n_bytes + 1);
                        encode(x.data(), importance, found.data() + 1, static_cast<int64_t>(n));
                        ASSERT_EQ(std::memcmp(found.data() + 1, expected.data(), n_bytes), 0)
                            << table->name << " " << info.name << ", " << n_blocks << " blocks, kind "
                            << static_cast<int>(kind) << (importance ? ", with importances" : "");
                        n_compared++;
                    }
                }
            }
        }
    }
    EXPECT_GE(n_compared, 20 * 4 * 5 * 2);
}

TEST(EncodeIsa, EveryTableHasAllSearches) {
    for (const kernels::IsaInfo& isa : kernels::all_isas())
        for (const TypeInfo& info : all_types())
            EXPECT_EQ(isa.table->encode[static_cast<uint32_t>(info.type)] != nullptr,
                      info.quantize && info.block > 1)
                << isa.name << " " << info.name;
}

}  // namespace
}  // namespace tessera
