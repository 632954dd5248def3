"""The lints: each finds its defect in a small tree, names it, and accepts the sound form."""
import os
import shutil
import sys
import unittest

from lint_case import ROOT, SCRIPTS, LintCase

sys.path.insert(0, str(SCRIPTS))
import lint_sizes  # noqa: E402

BASE = {"common/expected.h": "#pragma once\n#include <string>\n#include <tl/expected.hpp>\n",
        "quants/types.h": '#pragma once\n#include "common/expected.h"\n',
        "ggml-like/gguf/file.h": '#include "quants/types.h"\n',
        "ggml-like/backend.h": '#include "quants/types.h"\n',
        "src/text/vocab.h": '#include "ggml-like/gguf/file.h"\n',
        "src/engine/engine.h": '#include "src/text/vocab.h"\n',
        "src/measure/perplexity.h": '#include "src/engine/engine.h"\n'}


class Layers(LintCase):
    def finding(self, path, line, *messages):
        self.expect_finding("lint_layers.py", BASE | {path: line + "\n"}, f"{path}:1: ", *messages)

    def clean(self, path, line):
        self.expect_clean("lint_layers.py", BASE | {path: line + "\n"})

    def test_downward_includes_pass(self):
        self.assertIn("8 includes", self.expect_clean("lint_layers.py", BASE))

    def test_upward_include_fails(self):
        self.finding("quants/x.h", '#include "ggml-like/backend.h"', "goes against the layers", "common/, quants/")

    def test_text_sees_metadata_but_no_backend(self):
        self.finding("src/text/x.cpp", '#include "ggml-like/backend.h"', "goes against the layers")
        self.clean("src/text/x.cpp", '#include "ggml-like/gguf/file.h"')

    def test_engine_and_library_need_no_measurements(self):
        for path in ("src/engine/x.cpp", "src/capi/x.cpp"):
            self.finding(path, '#include "src/measure/perplexity.h"', "goes against the layers")
        self.clean("examples/tessera/perplexity.cpp", '#include "src/measure/perplexity.h"')

    def test_server_and_chat_use_the_public_api_only(self):
        self.finding("server/x.cpp", '#include "src/engine/engine.h"', "one of include/, server/")
        self.finding("examples/tessera/chat_loop.cpp", '#include "src/engine/engine.h"', "goes against the layers")
        self.finding("examples/embed-c/main.c", '#include "common/expected.h"', "goes against the layers")
        self.clean("examples/tessera/logits.cpp", '#include "src/engine/engine.h"')

    def test_tests_may_include_anything(self):
        self.clean("tests/x/x_test.cpp", '#include "src/engine/engine.h"\n#include <gtest/gtest.h>')

    def test_include_must_be_from_the_root(self):
        self.finding("quants/x.cpp", '#include "types.h"', 'include "types.h" is no file of the tree')

    def test_third_party_place(self):
        self.finding("src/engine/x.cpp", "#include <nlohmann/json.hpp>", "nlohmann-json", "src/text/jinja/*.cpp")
        self.finding("src/text/jinja/x.h", "#include <nlohmann/json.hpp>", "nlohmann-json")
        self.clean("src/text/jinja/x.cpp", "#include <nlohmann/json.hpp>")
        self.finding("common/x.h", "#include <tl/expected.hpp>", "it only in common/expected.h")
        self.finding("ggml-like/cpu/x.cpp", "#include <immintrin.h>", "vector intrinsics")

    def test_third_party_stays_behind_one_wrapper(self):
        files = BASE | {f"src/text/{name}.cpp": "#include <sentencepiece_processor.h>\n" for name in "ab"}
        self.expect_finding("lint_layers.py", files, "src/text/a.cpp:1: SentencePiece is included by 2 files")

    def test_unknown_header(self):
        self.finding("common/x.cpp", "#include <boost/any.hpp>", "is in no table")

    def test_printing_header_in_a_library(self):
        self.finding("common/x.cpp", "#include <iostream>", "in a library")
        self.clean("examples/tessera/x.cpp", "#include <iostream>")

    def test_unknown_folder(self):
        self.finding("extra/x.cpp", "#include <vector>", "the folder is in no layer")

    def test_comments_do_not_count(self):
        self.clean("quants/x.h", '// #include "ggml-like/backend.h"\n/*\n#include "src/engine/engine.h"\n*/')


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


BAD = "int  f( ){return 1;}\n"
GOOD = "int f() { return 1; }\n"


class Format(LintCase):
    def files(self, text):
        return {".clang-format": (ROOT / ".clang-format").read_text(), "src/a.cpp": text}

    def run_lint(self, text, *arguments):
        root = self.tree(self.files(text))
        status, output = self.lint("lint_format.sh", "--root", root, *arguments)
        if status == 77:
            self.skipTest(output)
        return root, status, output

    def test_clean(self):
        self.assertEqual(self.run_lint(GOOD)[1], 0)

    def test_violation(self):
        _, status, output = self.run_lint(BAD)
        self.assertEqual(status, 1)
        self.assertIn("src/a.cpp:1:", output)
        self.assertIn("expected the layout of .clang-format", output)

    def test_fix(self):
        root, status, _ = self.run_lint(BAD, "--fix")
        self.assertEqual(status, 0)
        self.assertEqual((root / "src/a.cpp").read_text(), GOOD)

    def test_skips_without_the_tool(self):
        root = self.tree(self.files(BAD))
        tools = self.tree({})
        for tool in ("bash", "dirname", "readlink", "grep"):
            (tools / tool).symlink_to(shutil.which(tool))
        path, os.environ["PATH"] = os.environ["PATH"], str(tools)
        try:
            status, output = self.lint("lint_format.sh", "--root", root)
        finally:
            os.environ["PATH"] = path
        self.assertEqual(status, 77)
        self.assertIn("skipped: no clang-format 14", output)


