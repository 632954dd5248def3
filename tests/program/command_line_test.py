"""The command line: help, spellings of options, habits from other programs, and the answers to mistakes."""
import json
import os
import pty
import re
import select

from program_case import LLAMA, TINY, ProgramCase, main

COMMANDS = ("run", "chat", "serve", "inspect", "plan", "tokenize", "detokenize", "template", "program", "convert", "quantize",
            "imatrix", "pack", "unpack", "split", "merge", "diff", "hash", "bench", "perplexity", "logits", "info",
            "npu devices", "npu calibrate", "npu compile", "npu inspect", "npu report")


class Help(ProgramCase):
    def test_commands_stand_in_groups(self):
        text = self.fine("--help").decode()
        self.assertEqual(text, self.fine("help").decode())
        titles = [line for line in text.split("\n") if line.endswith(":") and not line.startswith(" ")]
        self.assertEqual(titles, ["Generate text:", "Look at a model:", "Make model files:", "Measure:", "Emulated NPU:",
                                  "Options:", "Environment:", "Exit status:", "Examples:"])
        for command in COMMANDS:
            self.assertRegex(text, rf"\n  {command} +[a-zA-Z]")

    def test_help_of_a_command_has_a_short_and_a_long_form(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                words = command.split()
                short = self.fine(*words, "--help").decode()
                self.assertEqual(self.fine(*words, "-h").decode(), short)
                long = self.fine("help", *words).decode()
                for text in (short, long):
                    self.assertIn(f"Usage: tessera {command} [OPTIONS]", text)
                    self.assertLessEqual(max(map(len, text.split("\n"))), 100, text)
                if "--help-all" in short:
                    self.assertEqual(self.fine(*words, "--help-all").decode(), long)
                    n_hidden = int(re.search(r"\n(\d+) more options", short)[1])
                    listed = re.compile(r"^  (?:-\w, )?(?:    )?--[a-z]", re.M)
                    self.assertEqual(len(listed.findall(short)) + n_hidden, len(listed.findall(long)))
                else:
                    self.assertEqual(short, long)
        run = self.fine("run", "--help").decode()
        self.assertLess(run.count("\n"), 50)
        self.assertIn("(-1 or more; default: 256)", run)
        self.assertNotIn("--mirostat", run)
        self.assertIn("--mirostat", self.fine("run", "--help-all").decode())

    def test_all_of_it_at_once(self):
        text = self.fine("help", "--all").decode()
        self.assertEqual(text, self.fine("--help-all").decode())
        for command in COMMANDS:
            self.assertIn(self.fine("help", *command.split()).decode(), text)
        markdown = self.fine("help", "--markdown").decode()
        for command in COMMANDS:
            self.assertIn(f"\n## tessera {command}\n", markdown)
        self.assertIn("| `--temp X` | ", markdown)
        # The same with and without a terminal of some width.
        self.assertEqual(self.fine("help", "--markdown", env={"COLUMNS": 60}).decode(), markdown)

    def test_families_and_unknown_names(self):
        self.assertIn(b"npu compile", self.fine("help", "npu"))
        self.assertEqual(self.fine("npu", "--help"), self.fine("help", "npu"))
        self.refused(2, "help", "rnu", says="did you mean 'run'?")
        self.refused(2, "npu", "list", says="expected npu devices")

    def test_version(self):
        for word in ("--version", "-V", "version"):
            self.assertRegex(self.fine(word).decode(), r"^tessera \d+\.\d+\.\d+\n$")


class Spelling(ProgramCase):
    RUN = ("run", LLAMA, "-p", "x", "-n", 2)

    def test_short_options_are_whole_words(self):
        self.refused(2, "run", "-hf", "org/model", says=("-hf: tessera downloads no models", "GGUF"))
        self.refused(2, *self.RUN, "-ngl", 99, says=("-ngl: ", "CPU"))
        self.refused(2, *self.RUN, "-t4", says=("unknown option -t4", "-t 4"))
        self.refused(2, "run", "-hx", says="unknown option -hx")

    def test_hints(self):
        self.refused(2, *self.RUN, "--temprature", 1, says=("unknown option --temprature", "did you mean --temp?"))
        self.refused(2, *self.RUN, "--thread=3", says="did you mean --threads?")
        self.refused(2, *self.RUN, "--n-predikt", 3, says="did you mean --n-predict?")
        self.refused(2, *self.RUN, "--frobnicate", says="unknown option --frobnicate\n")

    def test_an_unknown_option_comes_before_missing_arguments(self):
        for command in ("diff", "hash", "split", "merge", "pack", "unpack", "convert", "quantize", "npu inspect"):
            with self.subTest(command=command):
                message = self.refused(2, *command.split(), "--frobnicate", says="unknown option --frobnicate")
                self.assertTrue(message.startswith(f"tessera {command}: "), message)
        self.refused(2, "diff", says=("missing argument A", "Usage: tessera diff [OPTIONS] A B"))
        self.refused(2, "diff", "a", says="missing argument B")
        self.refused(2, "diff", "a", "b", "c", says="unexpected argument 'c'")

    def test_values(self):
        self.refused(2, *self.RUN, "--n-predict", says="-n/--n-predict needs a value: N")
        self.refused(2, *self.RUN, "--json=yes", says="--json takes no value, found 'yes'")
        self.refused(2, *self.RUN, "--kv", "q9", says=("--kv: expected one of", "f16", "q8_0", "found 'q9'"))
        self.fine(*self.RUN, "--n-predict=1", "--temp=0")
        self.fine("run", LLAMA, "-n", 1, "--", "-x y")
        self.fine("run", LLAMA, "-n", 1, "-p", "--temp")  # a value may look like an option

    def test_one_name_is_mentioned_when_one_was_given(self):
        self.refused(2, *self.RUN, "--tools", "x.json", says="--tools needs --chat")
        self.refused(2, *self.RUN, "--system", "x", says="--system needs --chat")

    def test_commands_of_others(self):
        for word, hint in (("pull", "downloads no models"), ("list", "a model is a GGUF file"), ("show", "'inspect'"),
                           ("server", "'serve'"), ("generate", "'run'"), ("embed", "/v1/embeddings"),
                           ("rnu", "did you mean 'run'?")):
            self.refused(2, word, says=(f"unknown command '{word}'", hint))
        self.refused(2, LLAMA, says="did you mean 'tessera run ")
        self.refused(2, "--verbose", says=("unknown option '--verbose'", "behind a command"))
        self.refused(2, "-m", LLAMA, says="behind a command")


class Habits(ProgramCase):
    """Options of llama.cpp's programs."""

    def json(self, *arguments):
        out = json.loads(self.fine("run", *arguments, "--json", "--temp", 0, "--ignore-eos"))
        return out["tokens"], out["prompt_tokens"]

    def test_accepted(self):
        plain = self.json(LLAMA, "Once", "-n", 5)
        for habits in (("-m", LLAMA, "-p", "Once", "-n", 5), ("--model", LLAMA, "Once", "-n", 5),
                       (LLAMA, "Once", "--predict", 5, "-c", 64, "-t", 2, "-b", 16, "-ub", 8, "-fa", "on"),
                       (LLAMA, "Once", "-n", 5, "-fa", "-ngl", 0, "--mmap", "--no-warmup", "-s", 3, "--top-nsigma", -1),
                       (LLAMA, "Once", "-n", 5, "--flash-attn", "auto", "--no-display-prompt", "--temperature", 0)):
            with self.subTest(habits=habits[2:]):
                self.assertEqual(self.json(*habits), plain)
        self.assertEqual(self.json(LLAMA, "Once", "-n", 5, "-ctk", "q8_0"), self.json(LLAMA, "Once", "-n", 5, "--kv", "q8_0,f16"))
        self.assertEqual(self.json(LLAMA, "Once", "-n", 5, "-ctk", "q8_0", "--cache-type-v", "f32"),
                         self.json(LLAMA, "Once", "-n", 5, "--kv", "q8_0,f32"))
        schema = self.folder / "schema.json"
        schema.write_text('{"enum": ["a", "b"]}')
        run = ("run", LLAMA, "Once", "--temp", 0)
        self.assertEqual(self.fine(*run, "-jf", schema), self.fine(*run, "--json-schema", f"@{schema}"))

    def test_answered_by_name(self):
        for option, hint in (("--mlock", "tessera plan"), ("--no-mmap", "always mapped"), ("--lora x", "no adapters"),
                             ("--mmproj x", "text only"), ("-md x", "speculative"), ("-tb 3", "give -t"),
                             ("--rope-freq-base 5", "--override-kv"), ("-sm row", "CPU"), ("--numa numactl", "numactl"),
                             ("-fa off", "-fa: "), ("--cpu-mask f", "taskset"), ("--prompt-cache x", "--load"),
                             ("-hff x", "downloads no models"), ("--keep", "--ctx")):
            with self.subTest(option=option):
                name = option.split()[0]
                self.refused(2, "run", LLAMA, "-p", "x", *option.split(), says=(f"{name}: ", hint))
        self.refused(2, "serve", LLAMA, "--api-key", "x", says="TESSERA_API_KEY")
        # Options that other commands have are unknown where they mean nothing.
        self.refused(2, "hash", LLAMA, "--temperature", 1, says="unknown option --temperature")
        self.refused(2, "hash", LLAMA, "--jinja", says="unknown option --jinja")


class Prompts(ProgramCase):
    COMMON = ("-n", 6, "--temp", 0, "--ignore-eos")

    def test_behind_the_model(self):
        text = self.fine("run", LLAMA, *self.COMMON, "-p", "The captain")
        self.assertEqual(self.fine("run", LLAMA, "The captain", *self.COMMON), text)
        self.assertEqual(self.fine("run", *self.COMMON, LLAMA, "The captain"), text)
        self.assertEqual(self.fine("run", LLAMA, "-", *self.COMMON, stdin=b"The captain"), text)
        self.refused(2, "run", LLAMA, "a", "-p", "b", says="found 2")

    def test_in_the_place_of_the_model(self):
        message = self.refused(2, "run", "Once upon a time", says=("No such file", "MODEL stands before the prompt", "run -p"))
        self.assertIn("tessera run: ", message)
        self.refused(2, "run", "nosuch.gguf", says="cannot open 'nosuch.gguf': No such file")
        self.refused(1, "run", "meta-llama/Llama-3.2-1B", "x", says=("No such file", "tessera downloads no models"))

    def test_escapes(self):
        def ids(*arguments):
            return json.loads(self.fine("tokenize", LLAMA, *arguments, "--json"))["ids"]
        self.assertEqual(ids("-e", r"a\n\tb\x41"), ids("a\n\tbA"))
        self.assertNotEqual(ids(r"a\nb"), ids("a\nb"))
        run = ("run", LLAMA, *self.COMMON, "--json")
        self.assertEqual(json.loads(self.fine(*run, "-e", r"a\nb"))["tokens"], json.loads(self.fine(*run, "a\nb"))["tokens"])

    def test_a_folder_is_told_from_a_model(self):
        (self.folder / "config.json").write_text("{}")
        self.refused(1, "run", self.folder, "x", says=("is a directory, expected a GGUF file", "tessera convert"))
        self.refused(1, "inspect", self.folder, says="is a directory")
        empty = self.folder / "empty"
        empty.mkdir()
        self.refused(1, "convert", empty, "--dry-run", says="not a Hugging Face folder")

    def test_a_terminal_without_a_prompt_is_a_chat(self):
        for arguments in ((LLAMA,), (LLAMA, "--temp", "0", "--chat"), (LLAMA, "-cnv"), ("-m", LLAMA, "-i")):
            with self.subTest(arguments=arguments[1:]):
                seen = self.on_a_terminal("run", *arguments)
                self.assertIn(b"/help", seen)
        self.assertIn(b"unknown option --json", self.on_a_terminal("run", LLAMA, "--json"))
        self.assertIn(b"without a prompt is a chat", self.on_a_terminal("run", LLAMA, "--json"))

    def on_a_terminal(self, *arguments):
        """Everything that is shown until the end of input."""
        leader, terminal = pty.openpty()
        process = self.start(*arguments, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        seen = b""
        try:
            while True:
                # Ctrl-D once nothing more comes: before the line editor runs it would be lost.
                if not select.select([leader], [], [], 0.5)[0]:
                    os.write(leader, b"\x04")
                elif chunk := os.read(leader, 4096):
                    seen += chunk
                else:
                    break
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
        os.close(leader)
        process.wait(timeout=20)
        return seen


class Reports(ProgramCase):
    def test_every_report_has_json(self):
        prefix, packed, back = self.folder / "part", self.folder / "packed.gguf", self.folder / "back.gguf"
        split = json.loads(self.fine("split", TINY, prefix, "--max-tensors", 9, "--json"))
        self.assertEqual([part["path"] for part in split["parts"]], sorted(str(p) for p in self.folder.glob("part-*")))
        planned = json.loads(self.fine("split", TINY, prefix, "--max-tensors", 9, "--json", "--dry-run"))
        self.assertEqual([part["tensors"] for part in planned["parts"]], [part["tensors"] for part in split["parts"]])
        self.assertNotIn("path", planned["parts"][0])
        merged = json.loads(self.fine("merge", split["parts"][0]["path"], back, "--json"))
        self.assertEqual((merged["out"], merged["parts"]), (str(back), len(split["parts"])))
        found = json.loads(self.fine("pack", TINY, packed, "--json"))
        self.assertEqual((found["bytes_in"], found["bytes"]), (TINY.stat().st_size, packed.stat().st_size))
        found = json.loads(self.fine("unpack", packed, back, "--json"))
        self.assertEqual(found["bytes"], TINY.stat().st_size)
        text = self.folder / "text"
        text.write_text("The captain went down to the sea. " * 40)
        found = json.loads(self.fine("imatrix", LLAMA, "-f", text, "-o", self.folder / "i.gguf", "-c", 64, "--json"))
        self.assertEqual(found["chunk_size"], 64)
        found = json.loads(self.fine("logits", LLAMA, "--tokens", "1,2,3", "--out", self.folder / "l", "--json"))
        self.assertEqual((found["n_tok"], found["n_vocab"]), (3, 512))
        self.refused(2, "logits", LLAMA, "--tokens", 1, "--out", "-", "--json", says="--json needs standard output")
        self.assertNotIn("tensors", json.loads(self.fine("hash", LLAMA, "--whole", "--json")))

    def test_overrides_must_match(self):
        out = self.folder / "out.gguf"
        self.refused(1, "quantize", TINY, out, "Q8_0", "--override", "no_such=q4_0", says=("'no_such'", "matches none"))
        self.fine("quantize", TINY, out, "Q8_0", "--override", "ffn_down=q4_0")
        run = ("run", LLAMA, "-p", "x", "-n", 1)
        self.refused(1, *run, "--override-kv", "llama.rope.freq_bas=float:5",
                     says=("no such key", "did you mean 'llama.rope.freq_base'?"))
        self.fine(*run, "--override-kv", "+no.such.key=int:1")


if __name__ == "__main__":
    main()
