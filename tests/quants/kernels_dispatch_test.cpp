// The choice of a kernel table by machine, by name and by environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/cpu.h"
#include "quants/dispatch.h"

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

TEST(KernelsDispatch, PicksTheBestUsableWhenNothingIsWanted) {
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

}  // namespace
}  // namespace tessera::kernels
