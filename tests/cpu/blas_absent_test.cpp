// The error of a build without OpenBLAS (TSR_BLAS=OFF): this program has the part that takes its place.
// place.
#include <gtest/gtest.h>

#include "ggml-like/blas/openblas.h"

namespace tessera::test {

namespace {

TEST(BlasAbsent, NamesTheOptionOfTheBuild) {
    const auto library = blas::open_blas();
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ErrorCode::Unsupported);
    EXPECT_EQ(library.error().message,
              "OpenBLAS: expected a build with it, found one that was configured with TSR_BLAS=OFF");
}

}  // namespace

}  // namespace tessera::test
