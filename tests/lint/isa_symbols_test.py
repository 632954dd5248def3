"""check_isa_symbols.sh: objects made with the compiler, with and without weak symbols."""
import shutil
import subprocess
import unittest

from lint_case import LintCase

STRONG = 'static int g(int x) { return x + 1; }\nextern "C" int f(int x) { return g(x); }\n'
WEAK = "template <class T> [[gnu::noinline]] T twice(T x) { return x + x; }\nint f(int x) { return twice(x); }\n"
UNIQUE = "struct S { static inline int n = 3; };\nint* f() { return &S::n; }\n"


class IsaSymbols(LintCase):
    def check(self, *sources):
        build = self.tree({f"{i}.cpp": text for i, text in enumerate(sources)} | {"isa-objects/none.txt": "\n"})
        compiler = shutil.which("c++") or shutil.which("g++")
        objects = []
        for i in range(len(sources)):
            subprocess.run([compiler, "-std=c++20", "-O1", "-c", f"{i}.cpp", "-o", f"{i}.o"], cwd=build, check=True)
            objects.append(str(build / f"{i}.o"))
        (build / "isa-objects/a.txt").write_text("\n".join(objects) + "\n")
        return self.lint("check_isa_symbols.sh", build)

    def test_strong_symbols_pass(self):
        self.assertEqual(self.check(STRONG), (0, "check_isa_symbols: 1 objects, no weak symbol\n"))

    def test_weak_function_fails(self):
        status, output = self.check(STRONG, WEAK)
        self.assertEqual(status, 1)
        self.assertIn("1.o: weak symbol 'int twice<int>(int)'", output)

    def test_inline_variable_fails(self):
        status, output = self.check(UNIQUE)
        self.assertEqual(status, 1)
        self.assertIn("weak symbol 'S::n'", output)

    def test_nothing_to_check_fails(self):
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("the lists are empty", output)
        status, output = self.lint("check_isa_symbols.sh", self.tree({}))
        self.assertEqual(status, 1)
        self.assertIn("no list of objects", output)

    def test_missing_object_fails(self):
        status, output = self.lint("check_isa_symbols.sh", self.tree({"isa-objects/a.txt": "gone.o\n"}))
        self.assertEqual(status, 1)
        self.assertIn("gone.o: the object is missing", output)


if __name__ == "__main__":
    unittest.main()
