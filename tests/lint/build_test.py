#!/usr/bin/env python3
"""The build's configurations: options that exclude parts, values that are refused, and commands that stay the same when the
tests are added to a folder that scripts/run.sh configured."""
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tessera-build-")
        self.addCleanup(folder.cleanup)
        self.build = folder.name

    def configure(self, *options):
        return subprocess.run(["cmake", "-S", ROOT, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options],
                              capture_output=True, text=True, timeout=300)

    def commands(self):
        return subprocess.run(["ninja", "-C", self.build, "-t", "commands", "tessera", "tsr_shared"], check=True,
                              capture_output=True, text=True, timeout=60).stdout

    def test_tests_leave_the_commands_of_the_program_alone(self):
        self.assertEqual(self.configure("-DTSR_BUILD_TESTS=OFF").returncode, 0)
        before = self.commands()
        self.assertEqual(self.configure("-DTSR_BUILD_TESTS=ON", "-DTSR_PCH=TESTS").returncode, 0)
        self.assertEqual(self.commands(), before)

    def test_parts_are_left_out(self):
        self.assertEqual(self.configure("-DTSR_BUILD_TESTS=OFF", "-DTSR_NPU=OFF", "-DTSR_BLAS=OFF", "-DTSR_ISA=native").returncode, 0)
        commands = self.commands()
        self.assertNotIn("src/npu/", commands)
        self.assertIn("blas/absent.cpp", commands)
        self.assertNotIn("openblas", commands)
        self.assertIn("quants/arch/scalar/", commands)

    def test_files_compile_one_by_one_or_in_batches(self):
        self.assertEqual(self.configure("-DTSR_BUILD_TESTS=OFF", "-DTSR_UNITY=OFF").returncode, 0)
        one_by_one = self.commands()
        self.assertNotIn("unity_0", one_by_one)
        self.assertEqual(self.configure("-DTSR_UNITY=ON").returncode, 0)
        batches = self.commands()
        self.assertIn("unity_0", batches)
        self.assertLess(batches.count(" -c "), one_by_one.count(" -c ") / 2)

    def test_values_are_checked(self):
        for options, message in ((["-DTSR_ISA=sse"], "TSR_ISA: expected all or native, found sse"),
                                 (["-DTSR_ISA=all", "-DTSR_PCH=MAYBE"], "TSR_PCH: expected OFF, TESTS or ON, found MAYBE")):
            done = self.configure("-DTSR_BUILD_TESTS=OFF", *options)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
