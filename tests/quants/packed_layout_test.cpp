// Packing is a bijection on any bytes, the same in every table, and preserves the weights of the file's
// blocks.
#include <map>

#include "ggml-like/gguf/packed.h"
#include "quants/blocks.h"
#include "tests/quants/packed_types.h"

namespace tessera::test {
namespace {

std::vector<uint8_t> random_bytes(size_t n, uint32_t seed) {
    std::mt19937 rng(seed);
    std::vector<uint8_t> bytes(n);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng());
    return bytes;
}

int64_t some_k(const PackedType& t) { return t.info().block == 32 ? 32 * 11 : 256 * 3; }

std::vector<const KernelTable*> tables() {
    std::vector<const KernelTable*> all = vector_tables();
    all.push_back(&scalar());
    return all;
}

TEST(PackedLayout, UnpackIsTheExactInverseOfPackOnAnyBytes) {
    for (const KernelTable* table : tables()) {
        for (const PackedType& t : packed_types()) {
            const int64_t n_k = some_k(t);
            const size_t row_bytes = t.row_bytes(n_k), stride = row_bytes + 3;
            const std::vector<uint8_t> rows = random_bytes(1 + 8 * stride, 1);
            std::vector<uint8_t> group(8 * row_bytes), back(1 + 8 * stride);
            t.in(*table).pack(rows.data() + 1, stride, 8, n_k, group.data());
            t.in(*table).unpack(group.data(), 8, n_k, back.data() + 1, stride);
            for (size_t r = 0; r < 8; r++) {
                EXPECT_EQ(0,
                          std::memcmp(rows.data() + 1 + r * stride, back.data() + 1 + r * stride, row_bytes))
                    << table->name << ' ' << t.name << " row " << r;
            }
        }
    }
}

TEST(PackedLayout, EveryBitOfAGroupIsUsed) {
    for (const PackedType& t : packed_types()) {
        const int64_t n_k = some_k(t);
        const size_t row_bytes = t.row_bytes(n_k);
        const std::vector<uint8_t> group = random_bytes(8 * row_bytes, 2);
        std::vector<uint8_t> rows(8 * row_bytes), back(8 * row_bytes);
        t.in(scalar()).unpack(group.data(), 8, n_k, rows.data(), row_bytes);
        t.in(scalar()).pack(rows.data(), row_bytes, 8, n_k, back.data());
        EXPECT_EQ(group, back) << t.name;
    }
}

TEST(PackedLayout, TablesGiveTheSameBytesAndPadWithZeros) {
    for (const KernelTable* table : vector_tables()) {
        for (const PackedType& t : packed_types()) {
            const int64_t n_k = some_k(t);
            const size_t row_bytes = t.row_bytes(n_k);
            const std::vector<uint8_t> rows = random_bytes(8 * row_bytes, 3);
            for (int n_rows = 1; n_rows <= 8; n_rows++) {
                std::vector<uint8_t> want(8 * row_bytes, 0xaa), got(8 * row_bytes, 0x55);
                t.in(scalar()).pack(rows.data(), row_bytes, n_rows, n_k, want.data());
                t.in(*table).pack(rows.data(), row_bytes, n_rows, n_k, got.data());
                EXPECT_EQ(want, got) << table->name << ' ' << t.name << ' ' << n_rows;
                std::vector<uint8_t> back(8 * row_bytes, 0xaa);
                t.in(*table).unpack(got.data(), 8, n_k, back.data(), row_bytes);
                const size_t used = static_cast<size_t>(n_rows) * row_bytes;
                EXPECT_TRUE(std::all_of(back.begin() + static_cast<ptrdiff_t>(used), back.end(),
                                        [](uint8_t b) { return b == 0; }))
                    << table->name << ' ' << t.name << ' ' << n_rows;
            }
        }
    }
}

/// A float of row r is the r-th of the eight of its k. Missing rows of a group are zero, and rows outside the
/// range are unchanged.
TEST(PackedLayout, FloatsLieSideBySideAndComeBack) {
    for (const Type type : {Type::F32, Type::F16, Type::BF16}) {
        const TypeInfo& info = type_info(type);
        const auto size = static_cast<size_t>(info.block_bytes);
        for (const int64_t n_k : {1, 7, 256, 259, 700}) {
            const auto row_bytes = static_cast<size_t>(info.row_bytes(n_k)), stride = row_bytes + 3;
            const std::vector<uint8_t> rows = random_bytes(1 + 8 * stride, 6);
            for (const KernelTable* table : tables()) {
                const kernels::PackedKernels& floats = table->packed[static_cast<uint32_t>(type)];
                for (int n_rows = 1; n_rows <= 8; n_rows++) {
                    std::vector<uint8_t> group(8 * row_bytes, 0xaa), want(group.size()), back = rows;
                    for (size_t k = 0; k < static_cast<size_t>(n_k); k++)
                        for (size_t r = 0; r < static_cast<size_t>(n_rows); r++)
                            std::memcpy(&want[(8 * k + r) * size], &rows[1 + r * stride + k * size], size);
                    floats.pack(rows.data() + 1, stride, n_rows, n_k, group.data());
                    ASSERT_EQ(want, group) << table->name << ' ' << info.name << ' ' << n_rows;
                    for (size_t r = 0; r < static_cast<size_t>(n_rows); r++)
                        std::memset(&back[1 + r * stride], 0x55, row_bytes);
                    floats.unpack(group.data(), n_rows, n_k, back.data() + 1, stride);
                    ASSERT_EQ(rows, back) << table->name << ' ' << info.name << ' ' << n_rows;
                }
            }
        }
    }
}

/// The weights of a row according to the readers of quants/blocks.h.
template <class Block>
int file_weight(const Block& b, int e) {
    return quants::code_at(b, e);
}
template <>
int file_weight(const quants::BlockQ4_0& b, int e) {
    return quants::code_at(b, e) - 8;
}
template <>
int file_weight(const quants::BlockQ5_0& b, int e) {
    return quants::code_at(b, e) - 16;
}
template <>
int file_weight(const quants::BlockQ3_K& b, int e) {
    return quants::code_at(b, e) - 4;
}
template <>
int file_weight(const quants::BlockQ6_K& b, int e) {
    return quants::code_at(b, e) - 32;
}
template <>
int file_weight(const quants::BlockIQ4_NL& b, int e) {
    return quants::kIq4Values[quants::code_at(b, e)];
}
template <>
int file_weight(const quants::BlockIQ4_XS& b, int e) {
    return quants::kIq4Values[quants::code_at(b, e)];
}
template <>
int file_weight(const quants::BlockMXFP4& b, int e) {
    return quants::kMxfp4Values[quants::code_at(b, e)];
}

template <>
int file_weight(const quants::BlockTQ2_0& b, int e) {
    return quants::code_at(b, e) - 1;
}

template <class Disk>
void set_scale_one(Disk& block) {
    quants::store_u16(0x3c00, block.d);
}
template <>
void set_scale_one(quants::BlockIQ1_M& block) {
    for (int k = 0; k < 4; k++) {
        block.scales[2 * k + 1] =
            static_cast<uint8_t>((block.scales[2 * k + 1] & 15) | (0x3c00 >> (4 * k) & 15) << 4);
    }
}

/// Types whose weights are not plain codes: weight, integer scale and the other terms of the formula, against
/// the reference decoder.
template <class F>
void expect_same_words(const PackedType& t) {
    std::vector<uint8_t> rows = random_bytes(8 * t.row_bytes(256), 5);
    for (size_t at = 0; at < rows.size(); at += t.row_bytes(256)) {
        set_scale_one(*reinterpret_cast<typename F::Disk*>(rows.data() + at));
    }
    const std::vector<uint8_t> group = pack_rows(t, scalar(), rows, 256);
    for (int row = 0; row < 8; row++) {
        float want[256];
        t.info().dequantize(rows.data() + static_cast<size_t>(row) * t.row_bytes(256), want, 256);
        RowUnit u;
        kernels::read_packed<F>(group.data(), row, u);
        for (int k = 0; k < 256; k++) {
            const int number = kernels::weight_at<F>(u, k) * F::scale(u, k / 16);
            ASSERT_EQ(want[k], F::d(u) * static_cast<float>(number))
                << t.name << " row " << row << " k " << k;
        }
    }
}

template <class F>
void expect_same_weights(const PackedType& t) {
    using Disk = typename F::Disk;
    const int64_t n_k = 2 * F::kUnitK;
    const std::vector<uint8_t> rows = random_bytes(8 * t.row_bytes(n_k), 4);
    const std::vector<uint8_t> group = pack_rows(t, scalar(), rows, n_k);
    for (int row = 0; row < 8; row++) {
        for (int64_t k = 0; k < n_k; k++) {
            Disk block;
            std::memcpy(&block, rows.data() + static_cast<size_t>(row * 2 + k / F::kUnitK) * sizeof block,
                        sizeof block);
            ASSERT_EQ(file_weight(block, static_cast<int>(k % F::kUnitK)), t.weight(group.data(), row, k))
                << t.name << " row " << row << " k " << k;
        }
    }
}

TEST(PackedLayout, PackedCodesMeanWhatTheFilesBlocksMean) {
    size_t i = 0;
#define TSR_P8(Name, name)                                       \
    if constexpr (kernels::Name::kOfCodes) {                     \
        expect_same_weights<kernels::Name>(packed_types()[i++]); \
    } else {                                                     \
        expect_same_words<kernels::Name>(packed_types()[i++]);   \
    }
#include "quants/pack/types.inc"
#undef TSR_P8
}

/// Packed containers hold these bytes. A change of them needs a new version and an entry in
/// docs/formats/packed-gguf.md.
TEST(PackedLayout, BytesAreThoseOfPackedVersion2) {
    ASSERT_EQ(2u, gguf::kPackedVersion);
    const std::map<std::string, uint64_t> want = {
        {"q4_0", 0x61d03f09ab7a62e7},  {"q4_1", 0x2cbcec7efecb3f5b},    {"q5_0", 0xdfec4c304d43f831},
        {"q5_1", 0xa90dc83e1858bed0},  {"q8_0", 0x20fa95eed26f626c},    {"q2_k", 0xc883c172e1b0520d},
        {"q3_k", 0xd5115ade3896f72e},  {"q4_k", 0x5832c0254bc477c9},    {"q5_k", 0x88edb6bc0ed66153},
        {"q6_k", 0xd024a308b97a2f68},  {"iq4_nl", 0x61d03f09ab7a62e7},  {"iq4_xs", 0x737742f1c13e0a8f},
        {"mxfp4", 0x68817be8ab841695}, {"iq2_xxs", 0xef5ad66e1c0b4a32}, {"iq2_xs", 0xe7bee25e8d32616d},
        {"iq2_s", 0x33b3fd0b344e16c0}, {"iq3_xxs", 0x65143fa05ebdd06e}, {"iq3_s", 0xc03d4bf47974e362},
        {"tq2_0", 0x9de7e2ecd2e62836}, {"tq1_0", 0xb798eb4d738d2d3b},   {"iq1_s", 0x87c17a85127e2b58},
        {"iq1_m", 0x57ed7ff8018a0661}};
    for (const PackedType& t : packed_types()) {
        uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
        for (const uint8_t byte : pack_rows(t, scalar(), random_bytes(8 * t.row_bytes(256), 7), 256)) {
            hash = (hash ^ byte) * 0x100000001b3;
        }
        ASSERT_TRUE(want.contains(t.name)) << t.name;
        EXPECT_EQ(want.at(t.name), hash) << t.name;
    }
}

TEST(PackedLayout, AGroupHasTheBytesOfItsRows) {
#define TSR_P8(Name, name)                                                                \
    EXPECT_EQ(8 * type_info(Type::Name).block_bytes, kernels::Name::kUnitBytes) << #name; \
    EXPECT_EQ(type_info(Type::Name).block, kernels::Name::kUnitK) << #name;
#include "quants/pack/types.inc"
#undef TSR_P8
}

}  // namespace
}  // namespace tessera::test
