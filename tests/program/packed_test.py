"""Packing and unpacking: the same results, the same file back, little memory, and no partial output."""
import json
import os
import resource
import signal
import struct
import subprocess
import time
from pathlib import Path

from program_case import LLAMA, ROOT, ProgramCase, is_writing, main, text_value

MODEL = ROOT / "models/tessera-tiny.gguf"


def write_large_model(path, n_vocab):
    """A model of one layer whose q8_0 table of zeros, with 256 columns, is a hole in the file."""
    def key(name, kind, value):
        return text_value(name.encode()) + struct.pack("<I", kind) + value

    numbers = {"block_count": 1, "context_length": 64, "embedding_length": 256, "feed_forward_length": 256,
               "attention.head_count": 4}
    keys = [key("general.architecture", 8, text_value(b"llama"))]
    keys += [key(f"llama.{name}", 4, struct.pack("<I", value)) for name, value in numbers.items()]
    shapes = {"token_embd.weight": (n_vocab, 256), "output_norm.weight": (256,)}
    for name in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"):
        shapes[f"blk.0.{name}.weight"] = (256,) if name.endswith("norm") else (256, 256)
    records, offset = b"", 0
    for name, shape in shapes.items():
        records += text_value(name.encode()) + struct.pack("<I", len(shape))
        records += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        records += struct.pack("<IQ", 0 if len(shape) == 1 else 8, offset)
        offset += (1024 if len(shape) == 1 else shape[0] * 272) + 31 & ~31
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys) + records
    path.write_bytes(head)
    os.truncate(path, (len(head) + 31) // 32 * 32 + offset)


class Packed(ProgramCase):
    def setUp(self):
        super().setUp()
        self.packed, self.back = self.folder / "packed.gguf", self.folder / "back.gguf"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_there_and_back(self):
        self.assertEqual(self.fine("pack", MODEL, self.packed), b"")
        self.assertEqual(self.fine("unpack", self.packed, self.back), b"")
        self.assertTrue(self.back.read_bytes() == MODEL.read_bytes())
        self.assertEqual(self.names(), ["back.gguf", "packed.gguf"])

    def test_results_are_the_stock_files(self):
        self.fine("pack", MODEL, self.packed)
        command = ("--tokens", "1,5,300,17,42", "--out", "-")
        self.assertEqual(self.fine("logits", self.packed, *command), self.fine("logits", MODEL, *command))
        command = ("-p", "Once upon a time", "-n", 20, "--seed", 7)
        self.assertEqual(self.fine("run", self.packed, *command), self.fine("run", MODEL, *command))

    def test_floats_too(self):
        self.fine("pack", LLAMA, self.packed)
        tensors = json.loads(self.fine("inspect", self.packed, "--json", "--tensors"))["tensors"]
        layouts = {tensor["name"]: (tensor["type"], tensor["layout"]) for tensor in tensors}
        self.assertEqual(layouts["blk.0.attn_q.weight"], ("f16", "p8x4"))
        self.fine("unpack", self.packed, self.back)
        command = ("--tokens", "1,5,30,17,42", "--out", "-")
        logits = self.fine("logits", LLAMA, *command)
        for model in (self.packed, self.back):
            self.assertEqual(self.fine("logits", model, *command), logits)
        self.assertEqual(self.fine("logits", LLAMA, *command, "--precise"), logits)

    def test_inspect(self):
        self.fine("pack", MODEL, self.packed)
        out, stock = (json.loads(self.fine("inspect", path, "--json")) for path in (self.packed, MODEL))
        self.assertEqual((out["layout"], stock["layout"]), ("p8x4", "rows"))
        self.assertEqual(out["keys"]["tessera.packed.version"], {"type": "u32", "value": 2})
        self.assertEqual(out["keys"]["tessera.packed.layout"]["value"], "p8x4")
        layouts = {tensor["name"]: tensor["layout"] for tensor in out["tensors"]}
        self.assertEqual((layouts["blk.0.attn_q.weight"], layouts["output_norm.weight"]), ("p8x4", "rows"))
        self.assertEqual({tensor["layout"] for tensor in stock["tensors"]}, {"rows"})
        text = self.fine("inspect", self.packed).decode()
        self.assertRegex(text, r"packed +p8x4 version 2, \d+ of \d+ tensors\n")
        self.assertRegex(text, r"blk.0.attn_q.weight .*, packed\n")
        self.assertNotIn("p8x4", self.fine("inspect", MODEL).decode())

    def test_wrong_use(self):
        self.fine("pack", MODEL, self.packed)
        self.refused(1, "pack", self.packed, self.back, says=("packed.gguf", "packed already"))
        self.refused(1, "unpack", MODEL, self.back, says=("tessera-tiny.gguf", "not packed"))
        self.refused(1, "pack", self.folder / "none", self.back, says=("none", "No such file"))
        self.refused(1, "run", self.packed, "-p", "x", "--precise", says=("packed.gguf", "unpack it first"))
        self.refused(2, "pack", MODEL, says="missing argument OUT")
        self.refused(2, "unpack", says="missing argument IN")
        self.refused(2, "pack", MODEL, self.back, "third", says="third")
        self.assertEqual(self.names(), ["packed.gguf"])

    def test_output_is_a_new_or_another_file(self):
        link, same = self.folder / "link", self.folder / "same"
        link.symlink_to(self.packed)
        same.symlink_to(MODEL)
        for out in (MODEL, same):
            self.refused(1, "pack", MODEL, out, says=("OUT", "is the input"))
        for out in ("/dev/null", "-", self.folder):
            self.refused(1, "pack", MODEL, out, says=("OUT", "the name of a file"))
        self.refused(1, "pack", MODEL, self.folder / "none/out", says=("none/out", "No such file"))
        self.packed.write_text("old")
        self.fine("pack", MODEL, link)
        self.assertTrue(link.is_symlink())
        self.fine("inspect", self.packed)
        self.assertEqual(self.names(), ["link", "packed.gguf", "same"])

    def test_full_disk_leaves_what_was_there(self):
        self.packed.write_text("old")
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))}
        self.refused(1, "pack", MODEL, self.packed, says=("packed.gguf", "too large"), **limit)
        self.assertEqual((self.packed.read_text(), self.names()), ("old", ["packed.gguf"]))

    def test_other_versions_are_refused(self):
        self.fine("pack", MODEL, self.packed)
        whole = self.packed.read_bytes()
        name = text_value(b"tessera.packed.version") + struct.pack("<I", 4)
        self.packed.write_bytes(whole.replace(name + struct.pack("<I", 2), name + struct.pack("<I", 3)))
        for command in (["run", self.packed, "-p", "x"], ["inspect", self.packed], ["unpack", self.packed, self.back]):
            self.refused(1, *command, says=("packed.gguf", "packed by another version of tessera",
                                            "expected layout p8x4 version 2", "found layout p8x4 version 3"))
        self.packed.write_bytes(whole.replace(struct.pack("<I", 0x54530108), struct.pack("<I", 0x54530208), 1))
        self.refused(1, "inspect", self.packed, says=("token_embd.weight", "another version", "layout number 2"))

    def test_cuts(self):
        self.fine("pack", MODEL, self.packed)
        whole = self.packed.read_bytes()
        for n in [*range(0, 64, 9), 5000, 100_000, 300_000, len(whole) // 2, len(whole) - 100]:
            with self.subTest(bytes=n):
                self.packed.write_bytes(whole[:n])
                self.refused(1, "run", self.packed, "-p", "x", says="packed.gguf")
                self.refused(1, "unpack", self.packed, self.back, says="packed.gguf")

    def peak_of(self, *arguments):
        """Peak resident bytes of a run that must succeed."""
        process = self.start(*arguments)
        errors = process.stderr.read()
        process.stderr.close()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, errors)
        return usage.ru_maxrss * 1024

    def test_memory_does_not_grow_with_the_file(self):
        large = self.folder / "large.gguf"
        write_large_model(large, n_vocab=300_001)
        self.assertLess(self.peak_of("pack", large, self.packed), 40 << 20)
        self.assertGreater(self.packed.stat().st_size, 80_000_000)
        self.assertLess(self.peak_of("unpack", self.packed, self.back), 40 << 20)
        with open(large, "rb") as a, open(self.back, "rb") as b:
            while piece := a.read(1 << 20):
                self.assertTrue(piece == b.read(len(piece)))
            self.assertEqual(b.read(1), b"")

    def mapped_kib(self, process):
        """The sums of /proc/PID/smaps over the mappings of the packed file, in KiB."""
        sums, ours, path = {}, False, self.packed.resolve()
        for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
            field, *rest = line.split()
            if not field.endswith(":"):
                ours = line.endswith(f" {path}")
            elif ours and rest[-1] == "kB":
                sums[field] = sums.get(field, 0) + int(rest[0])
        return sums

    def test_processes_share_the_file(self):
        self.fine("pack", MODEL, self.packed)
        size = self.packed.stat().st_size // 1024
        processes = [self.start("chat", self.packed, "-n", 1, stdin=subprocess.PIPE) for _ in range(2)]
        for process in processes:
            self.addCleanup(process.kill)
            process.stdin.write(b"Hello\n")  # the answer reads every weight; then the program waits for the next line
            process.stdin.flush()
        deadline = time.monotonic() + 60
        while True:
            sums = [self.mapped_kib(process) for process in processes]
            if all(of.get("Shared_Clean:", 0) > 0.9 * size for of in sums) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for process, of in zip(processes, sums):
            self.assertGreater(of.get("Shared_Clean:", 0), 0.9 * size, of)
            self.assertEqual(of["Private_Dirty:"], 0, of)
            _, err = process.communicate(timeout=20)
            self.assertEqual(process.returncode, 0, err)

    def test_interrupt(self):
        large = self.folder / "large.gguf"
        write_large_model(large, n_vocab=1_000_000)
        process = self.start("pack", large, self.packed)
        while process.poll() is None and not is_writing(process, self.folder):
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, err)
        self.assertIn(b"interrupted", err)
        self.assertEqual(self.names(), ["large.gguf"])


if __name__ == "__main__":
    main()
