"""`tessera chat` on a terminal, driven through tmux: editing, pasting, history, Ctrl-C, colours and wide characters."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from program_case import ROOT, SKIPPED, ProgramCase, main

MODEL = ROOT / "models/tessera-tiny.gguf"
OPTIONS = ("--seed", 1, "-n", 12, "--ctx", 512)
SECONDS = 60


class Terminal(ProgramCase):
    columns = 70

    def setUp(self):
        super().setUp()
        self.n_servers = 0

    def tmux(self, *arguments, check=True, server=None, **options):
        return subprocess.run(["tmux", "-S", self.folder / f"tmux{server or self.n_servers}", "-f", "/dev/null", *map(str, arguments)], check=check,
                              env=self.environment(XDG_STATE_HOME=self.folder / "state", LC_ALL="C.UTF-8",
                                                   TERM="xterm-256color"),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, **options).stdout.decode()

    def terminal(self, command):
        """A terminal of 70 columns and 24 rows in which a shell runs the command."""
        # A separate tmux server, because one that was told to exit may still run.
        self.n_servers += 1
        # An endless answer of empty lines must not push its question out of the history.
        self.tmux("start-server", ";", "set-option", "-g", "history-limit", 200000, ";",
                  "new-session", "-d", "-x", self.columns, "-y", 24, command)
        self.addCleanup(self.tmux, "kill-server", check=False, server=self.n_servers)

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
        """Lines may be broken between words."""
        return self.until(lambda screen: text in screen or text in " ".join(screen.split()))

    def kept(self):
        """The conversations that were kept automatically."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "state/tessera/chats").glob("*.json"))]

    def say(self, text):
        self.type(text)
        self.press("Enter")

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
        self.sees("Stopped after 12 tokens")
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
        self.sees("Stopped after 12 tokens")
        self.assertEqual(self.saved()[0]["content"], "first line\nsecond\tline\n\nfourth!")

    def test_history_lives_on(self):
        self.chat()
        for line in ("One", '"""', "two", 'lines"""'):
            self.type(line)
            self.press("Enter")
        self.until(lambda screen: screen.count("Stopped after 12 tokens") == 2)
        self.press("C-d")
        self.sees("left with 0")
        history = self.folder / "state/tessera/history"
        self.assertEqual(history.read_text(), "One\ntwo\\nlines\n")
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)
        self.tmux("kill-server")
        self.chat()
        self.press("Up", "Up")
        self.sees("> One")

    ENDLESS = (MODEL, "--temp", 0, "--ctx", 100000, "--logit-bias", "2-inf,4-inf")

    def begin_answer(self, question="Hello"):
        self.say(question)
        self.until_answered(question)

    def until_answered(self, question):
        """Until a part of the answer is shown. A fast machine may have scrolled the question off the screen."""
        self.until(lambda _: len(self.screen("-S", "-").partition("> " + question)[2].strip()) > 40)

    def test_interrupt_stops_an_answer(self):
        self.chat(*self.ENDLESS)
        self.begin_answer()
        self.press("C-c")
        screen = self.sees("Stopped.")
        self.assertNotIn("^C", screen)
        # These come so soon that they were meant for the answer.
        self.press("C-c", "C-c")
        self.sees("Ctrl-C twice on an empty line leaves")
        self.say("/tokens")
        self.sees("of 100000 tokens")
        self.assertNotIn("left with", self.screen())

    def test_interrupt_on_a_line_with_text_only_removes_it(self):
        self.chat()
        for text in ("not this", "nor this", "nor that"):
            self.type(text)
            self.sees("> " + text)
            self.press("C-c")
            self.sees(f"> {text}^C")
        self.say("/tokens")
        screen = self.sees("0 of 512 tokens")
        self.assertNotIn("Ctrl-C twice", screen)

    def test_two_interrupts_on_an_empty_line_leave(self):
        self.chat()
        self.press("C-c")
        self.sees("Ctrl-C twice on an empty line leaves, as do Ctrl-D and /exit.")
        # Too late for the first one.
        time.sleep(2.1)
        self.press("C-c")
        self.until(lambda screen: screen.count("Ctrl-C twice") == 2)
        self.type("x")
        self.sees("> x")
        self.press("C-c")
        self.press("C-c")
        self.until(lambda screen: screen.count("Ctrl-C twice") == 3)
        self.press("C-c")
        self.sees("left with 0")

    def test_a_conversation_is_kept_and_found_again(self):
        self.chat()
        self.say("One")
        self.sees("Stopped after 12 tokens")
        self.press("C-d")
        self.sees("Kept: `tessera chat --continue`, or /load in a chat, continues this conversation.")
        folder = self.folder / "state/tessera/chats"
        self.assertEqual([path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())], [0o700, 0o600])
        self.tmux("kill-server")
        self.chat(MODEL, *OPTIONS, "--continue")
        self.sees("1 turn")
        self.say("Two")
        self.sees("Stopped after 12 tokens")
        self.say("/clear")
        self.sees("/load without a file goes back to the last one.")
        self.say("/load")
        self.sees("2 turns")
        self.press("C-d")
        self.sees("left with 0")
        self.assertNotIn("Kept:", self.screen())
        self.assertEqual([[m["content"] for m in talk["messages"][::2]] for talk in self.kept()], [["One", "Two"]])

    def test_autosave_can_be_switched_off(self):
        self.chat(MODEL, *OPTIONS, "--no-autosave", "--no-history")
        self.say("One")
        self.sees("Stopped after 12 tokens")
        self.say("/bye")
        self.sees("The conversation was not saved.")
        self.assertFalse((self.folder / "state").exists())

    def test_the_oldest_conversations_go(self):
        folder = self.folder / "state/tessera/chats"
        folder.mkdir(parents=True)
        for i in range(25):
            (folder / f"{i}.json").write_text("{}")
            os.utime(folder / f"{i}.json", (i, i))
        (folder / "x.json.999999999.new").write_text("of a process that was killed")
        self.chat()
        self.say("One")
        self.sees("Stopped after 12 tokens")
        self.assertEqual(len(list(folder.iterdir())), 20)
        self.assertFalse((folder / "5.json").exists())

    def chat_process(self):
        """Process id of the chat."""
        return int(self.tmux("display-message", "-p", "#{pane_pid}"))

    def test_an_answer_outlives_signals(self):
        for name in ("KILL", "TERM", "HUP"):
            with self.subTest(name):
                self.terminal(f"exec {self.command(*self.ENDLESS)}")
                self.tmux("set-option", "-g", "remain-on-exit", "on")
                self.prompted()
                self.begin_answer("Say " + name)
                talks = self.until_kept("Say " + name)
                os.kill(self.chat_process(), getattr(signal, "SIG" + name))
                self.until(lambda _: self.tmux("display-message", "-p", "#{pane_dead}").strip() == "1")
                talk = next(t for t in self.kept() if t["messages"][0]["content"] == "Say " + name)
                self.assertEqual(talk["messages"][1]["cut"], "interrupt")
                self.assertGreaterEqual(len(talk["messages"][1]["content"]), len(talks["messages"][1]["content"]))
                self.assertGreater(len(talk["messages"][1]["content"]), 20)
                self.tmux("kill-server")
        self.assertEqual(list((self.folder / "state/tessera/chats").glob("*.new")), [])

    def until_kept(self, question):
        """The kept conversation once it has a part of the answer to the question."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for talk in self.kept():
                if talk["messages"][0]["content"] == question and len(talk["messages"][1]["content"]) > 20:
                    return talk
            time.sleep(0.05)
        self.fail("the answer was not kept")

    def test_a_disk_that_is_full(self):
        # No file may grow, as if there were no room.
        self.terminal(f"ulimit -f 0; {self.command()}; echo \"left with $?\"; read x")
        self.prompted()
        self.say("One")
        screen = self.sees("Stopped after 12 tokens")
        self.assertEqual(screen.count("cannot keep the conversation") + screen.count("cannot write to"), 2, screen)
        self.press("C-d")
        self.sees("The conversation was not saved.")
        self.sees("left with 0")
        self.assertEqual(list((self.folder / "state/tessera/chats").iterdir()), [])

    def test_text_typed_ahead_waits_for_the_prompt(self):
        self.chat(*self.ENDLESS)
        self.begin_answer()
        self.type("ahead of time")
        before = self.screen()
        self.until(lambda screen: screen != before)
        self.assertNotIn("ahead of time", self.screen())
        self.press("Enter")
        # Ctrl-C would remove it, so that the answer is stopped by a signal that only this process gets.
        os.kill(int(subprocess.run(["pgrep", "-P", str(self.chat_process())], stdout=subprocess.PIPE, check=True).stdout.split()[0]),
                signal.SIGINT)
        self.until_answered("ahead of time")
        self.press("C-c")
        self.assertEqual([m["content"] for m in self.saved()[::2]], ["Hello", "ahead of time"])

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
        self.until_answered("What is it?")
        stop_and_go()
        self.until(lambda screen: len(screen.split("fg\n", 1)[-1].strip()) > 200)
        self.press("C-c")
        self.sees("Stopped.")
        self.assertEqual(self.saved()[0]["content"], "What is it?")

    def test_dumb_terminal(self):
        self.chat(term="dumb")
        self.type("One")
        self.press("Enter")
        self.sees("Stopped after 12 tokens")
        self.type("not this")
        self.press("C-c")
        self.until(lambda screen: "\nCtrl-C twice on an empty line leaves" in screen)
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
        self.sees("Stopped after 12 tokens")
        answer = self.screen("-e").split("One", 1)[1].split("Stopped after")[0]
        self.assertRegex(answer, r"\x1b\[(0;)?2m")

    def test_a_full_context_is_told(self):
        self.chat(MODEL, "--temp", 0, "--ctx", 64, "--logit-bias", "2-inf,4-inf")
        self.type("One")
        self.press("Enter")
        self.sees("The context of 64 tokens is full")
        self.type("And then?")
        self.press("Enter")
        self.sees("error: the context is full")
        self.type("/undo")
        self.press("Enter")
        self.sees("Undone: One")

    def test_edit_begins_with_the_old_text(self):
        self.chat()
        self.type("Who was she?")
        self.press("Enter")
        self.sees("Stopped after 12 tokens")
        self.type("/edit")
        self.press("Enter")
        self.sees("edit > Who was she?")
        self.press("BSpace")
        self.type(" really?")
        self.press("Enter")
        self.until(lambda screen: screen.count("Stopped after 12 tokens") == 2)
        self.assertEqual([m["content"] for m in self.saved()[::2]], ["Who was she?", "Who was she really?"])

    def test_tab_completes_commands(self):
        self.chat()
        self.type("/br")
        self.press("Tab")
        self.sees("> /branch")
        self.type("es")
        self.press("Enter")
        self.sees("The conversation is empty.")

    def test_tab_shows_candidates(self):
        self.chat()
        self.type("/s")
        self.press("Tab")
        self.until(lambda screen: re.search(r"^/save +/set +/show +/stats +/system$", screen, re.MULTILINE)
                   and screen.rstrip().endswith("\n> /s"))

    def test_tab_completes_arguments(self):
        (self.folder / "some files").mkdir()
        (self.folder / "some files/Grüße.json").write_text("{}")
        (self.folder / "some files/other.json").write_text("{}")
        self.chat()
        for typed, completed in (("/set temp", "/set temperature "), ("/set think o", "/set think o"),
                                 ("/show mo", "/show model "), ("/quit", "/quit "), ("/format re", "/format regex "),
                                 (f"/load {self.folder}/some", f"/load {self.folder}/some files/"),
                                 (f"/file {self.folder}/some files/G", f"/file {self.folder}/some files/Grüße.json ")):
            self.type(typed)
            self.press("Tab")
            self.until(lambda screen, wanted=completed: "".join(screen.rstrip().split("> ")[-1].split("\n")).rstrip()
                       == wanted.rstrip())
            self.press("C-u")
            self.prompted()
        self.type(f"/load {self.folder}/some files/")
        self.press("Tab")
        self.sees("Grüße.json  other.json")

    def test_answers_break_between_words(self):
        self.columns = 40
        self.chat(MODEL, *OPTIONS, "-n", 60)
        self.say("Tell me a story.")
        self.sees("Stopped after 60 tokens")
        lines = self.tmux("capture-pane", "-p").split("> Tell me a story.\n")[1].split("\nStopped")[0].split("\n")
        whole = self.saved()[1]["content"]
        self.assertEqual(" ".join(" ".join(lines).split()), " ".join(whole.split()))
        for line in lines:
            self.assertLessEqual(set(line.split()), set(whole.split()))
        self.assertGreater(len(lines), 2)

    def test_branches_take_a_line_each(self):
        self.chat(MODEL, *OPTIONS, "-n", 60)
        self.say("Tell me a long story of a ship, of a captain, and of the people on an island in the ocean.")
        self.sees("Stopped after 60 tokens")
        self.say("/edit Tell me a long story of a ship, of a captain, and of the people on an island in the sky.")
        self.until(lambda screen: screen.count("Stopped after 60 tokens") == 2)
        self.say("/branches")
        self.until(lambda screen: screen.rstrip().endswith("\n>") and "/branches" in screen)
        lines = self.tmux("capture-pane", "-p").split("/branches\n")[1].split("\n>")[0].split("\n")
        self.assertEqual([line[:4] for line in lines], ["   1", "*  2"])

    def test_settings_break_between_words(self):
        self.chat()
        self.say("/set repeat_last_n")
        self.until(lambda screen: screen.rstrip().endswith("\n>") and "repeat_last_n " in screen.split("> /set", 1)[-1])
        lines = self.tmux("capture-pane", "-p").split("/set repeat_last_n\n")[1].split("\n>")[0].split("\n")
        self.assertGreater(len(lines), 1)
        self.assertLess(max(map(len, lines)), 71)
        row = self.fine("chat", MODEL, *OPTIONS, stdin=b"/set repeat_last_n\n").decode()
        self.assertEqual(" ".join(" ".join(lines).split()), " ".join(row.split()))

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
