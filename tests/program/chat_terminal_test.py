"""`tessera chat` on a terminal, driven through tmux: editing, pasting, history, Ctrl-C, colours and wide characters."""
import json
import shutil
import subprocess
import sys
import time

from program_case import ROOT, SKIPPED, ProgramCase, main

MODEL = ROOT / "models/tessera-tiny.gguf"
OPTIONS = ("--seed", 1, "-n", 12, "--ctx", 512)
SECONDS = 60


class Terminal(ProgramCase):
    def setUp(self):
        super().setUp()
        self.n_servers = 0

    def tmux(self, *arguments, check=True, **options):
        return subprocess.run(["tmux", "-S", self.folder / f"tmux{self.n_servers}", "-f", "/dev/null", *map(str, arguments)], check=check,
                              env=self.environment(XDG_STATE_HOME=self.folder / "state", LC_ALL="C.UTF-8",
                                                   TERM="xterm-256color"),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, **options).stdout.decode()

    def terminal(self, command):
        """A terminal of 70 columns and 24 rows in which a shell runs the command."""
        # A separate tmux server, because one that was told to exit may still run.
        self.n_servers += 1
        self.tmux("new-session", "-d", "-x", 70, "-y", 24, command)
        self.addCleanup(self.tmux, "kill-server", check=False)

    def command(self, *options):
        return " ".join(f"'{word}'" for word in (self.program, "chat", *(options or (MODEL, *OPTIONS))))

    def chat(self, *options, term=None):
        """A chat in a terminal, at its first prompt; the shell prints its exit status at the end."""
        given = f"TERM={term} " if term else ""
        # Ctrl-C reaches the shell, too, and must not end it.
        self.terminal(f"trap : INT; {given}{self.command(*options)}; echo \"left with $?\"; read x")
        self.prompted()

    def prompted(self):
        return self.until(lambda screen: screen.rstrip().endswith("\n>"))

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", "-J", *options)

    def until(self, wanted):
        """The screen as soon as the condition holds."""
        end = time.monotonic() + SECONDS
        while not wanted(screen := self.screen()):
            if time.monotonic() > end:
                self.fail("the screen never met the condition:\n" + screen)
            time.sleep(0.05)
        return screen

    def sees(self, text):
        return self.until(lambda screen: text in screen)

    def type(self, text):
        self.tmux("send-keys", "-l", "--", text)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def saved(self):
        path = self.folder / "talk.json"
        self.type(f"/save {path}")
        self.press("Enter")
        self.until(lambda _: path.exists())
        return json.loads(path.read_text())["messages"]

    def test_editing_wide_characters(self):
        self.chat()
        self.type("世界 caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{GRINNING FACE}x")
        self.press("BSpace", "Home", "Delete")
        self.sees("> 界 café \N{GRINNING FACE}")
        self.press("Enter")
        self.sees("cut at 12 tokens")
        self.assertEqual(self.saved()[0]["content"], "界 café \N{GRINNING FACE}")

    def test_keys_of_another_terminal(self):
        # tmux sends its own Home and End keys for any TERM.
        self.chat(term="xterm-256color")
        self.type("bc e")
        self.press("Home")
        self.type("a")
        self.press("End")
        self.type("f")
        self.press("C-Left")
        self.type("d")
        self.press("Home", "Delete")
        self.sees("> bc def")

    def test_a_paste_is_one_message(self):
        self.chat()
        self.tmux("set-buffer", "first line\nsecond\tline\n\nfourth")
        self.tmux("paste-buffer", "-p")
        self.sees("fourth")
        self.type("!")
        self.press("Enter")
        self.sees("cut at 12 tokens")
        self.assertEqual(self.saved()[0]["content"], "first line\nsecond\tline\n\nfourth!")

    def test_history_lives_on(self):
        self.chat()
        for line in ("One", '"""', "two", 'lines"""'):
            self.type(line)
            self.press("Enter")
        self.until(lambda screen: screen.count("cut at 12 tokens") == 2)
        self.press("C-d")
        self.sees("left with 0")
        history = self.folder / "state/tessera/history"
        self.assertEqual(history.read_text(), "One\ntwo\\nlines\n")
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)
        self.tmux("kill-server")
        self.chat()
        self.press("Up", "Up")
        self.sees("> One")

    def test_interrupt_stops_an_answer_and_a_second_leaves(self):
        self.chat(MODEL, "--temp", 0, "--ctx", 100000, "--logit-bias", "2-inf,4-inf")
        self.type("Hello")
        self.press("Enter")
        self.until(lambda screen: len(screen.split("> Hello", 1)[-1].strip()) > 40)
        self.press("C-c")
        self.sees("Stopped.")
        self.press("C-c")
        self.sees("left with 0")

    def test_interrupt_at_the_prompt(self):
        self.chat()
        self.type("not this")
        self.press("C-c")
        self.sees("Ctrl-C once more leaves")
        self.type("/tokens")
        self.press("Enter")
        self.sees("0 of 512 positions")
        self.press("C-c")
        self.until(lambda screen: screen.count("once more leaves") == 2)
        self.press("C-c")
        self.sees("left with 0")

    def test_stopped_and_gone_on_with(self):
        self.terminal("PS1='shell> ' bash --noprofile --norc -i")
        self.sees("shell>")
        self.type("exec 2>&1; " + self.command(MODEL, "--temp", 0, "--ctx", 100000, "--logit-bias", "2-inf,4-inf"))
        self.press("Enter")
        self.prompted()

        def stop_and_go():
            self.press("C-z")
            self.until(lambda screen: screen.rstrip().endswith("shell>"))
            self.type("clear; stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo -e isig | sort | xargs echo modes")
            self.press("Enter")
            self.sees("modes echo icanon isig")
            self.type("fg")
            self.press("Enter")

        self.type("What is")
        stop_and_go()
        self.sees("> What is")
        self.type(" it?")
        self.press("Enter")
        self.until(lambda screen: len(screen.split("> What is it?", 1)[-1].strip()) > 40)
        stop_and_go()
        self.until(lambda screen: len(screen.split("fg\n", 1)[-1].strip()) > 200)
        self.press("C-c")
        self.sees("Stopped.")
        self.assertEqual(self.saved()[0]["content"], "What is it?")

    def test_dumb_terminal(self):
        self.chat(term="dumb")
        self.type("One")
        self.press("Enter")
        self.sees("cut at 12 tokens")
        self.type("not this")
        self.press("C-c")
        self.until(lambda screen: "\nCtrl-C once more leaves" in screen)
        self.assertNotIn("\x1b", self.screen("-e"))
        self.assertEqual([m["content"] for m in self.saved()[::2]], ["One"])
        self.press("C-d")
        self.until(lambda screen: "\nleft with 0" in screen)

    def test_reasoning_is_dim(self):
        template = self.folder / "reasons.jinja"
        template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                            "{% if add_generation_prompt %}assistant: <think>\n\n{% endif %}")
        self.chat(MODEL, *OPTIONS, "--chat-template", template)
        self.type("One")
        self.press("Enter")
        self.sees("cut at 12 tokens")
        answer = self.screen("-e").split("One", 1)[1].split("The answer was cut")[0]
        self.assertIn("\x1b[2m", answer)

    def test_a_full_context_is_told(self):
        self.chat(MODEL, "--temp", 0, "--ctx", 64, "--logit-bias", "2-inf,4-inf")
        self.type("One")
        self.press("Enter")
        self.sees("The context of 64 positions is full")
        self.type("And then?")
        self.press("Enter")
        self.sees("error: the context is full")
        self.type("/undo")
        self.press("Enter")
        self.sees("Back to before: One")

    def test_edit_begins_with_the_old_text(self):
        self.chat()
        self.type("Who was she?")
        self.press("Enter")
        self.sees("cut at 12 tokens")
        self.type("/edit")
        self.press("Enter")
        self.sees("edit > Who was she?")
        self.press("BSpace")
        self.type(" really?")
        self.press("Enter")
        self.until(lambda screen: screen.count("cut at 12 tokens") == 2)
        self.assertEqual([m["content"] for m in self.saved()[::2]], ["Who was she?", "Who was she really?"])

    def test_tab_completes_commands(self):
        self.chat()
        self.type("/br")
        self.press("Tab")
        self.sees("> /branch")
        self.type("es")
        self.press("Enter")
        self.sees("The conversation is empty.")

    def test_colours(self):
        self.chat()
        self.assertIn("\x1b[36m", self.screen("-e"))
        self.tmux("kill-server")
        self.chat(MODEL, *OPTIONS, "--no-color")
        self.assertNotIn("\x1b", self.screen("-e"))

    def test_no_text_moves_the_cursor(self):
        path = self.folder / "talk.json"
        message = {"parent": -1, "role": "user", "content": "\x1b[2J\x07 \u009b2J"}
        answer = {"parent": 0, "role": "assistant", "content": "fine"}
        path.write_text(json.dumps({"format": "tessera-chat", "version": 1, "started": "2026-08-22T10:20:30",
                                    "settings": {}, "messages": [message, answer], "here": 1}))
        self.chat(MODEL, "--load", path)
        self.type("/show")
        self.press("Enter")
        self.sees("> \\x1B[2J\\x07 \\xC2\\x9B2J")


if __name__ == "__main__":
    if not shutil.which("tmux"):
        print("tmux is not installed (scripts/setup.sh --test installs it)")
        sys.exit(SKIPPED)
    main()
