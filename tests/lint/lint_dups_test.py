"""lint_dups.py: what counts as a duplicate, and the limit."""
import unittest

from lint_case import LintCase


def body(name, count):
    return "".join(f"    {name}{i}();\n" for i in range(count))


class Duplicates(LintCase):
    def test_copy_is_found_and_named(self):
        files = {"src/a.cpp": "void a() {\n" + body("one", 9) + "}\n",
                 "src/b.cpp": "// other\nvoid b() {\n\n" + body("one", 9).replace("    ", "\t") + body("two", 9) + "}\n"}
        self.expect_finding("lint_dups.py", files, "src/a.cpp:2: 9 lines also at src/b.cpp:4",
                            "18 of 29 lines duplicated, 62.1 %; the limit is 5 %")

    def test_seven_lines_are_too_few(self):
        self.expect_clean("lint_dups.py", {"src/a.cpp": body("one", 7) + body("two", 9),
                                           "src/b.cpp": body("one", 7) + body("three", 9)})

    def test_share_under_the_limit(self):
        files = {"src/a.cpp": body("one", 8) + body("two", 200), "src/b.cpp": body("one", 8) + body("three", 200)}
        self.assertIn("16 of 416 lines duplicated, 3.8 %", self.expect_clean("lint_dups.py", files))
        self.expect_finding("lint_dups.py", files, "the limit is 3 %", arguments=("--limit", "3"))

    def test_includes_comments_tables_and_tests_do_not_count(self):
        text = "".join(f"#include <x{i}>\n// note {i}\n}}\n" for i in range(20))
        self.expect_clean("lint_dups.py", {"src/a.cpp": text, "src/b.cpp": text, "src/a.inc": body("one", 30),
                                           "src/b.inc": body("one", 30), "tests/a.cpp": body("t", 30),
                                           "tests/b.cpp": body("t", 30)})


if __name__ == "__main__":
    unittest.main()
