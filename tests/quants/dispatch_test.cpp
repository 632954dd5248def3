// The choice of a kernel table by machine, by name and by environment, and the register state that a kernel
// leaves to its caller.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/cpu.h"
#include "quants/dispatch.h"
#include "tests/quants/tables.h"

namespace tessera::kernels {
namespace {

TEST(KernelsDispatch, ScalarIsLastAndAlwaysUsable) {
    const auto isas = all_isas();
    ASSERT_FALSE(isas.empty());
    EXPECT_EQ(isas.back().name, "scalar");
    EXPECT_TRUE(isas.back().usable);
    for (const IsaInfo& isa : isas) {
        if (isa.name == "avx2") {
            EXPECT_EQ(isa.usable, cpu_features().avx2);
        }
        if (isa.name == "avxvnni") {
            EXPECT_EQ(isa.usable, cpu_features().avx_vnni);
        }
        if (isa.name == "avx512vnni") {
            EXPECT_EQ(isa.usable, cpu_features().avx512_vnni);
        }
        if (isa.name == "i8mm") {
            EXPECT_EQ(isa.usable, cpu_features().i8mm);
        }
        if (isa.name == "dotprod") {
            EXPECT_EQ(isa.usable, cpu_features().dotprod);
        }
        if (isa.name == "neon") {
            EXPECT_TRUE(isa.usable);
        }
    }
}

/// This makes one emulated processor enough for the tests of these kernels (ONE_CPU of tsr_tests).
TEST(KernelsDispatch, TablesBeyondNeonHaveItsFloatProductsAndEncoders) {
    const IsaInfo* neon = nullptr;
    for (const IsaInfo& isa : all_isas())
        if (isa.name == "neon") neon = &isa;
    if (!neon) GTEST_SKIP() << "no AArch64 build";
    for (const IsaInfo& isa : all_isas()) {
        if (isa.table == &kScalarTable) continue;
        EXPECT_EQ(isa.table->gemm_panels, neon->table->gemm_panels) << isa.name;
        for (uint32_t id = 0; id < kMaxTypeId; id++) {
            EXPECT_EQ(isa.table->matmul_f32[id], neon->table->matmul_f32[id]) << isa.name << " " << id;
            EXPECT_EQ(isa.table->matmul_packed_f32[id], neon->table->matmul_packed_f32[id])
                << isa.name << " " << id;
            EXPECT_EQ(isa.table->encode[id], neon->table->encode[id]) << isa.name << " " << id;
        }
    }
}

TEST(KernelsDispatch, PicksTheBestUsableByDefault) {
    const auto chosen = choose_isa("");
    ASSERT_TRUE(chosen);
    for (const IsaInfo& isa : all_isas()) {
        if (!isa.usable) continue;
        EXPECT_EQ(*chosen, &isa);
        break;
    }
}

TEST(KernelsDispatch, GivesEachUsableTableByName) {
    for (const IsaInfo& isa : all_isas()) {
        const auto chosen = choose_isa(isa.name);
        ASSERT_EQ(isa.usable, chosen.has_value());
        if (chosen) {
            EXPECT_EQ(*chosen, &isa);
        } else {
            EXPECT_EQ(chosen.error().code, ErrorCode::Unsupported);
        }
    }
}

TEST(KernelsDispatch, UnknownNamesAreErrorsThatListTheUsable) {
    for (const char* name : {"sse9", "AVX2", "scalar ", "avx"}) {
        const auto chosen = choose_isa(name);
        ASSERT_FALSE(chosen) << name;
        EXPECT_EQ(chosen.error().code, ErrorCode::InvalidArgument);
        EXPECT_NE(chosen.error().message.find(name), std::string::npos);
        EXPECT_NE(chosen.error().message.find("scalar"), std::string::npos) << chosen.error().message;
    }
}

TEST(KernelsDispatch, TheEnvironmentDecides) {
    setenv("TESSERA_ISA", "scalar", 1);
    auto chosen = choose_isa_from_environment();
    ASSERT_TRUE(chosen);
    EXPECT_EQ((*chosen)->name, "scalar");

    setenv("TESSERA_ISA", "abacus", 1);
    chosen = choose_isa_from_environment();
    ASSERT_FALSE(chosen);
    EXPECT_NE(chosen.error().message.find("TESSERA_ISA"), std::string::npos);
    EXPECT_NE(chosen.error().message.find("abacus"), std::string::npos);

    setenv("TESSERA_ISA", "", 1);
    EXPECT_EQ(choose_isa_from_environment().value(), choose_isa("").value());
    unsetenv("TESSERA_ISA");
    EXPECT_EQ(choose_isa_from_environment().value(), choose_isa("").value());
}

#if defined(__x86_64__)
/// Whether bits beyond the lowest 128 of a vector register are in use (Intel SDM volume 1, 13.6: XINUSE).
bool has_upper_halves() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return (low & 4) != 0;
}

/// Code of the legacy SSE encoding, which is all code but kernels, is up to fifty times slower after a kernel
/// that leaves them in use.
TEST(KernelsLeave, NoUpperHalvesInUse) {
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(13, 1, &a, &b, &c, &d) || (a & 4) == 0 || !cpu_features().avx2)
        GTEST_SKIP() << "this processor does not tell which registers are in use";
    __asm__ volatile("vpcmpeqb %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
    const bool tells_used = has_upper_halves();
    __asm__ volatile("vzeroupper" ::: "xmm0");
    if (!tells_used || has_upper_halves())
        GTEST_SKIP() << "this processor does not tell whether they are clear";

    const float w[16] = {1, 2}, x[1] = {3};
    for (const KernelTable* table : test::vector_tables()) {
        float y[16];
        PanelsArgs args{};
        args.w = w, args.x = x, args.y = y;
        args.n_panels = args.n_k = args.n_tok = 1;
        args.panel_size = args.panel_stride = args.y_stride = 16;
        table->gemm_panels(args);
        EXPECT_FALSE(has_upper_halves()) << table->name;
        __asm__ volatile("vzeroupper" ::: "xmm0");
        EXPECT_EQ(y[1], 6.0f);
    }
}
#endif

}  // namespace
}  // namespace tessera::kernels
