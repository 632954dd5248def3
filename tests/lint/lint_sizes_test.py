"""lint_sizes.py: the limits, and the finder of functions under them."""
import sys
import unittest

from lint_case import SCRIPTS, LintCase

sys.path.insert(0, str(SCRIPTS))
import lint_sizes  # noqa: E402


def function(lines, name="f"):
    """A function of exactly this many lines."""
    return f"void {name}() {{\n" + "    g();\n" * (lines - 2) + "}\n"


class Limits(LintCase):
    LISTS = {"common/CMakeLists.txt": "tsr_library(c SOURCES a.cpp)\n",
             "quants/CMakeLists.txt": "foreach(isa avx2)\n tsr_isa_library(x SOURCES arch/${isa}/table.cpp)\nendforeach()\n"}

    def test_function_at_and_over_the_limit(self):
        self.expect_clean("lint_sizes.py", self.LISTS | {"common/a.cpp": function(120)})
        self.expect_finding("lint_sizes.py", self.LISTS | {"common/a.cpp": "\n" + function(121)},
                            "common/a.cpp:2: function 'f' has 121 lines; expected at most 120")

    def test_kernels_may_be_longer(self):
        self.expect_clean("lint_sizes.py", self.LISTS | {"quants/kernels/a.h": function(150)})
        self.expect_finding("lint_sizes.py", self.LISTS | {"quants/arch/avx2/table.cpp": function(151)},
                            "function 'f' has 151 lines; expected at most 150")

    def test_file_over_the_limit_and_exempt_table(self):
        lines = "int x;\n" * 1001
        self.expect_finding("lint_sizes.py", {"common/a.h": lines}, "common/a.h:1001: the file has 1001 lines")
        self.expect_clean("lint_sizes.py", {"common/a.inc": lines, "common/b.h": "int x;\n" * 1000})

    def test_source_that_nobody_compiles(self):
        self.expect_finding("lint_sizes.py", self.LISTS | {"common/a.cpp": "", "common/b.cpp": ""},
                            "common/b.cpp:1: no CMakeLists.txt names this source")
        self.expect_clean("lint_sizes.py", self.LISTS | {"quants/arch/avx2/table.cpp": ""})
        commented = {"common/CMakeLists.txt": "# a.cpp\n", "common/a.cpp": ""}
        self.expect_finding("lint_sizes.py", commented, "common/a.cpp:1: no CMakeLists.txt")


class Finder(unittest.TestCase):
    def expect(self, text, *functions):
        self.assertEqual(lint_sizes.functions(text), list(functions))

    def test_namespaces_classes_and_linkage(self):
        self.expect('namespace a::b {\nextern "C" {\nint f() {\n}\n}\n'
                    "class X : public Y<int> {\npublic:\n    int g() const {\n    }\n};\n}  // namespace\n",
                    ("f", 3, 4), ("g", 8, 9))

    def test_constructor_lists_templates_and_operators(self):
        self.expect("X::X(int a)\n    : a_(a),\n      b_{a} {\n    c();\n}\n"
                    "template <class T, int N = 3>\nT h(T t) {\n}\nbool X::operator==(const X& o) const {\n}\n",
                    ("X", 1, 5), ("h", 6, 8), ("operator==", 9, 10))

    def test_data_is_no_function(self):
        self.expect("const int table[] = {\n1,\n2,\n};\nenum class E : int {\n    A,\n};\nint x{f(3)};\nstruct S {\n};\n")

    def test_default_arguments_and_trailing_types(self):
        self.expect("int f(Options o = {}, int n = 3) {\n}\nauto g() -> std::vector<int> {\n}\n", ("f", 1, 2), ("g", 3, 4))

    def test_lambdas(self):
        self.expect("void f() {\n    auto g = [](int x) {\n    };\n}\nstatic const auto h = [](int x) {\n};\n",
                    ("f", 1, 4), ("h", 5, 6))

    def test_braces_that_do_not_count(self):
        self.expect('void f() {\n    g("{", \'{\', R"x({{)x", 1\'000);  // {\n    /* { */\n}\nvoid h() {\n}\n',
                    ("f", 1, 4), ("h", 5, 6))

    def test_preprocessor(self):
        self.expect("#define M(x) \\\n    do { x\nvoid f() {\n#if A\n    if (a) {\n#else\n    if (b) {\n#endif\n    }\n}\n"
                    "#if A\nvoid g() {\n}\n#else\nvoid h() {\n}\n#endif\n", ("f", 3, 10), ("g", 12, 13), ("h", 15, 16))

    def test_macros_that_make_functions(self):
        self.expect("TEST(Suite, Name) {\n    f();\n}\n", ("TEST", 1, 3))


if __name__ == "__main__":
    unittest.main()
