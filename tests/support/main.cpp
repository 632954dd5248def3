// The main function of the test programs: all tests, or with `--file NAME_test.cpp` those that this file
// defines. Every test must come from a file of that form, so that the entries of CTest, one a file, run each
// test exactly once.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace {

std::string_view name_of(const char* path) {
    const std::string_view whole = path;
    return whole.substr(whole.find_last_of('/') + 1);
}

/// The filter that selects the tests of a file; empty where there are none.
std::string filter_of_file(std::string_view file) {
    std::string filter;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            const std::string_view source = name_of(test.file());
            if (!source.ends_with("_test.cpp")) {
                std::fprintf(stderr, "%s.%s is defined in %s: expected a file NAME_test.cpp\n", suite.name(),
                             test.name(), test.file());
                return "";
            }
            if (source == file) filter += std::string(suite.name()) + "." + test.name() + ":";
        }
    }
    if (filter.empty())
        std::fprintf(stderr, "no test of this program is defined in %s\n", std::string(file).c_str());
    return filter;
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc == 3 && std::strcmp(argv[1], "--file") == 0) {
        const std::string filter = filter_of_file(argv[2]);
        if (filter.empty()) return 1;
        // A death test starts the program again with the filter of one test.
        if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
    } else if (argc != 1) {
        std::fprintf(stderr, "usage: %s [--file NAME_test.cpp] [options of GoogleTest]\n", argv[0]);
        return 2;
    }
    return RUN_ALL_TESTS();
}
