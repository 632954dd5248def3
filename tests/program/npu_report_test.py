"""`tessera npu report`: figures of a model compiled ahead of time and of one compiled at start, and the report of its
operations."""
import json

import npu_test
from npu_test import TINY
from program_case import ProgramCase, main


class Report(ProgramCase):
    calibrate = npu_test.Offload.calibrate

    def setUp(self):
        super().setUp()
        self.ranges = self.folder / "ranges.json"
        self.calibrate()
        self.device = ("--npu-device", "x-elite", "--npu-ranges", self.ranges, "-c", 256)

    def report(self, *options):
        return json.loads(self.fine("npu", "report", TINY, "--json", *options))

    def test_both_ways_side_by_side(self):
        out = self.folder / "kept.nctx"
        found = self.report(*self.device, "-n", 8, "-o", out)
        self.assertEqual(found["positions"], 256)
        self.assertEqual(found["compilation"]["file_bytes"], out.stat().st_size)
        aot, jit = found["ways"]
        self.assertEqual((aot["way"], jit["way"]), ("aot", "jit"))
        for way in (aot, jit):
            self.assertGreater(way["footprint"]["file_bytes"], 0)
            self.assertGreater(way["loading"]["npu_seconds"], 0)
            self.assertGreater(way["loading"]["peak_bytes"], 0)
            memory = way["allocation"]
            self.assertEqual(memory["arena_touched_bytes"], memory["arena_planned_bytes"])
            self.assertLessEqual(memory["arena_planned_bytes"], memory["arena_bytes"])
            self.assertEqual(memory["heap_growth_bytes"], 0)
            self.assertEqual((way["cache"]["on"], way["cache"]["processor_bytes"]), ("device", 0))
            self.assertGreaterEqual(memory["arena_bytes"], way["fragmentation"]["arena_used_bytes"])
            self.assertGreater(way["fragmentation"]["arena_used_bytes"], 0)
            self.assertEqual((way["passes"]["prompt"], way["passes"]["decoded"]), (128, 8))
        for part in ("allocation", "cache"):
            same = [{k: v for k, v in way[part].items() if k != "constants_are"} for way in (aot, jit)]
            self.assertEqual(*same)
        self.assertEqual((aot["allocation"]["constants_are"], aot["compiling"]["anonymous_bytes"]), ("mapped", 0))
        # At least the constants, which are mapped from the file in the other case.
        self.assertEqual(jit["allocation"]["constants_are"], "anonymous")
        self.assertGreater(jit["compiling"]["anonymous_bytes"], jit["allocation"]["constant_bytes"])
        self.assertGreater(jit["loading"]["after"]["anonymous_bytes"] - aot["loading"]["after"]["anonymous_bytes"],
                           jit["allocation"]["constant_bytes"] // 2)
        self.fine("npu", "inspect", out)
        of_file = self.report("--npu", out, "-p", 0, "-n", 1)
        self.assertEqual([way["way"] for way in of_file["ways"]], ["aot"])
        self.assertEqual(of_file["positions"], 256)
        for part in ("share", "segments", "on_processor", "predicted"):
            self.assertEqual(of_file[part], found[part])

    def test_operations(self):
        found = self.report(*self.device, "-p", 4, "-n", 1)
        share = found["share"]
        self.assertEqual(share["processor"]["products"], 0)
        self.assertEqual(len(found["on_processor"]), share["processor"]["operations"])
        self.assertEqual({op["name"] for op in found["on_processor"]}, {"embed", "rope_angles"})
        self.assertTrue(all(op["reason"] for op in found["on_processor"]))
        border = sum(s["in_bytes"] + s["out_bytes"] for s in found["segments"])
        self.assertEqual(border, found["ways"][0]["cache"]["border_bytes_per_token"])
        self.assertIn("model", found["predicted"]["is"])
        self.assertIn("by_sizes", found["predicted"])
        part = self.report(*self.device, "-p", 4, "-n", 1, "--offload", "blk.*.ffn")
        self.assertGreater(part["share"]["processor"]["products"], 0)
        self.assertEqual(part["share"]["device"]["operations"] + part["share"]["processor"]["operations"],
                         share["device"]["operations"] + share["processor"]["operations"])
        self.assertNotIn("by_sizes", part["predicted"])
        for way in part["ways"]:
            self.assertEqual(way["cache"]["on"], "processor")
            self.assertGreater(way["cache"]["processor_bytes"], 0)
        self.assertIn("not selected", {op["name"]: op["reason"] for op in part["on_processor"]}["blk.0.qkv"])

    def test_text_has_the_six_rows(self):
        text = self.fine("npu", "report", TINY, *self.device, "-p", 4, "-n", 1).decode()
        for part in ("ahead of time", "at load", "1 program", "2 loading", "3 compiling", "4 allocation",
                     "5 keys and values", "6 fragmentation", "on the NPU: ", "embedding lookup",
                     "predicted for x-elite by its model", "its times are predictions"):
            self.assertIn(part, text)

    def test_errors_come_from_the_measuring_processes(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        base = ("npu", "report", TINY)
        env = {"TMPDIR": temporary}
        self.refused(2, *base, says="is needed")
        self.refused(2, *base, "--npu", "x.nctx", "-o", "y.nctx", says="exclude each other")
        self.refused(1, *base, "--npu", self.folder / "no.nctx", says="no.nctx")
        self.refused(1, *base, *self.device, "--npu-recipe", "w3", says="recipe 'w3'", env=env)
        self.refused(1, *base, *self.device, "-o", self.folder / "no" / "x.nctx", says="no/x.nctx", env=env)
        self.refused(1, *base, *self.device, "-c", 1 << 20, says="context", env=env)
        self.assertEqual(list(temporary.iterdir()), [])
        self.fine(*base, *self.device, "-p", 0, "-n", 1, env=env)
        self.assertEqual(list(temporary.iterdir()), [])  # the temporary file was removed

    def test_a_compiled_file_may_be_strict(self):
        out = self.folder / "some.nctx"
        self.fine("npu", "compile", TINY, "--npu-device", "x-elite", "--act", self.ranges, "-o", out, "--ctx", 64, "--ar", 1)
        run = ("run", TINY, "-p", "The", "-n", 1, "-c", 64, "--npu", out)
        self.assertNotIn(b"on the CPU", self.run_program(*run, "--npu-strict").stderr)
        self.fine(*run, "--npu-strict")


if __name__ == "__main__":
    main()
