"""The memory that `plan` states against the measured peak: models of some hundred MiB with random weights, whose whole
context is used, and the refusal of models that do not fit."""
import ctypes
import json
import os
import random
import re
import subprocess
import sys

from program_case import ROOT, ProgramCase, main

MAKER = ROOT / "tests/reference/make_models.py"


def refuse_huge_pages():
    """Before exec: disables transparent huge pages for the process (prctl(2), PR_SET_THP_DISABLE)."""
    if ctypes.CDLL(None, use_errno=True).prctl(41, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def python_with_numpy():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    sys.exit("no Python with numpy: scripts/setup.sh --test installs it")


class Plan(ProgramCase):
    def make(self, name, kind, n_vocab=32000):
        whole, path = self.folder / f"{name}.gguf", self.folder / f"{name}-{kind}.gguf"
        subprocess.run([python_with_numpy(), "-B", MAKER, "large", name, str(n_vocab), whole], check=True)
        self.fine("quantize", whole, path, kind)
        whole.unlink()
        return path

    def plan(self, *options):
        return json.loads(self.fine("plan", *options, "--json"))

    def prompt(self, model, n_tokens):
        """A text of n_tokens tokens or slightly fewer."""
        source = random.Random(1)
        text = " ".join("".join(source.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(5)) for _ in range(n_tokens))
        ids = self.fine("tokenize", model, "--ids", stdin=text.encode()).decode().replace(",", " ").strip("[]\n")
        cut = " ".join(ids.split()[:n_tokens])
        return self.fine("detokenize", model, stdin=cut.encode())

    def peak(self, *arguments, stdin=b"", before=None):
        process = self.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=before)
        process.stdin.write(stdin)
        process.stdin.close()
        errors = process.stderr.read()
        process.stderr.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, errors)
        return usage.ru_maxrss * 1024

    def compare(self, what, plan, measured, looked_up=0):
        """`looked_up`: bytes of the embedding table in the plan, of which a run reads only some rows."""
        most, least = plan["total_bytes"] / measured - 1, (plan["total_bytes"] - looked_up) / measured - 1
        print(f"{what}: plan {plan['total_bytes'] >> 20} MiB, measured {measured >> 20} MiB, {100 * most:+.2f} %")
        self.assertGreater(measured, 200 << 20)
        self.assertGreater(most, -0.03, what)
        self.assertLess(least, 0.03, what)

    def compare_run(self, model, n_ctx, *options, before=None):
        plan = self.plan(model, "-c", n_ctx, *options)
        measured = self.peak("run", model, "-", "-c", n_ctx, "-n", 2, "--ignore-eos", *options,
                             stdin=self.prompt(model, n_ctx - 3), before=before)
        # If an NPU has all products, only the table of embeddings is mapped.
        looked_up = plan["mapped_bytes"] if "npu" in plan else 0
        self.compare(" ".join(map(str, (model.name, n_ctx, *options))), plan, measured, looked_up)

    def test_dense(self):
        model = self.make("qwen3-0.6b", "q4_k_m")
        self.compare_run(model, 512)
        self.compare_run(model, 512, before=refuse_huge_pages)
        self.compare_run(model, 1024, "--kv", "f32")
        self.compare_run(model, 2048, "--kv", "q8_0,q4_0")
        self.compare_run(model, 512, "--batch", 64, "-t", 1)
        self.compare_run(model, 256, "--precise")
        plan = self.plan(model, "-c", 256, "--slots", 6)
        for before in (None, refuse_huge_pages):
            measured = self.peak("bench", model, "-p", 240, "-n", 16, "--concurrency", 6, "--requests", 6, before=before)
            self.compare("six at a time", plan, measured)
        # A model that does not fit is refused before loading, with the plan.
        refusal = ("memory: expected room for", "KV cache", "weights", "total")
        for command in (("run", model, "-p", "x"), ("chat", model), ("serve", model, "--port", 0), ("bench", model, "-p", 8)):
            options = ("-d", 1 << 20, "--kv", "f32") if command[0] == "bench" else ("-c", 1 << 24)
            self.refused(1, *command, *options, says=refusal)
        self.assertFalse(self.plan(model, "-c", 1 << 24)["fits"])

    def test_experts(self):
        model = self.make("qwen3moe-1b", "q2_k")
        self.compare_run(model, 512)
        self.compare_run(model, 1024, "--kv", "q8_0")

    def test_npu(self):
        model, text = self.make("qwen3-0.6b", "q4_k_m"), self.folder / "text.txt"
        text.write_bytes(self.prompt(model, 200))
        ranges, compiled = self.folder / "ranges.json", self.folder / "model.nctx"
        self.fine("npu", "calibrate", model, "-f", text, "-c", 32, "--samples", 1, "-o", ranges)
        self.fine("npu", "compile", model, "--npu-device", "x-elite", "--act", ranges, "--ctx", 64, "--ar", "32,1",
                  "-o", compiled)
        plan = self.plan(model, "-c", 64, "--npu", compiled)
        self.assertEqual(plan["npu"]["mapped_bytes"], compiled.stat().st_size)
        self.assertEqual(plan["npu"]["vtcm_bytes"], 8 << 20)
        self.assertEqual(plan["cache_bytes"], 0)
        self.assertGreater(plan["npu"]["cache_bytes"], 0)
        self.assertGreater(plan["npu"]["total_bytes"], compiled.stat().st_size)
        # No weight is packed for the CPU, because the NPU has them all.
        self.assertGreater(self.plan(model, "-c", 64)["packed_bytes"], 100 << 20)
        self.assertEqual(plan["packed_bytes"], 0)
        self.compare_run(model, 64, "--npu", compiled)
        self.compare_run(model, 64, "--npu", compiled, "--npu-fast")
        self.refused(1, "plan", model, "-c", 128, "--npu", compiled, says="expected at most the 64 positions")
        self.refused(1, "plan", model, "-c", 64, "--slots", 2, "--npu", compiled, says="slots: expected 1")
        self.refused(2, "plan", model, "--npu-fast", says="--npu-fast needs --npu FILE")

    def test_packed_and_large_vocabulary(self):
        model, packed = self.make("qwen3-0.6b", "iq4_xs", n_vocab=102400), self.folder / "packed.gguf"
        self.compare_run(model, 512)
        self.fine("pack", model, packed)
        plan = self.plan(packed)
        self.assertEqual(plan["packed_bytes"], 0)
        self.assertGreater(plan["mapped_bytes"], 200 << 20)
        self.compare_run(packed, 512)
        # Weights touched while the vocabulary is loaded are counted only once, as mapped.
        refusal = self.refused(1, "run", packed, "-p", "x", "-c", 1 << 24, says=("memory: expected room for", "mapped"))
        n, unit = re.search(r"program +([0-9.]+) (MiB|GiB)", refusal).groups()
        self.assertEqual(unit, "MiB")
        self.assertLess(float(n), 120)


if __name__ == "__main__":
    main()
