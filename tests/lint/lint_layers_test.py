"""lint_layers.py: the include table, both ways."""
import unittest

from lint_case import LintCase

BASE = {"common/expected.h": "#pragma once\n#include <string>\n#include <tl/expected.hpp>\n",
        "quants/types.h": '#pragma once\n#include "common/expected.h"\n',
        "ggml-like/gguf/file.h": '#include "quants/types.h"\n',
        "ggml-like/backend.h": '#include "quants/types.h"\n',
        "src/text/vocab.h": '#include "ggml-like/gguf/file.h"\n',
        "src/engine/engine.h": '#include "src/text/vocab.h"\n'}


class Layers(LintCase):
    def finding(self, path, line, *messages):
        self.expect_finding("lint_layers.py", BASE | {path: line + "\n"}, f"{path}:1: ", *messages)

    def clean(self, path, line):
        self.expect_clean("lint_layers.py", BASE | {path: line + "\n"})

    def test_downward_includes_pass(self):
        self.assertIn("7 includes", self.expect_clean("lint_layers.py", BASE))

    def test_upward_include_fails(self):
        self.finding("quants/x.h", '#include "ggml-like/backend.h"', "goes against the layers", "common/, quants/")

    def test_text_sees_metadata_but_no_backend(self):
        self.finding("src/text/x.cpp", '#include "ggml-like/backend.h"', "goes against the layers")
        self.clean("src/text/x.cpp", '#include "ggml-like/gguf/file.h"')

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


if __name__ == "__main__":
    unittest.main()
