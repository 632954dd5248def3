"""lint_includes.py: names without their header, and the ways in which a header may come."""
import unittest

from lint_case import LintCase


class Includes(LintCase):
    def test_name_without_its_header(self):
        self.expect_finding("lint_includes.py", {"common/a.cpp": "#include <string>\n\nint x = std::min(1, 2);\n"},
                            "common/a.cpp:3: std::min without its header; expected #include <algorithm>")

    def test_each_header_is_said_once_for_a_file(self):
        output = self.expect_finding("lint_includes.py", {"common/a.h": "std::vector<int> a;\nstd::vector<std::string> b;\n"},
                                     "a.h:1: std::vector", "a.h:2: std::string")
        self.assertIn("2 finding(s)", output)

    def test_headers_of_ours_count_and_those_of_others_do_not(self):
        unit = '#include "common/a.h"\nstd::vector<int> v;\n'
        self.expect_clean("lint_includes.py", {"common/a.h": '#include "common/b.h"\n', "common/b.h": "#include <vector>\n",
                                               "common/a.cpp": unit})
        self.expect_finding("lint_includes.py", {"common/a.h": "#include <gtest/gtest.h>\n", "common/a.cpp": unit},
                            "common/a.cpp:2: std::vector")

    def test_headers_that_include_each_other(self):
        self.expect_finding("lint_includes.py", {"common/a.h": '#include "common/b.h"\n',
                                                 "common/b.h": '#include "common/a.h"\nstd::string s;\n'},
                            "common/b.h:2: std::string")

    def test_c_headers_do_too(self):
        self.expect_clean("lint_includes.py", {"common/a.cpp": "#include <stdint.h>\nstd::int32_t x;\n"})

    def test_other_libraries(self):
        self.expect_finding("lint_includes.py", {"tests/a.cpp": "testing::Values(1);\n"}, "#include <gtest/gtest.h>")

    def test_comments_and_strings_name_nothing(self):
        self.expect_clean("lint_includes.py", {"common/a.cpp": '// std::string\nconst char* s = "std::vector";\n'})

    def test_parts_of_units_are_left_alone(self):
        self.expect_clean("lint_includes.py", {"common/a.inl": "std::string s;\n"})


if __name__ == "__main__":
    unittest.main()