HOST = "deb" + ".debian.org"


class Text(LintCase):
    def finding(self, text, message, name="docs/a.md"):
        self.expect_finding("lint_text.py", {name: "first\n" + text}, f"{name}:2: {message}")

    def test_clean(self):
        self.expect_clean("lint_text.py", {"a.md": "see docs/home/x, ./work/y and https://example.org/home\n",
                                           "a.gguf": b"/ho" b"me/x\0\r", "Makefile": "a:\n\tb\n"})

    def test_notes(self):
        self.finding("// TO" + "DO: later\n", "a note to oneself", "src/a.cpp")
        self.finding("FIX" + "ME\n", "a note to oneself")

    def test_paths(self):
        for path in ("/ho" + "me/someone/x", "/wo" + "rk/main", "/tmp/ba" + "sh_jobs"):
            self.finding(f"cd {path}\n", "a path of one machine")

    def test_registry_hosts(self):
        self.finding(f"URIs: http://{HOST}/debian\n", "a package registry's host")
        self.finding("https://py" + "pi.org/simple\n", "a package registry's host")
        self.finding("https://regi" + "stry.example.com/\n", "a package registry's host")

    def test_line_ends_and_tabs(self):
        self.finding("a\r\n", "a carriage return")
        self.finding("\tint x;\n", "a tab", "src/a.h")

    def test_conflict_marker(self):
        self.finding("<" * 7 + " HEAD\n", "a conflict marker")


class Idioms(LintCase):
    def idiom(self, text, phrase, name="new/a.h", line=1):
        output = self.expect_finding("lint_text.py", {name: text}, f"{name}:{line}: the idiom '{phrase}")
        self.assertIn("lint_text: 1 finding(s)", output)

    def test_each_idiom(self):
        for phrase in ("asks for", "asked for", "asking ahead for", "of the read", "loud", "quiet hour", "measured in turn",
                       "second cache", "inner caches", "gives way", "gave way", "made known", "goes on", "so many", "whoever",
                       "as told", "prompt is read", "and who", "to who", "since then", "used to be", "lucky moment",
                       "held to a grammar", "MAC a cycle", "to and fro"):
            self.idiom(f"// It {phrase} x.\n", phrase)

    def test_where_prose_is(self):
        self.idiom("int x;  ///< asked for\n", "asked for")
        self.idiom('int x;\nconst char* help = "It is asked for.";\n', "asked for", line=2)
        self.idiom("/* One.\n * It is asked\n * for. */\n", "asked for", line=2)
        self.idiom("// It is asked\n// for.\n", "asked for")
        self.idiom('f("It is asked "\n  "for.");\n', "asked for")
        self.idiom("# It is asked for.\n", "asked for", "new/a.py")
        self.idiom('"""It is asked for."""\n', "asked for", "new/a.py")
        self.idiom("x=1\n# It is asked for.\n", "asked for", "new/a.sh", line=2)
        self.idiom("Text\nis asked\nfor.\n", "asked for", "new/a.md", line=2)
        self.idiom('"source": "asked for"\n', "asked for", "new/a.json")

    def test_headless_sentences(self):
        for text in ("// What fits is kept.\n", "/// Who comes last joins.\n", "int x;  // Whatever is left.\n"):
            self.idiom(text, text.split("/ ")[1].strip().rstrip("."))
        self.idiom("// One. What fits is\n// kept.\n", "What fits is kept")
        self.idiom("| a | What fits |\n", "What fits", "new/a.md")
        self.idiom("- What fits is kept.\n", "What fits is kept", "new/a.md")

    def test_sound_prose(self):
        self.expect_clean("lint_text.py", {
            "new/a.h": "// What is it? The task, what it does, goes on a stack. It may ask for help. Read the read lock.\n"
                       "int asked_for; int loud; f(so, many);\n",
            "new/a.md": "# What it is\n\n`asked for`\n\n```sh\necho asked for\n```\n",
            "tests/a.cpp": 'f("asked for");\n', "tests/a.py": 'f("asked for")\n',
            "docs/glossary.md": "asked for\n"})

    def test_folders(self):
        files = {"a/b.h": "// asked for\n", "c/d.h": "// asked for\n", "c.md": "loud\n"}
        output = self.expect_finding("lint_text.py", files, "c/d.h:1: the idiom 'asked for'", arguments=("--idioms", "c"))
        self.assertIn("1 finding(s)", output)
        status, output = self.lint("lint_text.py", "--root", self.tree(files), "--idioms", "nowhere")
        self.assertEqual(status, 2)
        self.assertIn("--idioms: expected a folder or file of the tree, found 'nowhere'", output)


if __name__ == "__main__":
    unittest.main()
