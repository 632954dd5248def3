"""check_isa_flags.py: lists of objects and compiler commands as CMake writes them."""
import json
import unittest

from lint_case import LintCase


class IsaFlags(LintCase):
    def check(self, flags, listed="kernels.o"):
        build = self.tree({"isa-objects/a.txt": "", "compile_commands.json": ""})
        command = f"/usr/bin/c++ {flags} -o kernels.o -c kernels.cpp"
        entry = {"directory": str(build), "command": command, "file": "kernels.cpp"}
        (build / "compile_commands.json").write_text(json.dumps([entry]))
        (build / "isa-objects/a.txt").write_text(f"{build / listed}\n" if listed else "\n")
        return self.lint("check_isa_flags.py", build)

    def test_generic_tuning_passes(self):
        passed = (0, "check_isa_flags: 1 objects, all tuned by -mtune=generic\n")
        self.assertEqual(self.check("-mavx2 -mtune=generic"), passed)
        self.assertEqual(self.check("-march=native -mtune=znver3 -mavx2 -mtune=generic"), passed)

    def test_other_tuning_fails(self):
        for flags, found in (("-march=native -mavx2", "tuned by default or -march"),
                             ("-mtune=generic -mtune=znver3", "tuned by -mtune=znver3")):
            status, output = self.check(flags)
            self.assertEqual(status, 1)
            self.assertIn(found, output)

    def test_nothing_to_check_fails(self):
        status, output = self.check("-mtune=generic", listed="")
        self.assertEqual(status, 1)
        self.assertIn("no object listed", output)
        status, output = self.check("-mtune=generic", listed="other.o")
        self.assertEqual(status, 1)
        self.assertIn("no compiler command has this output", output)
        status, output = self.lint("check_isa_flags.py", self.tree({"isa-objects/a.txt": "\n"}))
        self.assertEqual(status, 1)
        self.assertIn("compile_commands.json: no such file", output)


if __name__ == "__main__":
    unittest.main()
