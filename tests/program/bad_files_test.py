"""Malformed model files: status 1 with an error that names the cause, or a result if the command does not need the
malformed part. Never a signal."""
import resource

from program_case import LLAMA, MODELS, ProgramCase, main

BAD = MODELS / "bad"

# file: a part of the errors of inspect, logits and tokenize; None: the command must succeed
FILES = {
    "alignstr": ("general.alignment",) * 3,
    "blkhuge": (None, "llama.block_count", None),
    "bosoob": (None, None, "tokenizer.ggml.bos_token_id"),
    "ctx0": (None, "llama.context_length", None),
    "dupbig": (None, "llama.expert_used_count", None),
    "eosneg": (None, None, None),
    "hc0": (None, "llama.attention.head_count", None),
    "hkv0": (None, "llama.attention.head_count_kv", None),
    "hkv3": (None, "llama.attention.head_count_kv", None),
    "keys80000": (None, "llama.block_count", "tokenizer.ggml.model"),
    "noscores": (None, None, None),
    "ok": (None, None, None),
    "ropezero": (None, "llama.rope.dimension_count", None),
    "trunc": ("token_embd.weight",) * 3,
    "zerodim": ("token_embd.weight",) * 3,
}


class BadFiles(ProgramCase):
    def check(self, column, *command):
        for name, answers in FILES.items():
            with self.subTest(file=name):
                path = BAD / f"{name}.gguf"
                arguments = [path if argument is None else argument for argument in command]
                if answers[column] is None:
                    self.fine(*arguments)
                else:
                    self.refused(1, *arguments, says=(answers[column], path.name))

    def test_list_is_complete(self):
        self.assertEqual(sorted(path.stem for path in BAD.glob("*.gguf")), sorted(FILES))

    def test_inspect(self):
        self.check(0, "inspect", None)

    def test_inspect_json(self):
        self.check(0, "inspect", None, "--json")

    def test_logits(self):
        self.check(1, "logits", None, "--tokens", 1, "--out", self.folder / "logits")

    def test_tokenize(self):
        self.check(2, "tokenize", None, "hi")

    def test_many_keys_take_linear_time(self):
        def seconds():  # of CPU time, so that other programs do not count
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.fine("inspect", BAD / "keys80000.gguf")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertLess(min(seconds() for _ in range(5)), 0.2)

    def test_every_cut_of_a_model(self):
        whole = LLAMA.read_bytes()
        cut = self.folder / "cut.gguf"
        for n in [*range(0, 64, 7), 1000, 9000, 20000, len(whole) // 2, len(whole) - 1]:
            with self.subTest(bytes=n):
                cut.write_bytes(whole[:n])
                self.refused(1, "inspect", cut, says="cut.gguf")

    def test_no_file(self):
        self.refused(1, "inspect", self.folder / "none.gguf", says=("none.gguf", "No such file"))
        self.refused(1, "run", self.folder, "-p", "x", says="is a directory")


if __name__ == "__main__":
    main()
