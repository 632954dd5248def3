"""CONTRIBUTING.md's lists of files, counted in the tree: each section "(N files, example `WORD`)" lists exactly the
product files that name WORD."""
import re
import sys
import unittest

import lint_case

sys.path.insert(0, str(lint_case.SCRIPTS))
import lintlib  # noqa: E402

PRODUCT = ("cmake", "common", "examples", "ggml-like", "include", "quants", "server", "src")
SECTION = re.compile(r"^### (?P<title>[^\n]*) \((?P<count>\d+) files, example `(?P<word>[^`]+)`\)\n(?P<body>.*?)(?=^##)",
                     re.M | re.S)
PATH = re.compile(r"`((?:%s)/[^`]+)`" % "|".join(PRODUCT))
# How code spells an example, where that is not the word alone: kMinP, AddNormOp.
SPELLINGS = {"tq1_0": r"(?i)tq1_0", "add_norm": r"(?i)(?<![a-z])add_?norm(?!al)", "min_p": r"\bmin_p\b|kMinP\b",
             "olmo2": r"\bolmo2\b|kOlmo2\b", "/tokenize": r"/tokenize\b|post_tokenize\b"}
EXPECTED = {"tq1_0", "olmo2", "add_norm", "min_p", "/tokenize"}


def naming(pattern):
    """The product files, sorted, in which the pattern occurs."""
    found = []
    for path in lintlib.source_files(lint_case.ROOT):
        if path.parts[0] in PRODUCT and path.name.endswith(lintlib.CPP_SUFFIXES + (".inc", ".def", ".js", ".txt", ".cmake")):
            if re.search(pattern, lintlib.read(lint_case.ROOT, path)):
                found.append(str(path))
    return sorted(found)


class Contributing(unittest.TestCase):
    def test_lists_are_the_files_of_the_tree(self):
        text = (lint_case.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        words = set()
        for section in SECTION.finditer(text):
            word = section.group("word")
            words.add(word)
            with self.subTest(section.group("title")):
                files = naming(SPELLINGS[word])
                bullets = re.search(r"^- .*?(?=^\n[^-\s])", section.group("body"), re.M | re.S).group(0)
                listed = sorted(path for path in PATH.findall(bullets))
                self.assertEqual(listed, files, f"files that name {word}")
                self.assertEqual(int(section.group("count")), len(files))
        self.assertEqual(words, EXPECTED)

    def test_other_paths_exist(self):
        text = (lint_case.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]+)`", text):
            if not re.search("NAME|FOLDER|FILE", path) and not path.startswith("build/") and not path.startswith("/"):
                self.assertTrue((lint_case.ROOT / path.rstrip("/")).exists(), path)


if __name__ == "__main__":
    unittest.main()
