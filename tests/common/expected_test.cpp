#include "common/expected.h"

#include <gtest/gtest.h>

#include <memory>

namespace tessera {
namespace {

Result<int> half(int n) {
    if (n % 2 != 0) return fail(ErrorCode::InvalidArgument, "%d: expected an even number", n);
    return n / 2;
}

Result<void> check_positive(int n) {
    if (n <= 0) return fail(ErrorCode::Malformed, "%d is not positive", n);
    return {};
}

Result<int> quarter(int n) {
    TSR_TRY_VOID(check_positive(n));
    TSR_TRY(const int once, half(n));
    TSR_TRY(const int twice, half(once));
    return twice;
}

Result<std::unique_ptr<int>> boxed(int n) {
    TSR_TRY(const int value, half(n));
    return std::make_unique<int>(value);
}

TEST(Result, TryPassesValuesAndErrorsOn) {
    EXPECT_EQ(quarter(12).value(), 3);
    EXPECT_EQ(quarter(6).error().message, "3: expected an even number");
    EXPECT_EQ(quarter(-4).error().code, ErrorCode::Malformed);
    EXPECT_EQ(*boxed(8).value(), 4);
    EXPECT_FALSE(boxed(7));
}

TEST(Result, ContextIsPrefixed) {
    const Error error = fail_in("model.gguf", half(1).error()).value();
    EXPECT_EQ(error.message, "model.gguf: 1: expected an even number");
    EXPECT_EQ(error.code, ErrorCode::InvalidArgument);
}

TEST(Result, FormatsTextOfAnyLength) {
    const std::string text(5000, 'x');
    EXPECT_EQ(strf("%s|%d", text.c_str(), 7), text + "|7");
    EXPECT_EQ(strf("%s", ""), "");
}

TEST(Result, CodesHaveNames) {
    for (int code = 0; code <= static_cast<int>(ErrorCode::Internal); code++)
        EXPECT_STRNE(error_code_name(static_cast<ErrorCode>(code)), "unknown");
    EXPECT_STREQ(error_code_name(ErrorCode::Malformed), "malformed");
}

TEST(ResultDeathTest, AFailedCheckPrintsItsCondition) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(TSR_CHECK(1 + 1 == 3), "internal error: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace tessera
