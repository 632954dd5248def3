"""Results do not depend on threads, batches, chunks or the instruction set, and match the reference."""
import json
import resource
import subprocess

from program_case import DATA, LLAMA, MODELS, ProgramCase, main, nmse, read_logits

TOKENS = "1,5,300,17,42,301,400,77,3,511,260,33,280,290,310,8"
# Bounds on the error for an F32 and an F16 cache. The reference kept floats in its cache; halves cost 1e-7.
BOUNDS = {name: (1e-9, 1e-6) for name in ("llama", "llama3", "nemo", "mixtral")}


class Logits(ProgramCase):
    def logits(self, *options, model=LLAMA, **env):
        return self.fine("logits", model, "--tokens", TOKENS, "--out", "-", *options, env=env)

    def isas(self):
        return [isa["name"] for isa in json.loads(self.fine("info", "--json"))["isas"] if isa["usable"]]

    def test_reference(self):
        for name, bounds in BOUNDS.items():
            reference = read_logits((DATA / f"logits/{name}.logits").read_bytes())
            for kv, bound in zip(("f32", "f16"), bounds):
                with self.subTest(model=name, kv=kv):
                    found = read_logits(self.logits("--kv", kv, model=MODELS / f"{name}.gguf"))
                    self.assertEqual(found[:2], (16, 512))
                    self.assertLess(nmse(found[2], reference[2]), bound)

    def test_same_bits(self):
        expected = self.logits("-t", 1)
        for isa in self.isas():
            for options in (["-t", 1], ["-t", 2], ["-t", 5], ["--batch", 1], ["--batch", 7], ["--batch", 512]):
                with self.subTest(isa=isa, options=options):
                    self.assertEqual(self.logits(*options, TESSERA_ISA=isa), expected)

    def test_same_text(self):
        command = ("run", LLAMA, "-p", "Once upon a time", "-n", 40, "--seed", 7, "--ignore-eos")
        expected = self.fine(*command, "-t", 1)
        for isa in self.isas():
            for options in (["-t", 1], ["-t", 2], ["--batch", 1], ["--batch", 3]):
                with self.subTest(isa=isa, options=options):
                    self.assertEqual(self.fine(*command, *options, env={"TESSERA_ISA": isa}), expected)


class LogitsFile(ProgramCase):
    COMMAND = ("logits", LLAMA, "--tokens", TOKENS, "--out")

    def test_replaces_a_file_also_through_a_link(self):
        target, link = self.folder / "target", self.folder / "link"
        target.write_text("old")
        link.symlink_to(target)
        self.fine(*self.COMMAND, link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(read_logits(target.read_bytes())[:2], (16, 512))
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["link", "target"])

    def test_failure_leaves_nothing(self):
        self.refused(1, "logits", LLAMA, "--tokens", "1,512", "--out", self.folder / "out", says=("token 1", "512"))
        self.refused(1, *self.COMMAND, self.folder / "none/out", says="none/out")
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))}
        self.refused(1, *self.COMMAND, self.folder / "out", says=("out", "too large"), **limit)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_full_device(self):
        self.refused(1, *self.COMMAND, "/dev/full", says=("/dev/full", "No space left"))
        with open("/dev/full", "wb") as full:
            self.refused(1, *self.COMMAND, "-", says="No space left", stdout=full)

    def test_device_stays_a_device(self):
        self.fine(*self.COMMAND, "/dev/null")
        with open("/dev/null", "rb") as null:
            self.assertEqual(null.read(), b"")
        self.assertEqual(subprocess.run(["test", "-c", "/dev/null"]).returncode, 0)


if __name__ == "__main__":
    main()
