"""`tessera chat` through pipes: messages, commands, conversation files, and errors."""
import json
import os
import pty
import re
import signal
import subprocess

from program_case import ROOT, ProgramCase, main

MODEL = ROOT / "models/tessera-tiny.gguf"
OPTIONS = (MODEL, "--seed", 1, "-n", 12, "--ctx", 512)


class Chat(ProgramCase):
    def environment(self, **extra):
        return super().environment(**({"XDG_STATE_HOME": self.folder / "state"} | extra))

    def chat(self, *lines, options=OPTIONS, **more):
        """Standard output of a chat with these input lines, which must succeed."""
        return self.fine("chat", *options, stdin="".join(line + "\n" for line in lines).encode(), **more).decode()

    def fails(self, *lines, says, options=OPTIONS):
        return self.refused(1, "chat", *options, stdin="".join(line + "\n" for line in lines).encode(), says=says)

    def saved(self, *lines):
        """A conversation's file after these lines."""
        path = self.folder / "talk.json"
        self.chat(*lines, f"/save {path}")
        return json.loads(path.read_text())


class Pipe(Chat):
    def test_answers_alone_go_to_standard_output(self):
        done = self.run_program("chat", *OPTIONS, stdin=b"Hello\nAnd then?")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second = self.saved("Hello", "And then?")["messages"][1::2]
        said = [text if text.endswith("\n") else text + "\n" for text in (first["content"], second["content"])]
        self.assertEqual(done.stdout.decode(), "".join(said))
        self.assertNotIn(b"\x1b", done.stdout + done.stderr)
        self.assertIn(b"Stopped after 12 tokens", done.stderr)

    def test_the_same_as_run(self):
        run = self.fine("run", *OPTIONS, "--chat", "--system", "Be brief.", "-p", "Hello").decode()
        self.assertEqual(self.chat("Hello", options=OPTIONS + ("--system", "Be brief.")), run)

    def test_empty_input_and_empty_lines(self):
        self.assertEqual(self.chat(), "")
        self.assertEqual(self.chat("", "   "), "")

    def test_several_lines(self):
        messages = self.saved('"""', "One", "", "  two", '"""', '"""/three"""', " /four\r")["messages"]
        self.assertEqual([m["content"] for m in messages[::2]], ["One\n\n  two", "/three", "/four"])
        self.fails('"""', "One", says='expected """')

    def test_wide_characters(self):
        text = "Grüße, 世界 \N{WOMAN}\u200d\N{PERSONAL COMPUTER}"
        self.assertEqual(self.saved(text)["messages"][0]["content"], text)

    def test_no_utf8(self):
        self.refused(1, "chat", *OPTIONS, stdin=b"caf\xe9\n", says=["standard input", "0xE9 at offset 3"])

    def test_interrupt_ends_it(self):
        process = self.start("chat", MODEL, "--seed", 1, "--ctx", 200000, "--samplers", "top_k", stdin=subprocess.PIPE)
        process.stdin.write(b"Hello\n" * 1000)
        process.stdin.flush()
        process.stdout.read(10)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_a_first_message_by_option(self):
        options = OPTIONS + ("-p", "Hello")
        self.assertEqual(self.chat("And then?", options=options), self.chat("Hello", "And then?"))
        self.assertEqual(self.chat(options=options), self.chat("Hello"))

    def test_pipes_keep_nothing(self):
        self.chat("Hello")
        self.assertFalse((self.folder / "state").exists())

    def test_reader_goes_away(self):
        process = self.start("chat", *OPTIONS, "--quiet", stdin=subprocess.PIPE)
        process.stdout.close()
        process.stdin.write(b"Hello\n")
        process.stdin.close()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()


class Commands(Chat):
    def test_help_lists_the_commands(self):
        names = re.findall(r"^  (/\w+)", self.chat("/help"), re.MULTILINE)
        self.assertEqual(names, "/help /exit /clear /undo /retry /edit /branch /branches /save /load /system /set "
                                "/format /show /stats /tokens /file /result".split())

    def test_exit(self):
        self.assertEqual(self.chat("/exit", "Hello"), "")

    def test_aliases(self):
        for name in ("/bye", "/quit", "/q"):
            self.assertEqual(self.chat(name, "Hello"), "")
        self.assertEqual(self.chat("/?"), self.chat("/help"))
        self.assertIn("(/regen, /regenerate)", self.chat("/help"))
        for name in ("/regen", "/regenerate"):
            self.assertEqual(len(self.saved("Hello", name)["messages"]), 3)
        self.assertEqual(len(self.saved("Hello", "/new", "Two")["messages"]), 2)

    def test_unknown(self):
        message = self.fails("/brunches", says="unknown command /brunches; did you mean /branches? (/help lists them)")
        self.assertEqual(message.count("\n"), 1)
        self.fails("/exit now", says="/exit takes no argument, found 'now'")
        for line in ("/undo", "/retry", "/edit x", "/branch 1", "/load", "/save", "/file", "/show it", "/undo 0", "/result x"):
            self.fails(line, says="tessera chat: " + line.split()[0])

    def test_undo_retry_and_edit_leave_branches(self):
        found = self.saved("One", "Two", "/undo", "Three", "/set seed 2", "/retry", "/edit Four", "/undo 2")
        questions = [(m["parent"], m["content"]) for m in found["messages"] if m["role"] == "user"]
        self.assertEqual(questions, [(-1, "One"), (1, "Two"), (1, "Three"), (1, "Four")])
        self.assertEqual([m["parent"] for m in found["messages"]], [-1, 0, 1, 2, 1, 4, 4, 1, 7])
        self.assertEqual(found["here"], -1)

    def test_branches(self):
        out = self.chat("One", "Two", "/undo", "Three", "/branches", "/branch 1", "/show").split("\n")
        lines = [re.sub(r"\d\d:\d\d:\d\d", "TIME", line) for line in out if re.match(r"[ *] +\d  ", line)]
        self.assertEqual(lines, ["   1  2 turns  TIME  turn 2, you: Two", "*  2  2 turns  TIME  turn 2, you: Three"])
        self.assertEqual([line for line in out if line.startswith(">")], ["> One", "> Two"])

    def test_branches_of_one_message_show_how_their_answers_differ(self):
        out = self.chat("Tell me of a ship.", "/retry", "/retry", "/branches").split("\n")
        shown = [line.split("turn 1, answer: ")[1] for line in out if "turn 1, answer: " in line]
        self.assertEqual(len(set(shown)), 3, out)
        # A long common beginning is left out.
        question = "Please tell me a long story about a small ship in the great ocean with "
        out = self.chat(question + "cats", "/edit " + question + "dogs", "/branches")
        self.assertRegex(out, r"you: \.\.\. .*cats\n")
        self.assertRegex(out, r"you: \.\.\. .*dogs\n")

    def test_retry_with_a_fixed_seed(self):
        done = self.run_program("chat", *OPTIONS, stdin=b"One\n/retry\n/retry\n/stats\n")
        self.assertIn(b"Seed 2 for this answer: with 1, which is set, it would be the same.", done.stderr)
        self.assertIn(b"Seed 3 for this answer", done.stderr)
        self.assertRegex(done.stdout, rb"(?m)^seed +3$")
        # The seed of the conversation stays.
        self.assertEqual(self.saved("One", "/retry")["settings"]["seed"], "1")

    def test_retry_without_chance_makes_no_branch(self):
        done = self.run_program("chat", *OPTIONS, "--temp", 0, stdin=b"One\n/retry\n/branches\n")
        self.assertIn(b"The answer is the same as before", done.stderr)
        self.assertEqual(len(re.findall(rb"(?m)^[ *] +\d  ", done.stdout)), 1)

    def test_edit_of_an_undone_message(self):
        found = self.saved("One", "/undo", "/edit Two")
        self.assertEqual([m["content"] for m in found["messages"][::2]], ["One", "Two"])
        found = self.saved("One", "Two", "/undo", "/edit Three")
        self.assertEqual([(m["parent"], m["content"]) for m in found["messages"][::2]], [(-1, "One"), (1, "Two"), (1, "Three")])

    def test_clear_keeps_the_system_prompt(self):
        found = self.saved("/system Be brief.", "One", "/clear", "Two")
        self.assertEqual((found["system"], len(found["messages"])), ("Be brief.", 2))
        done = self.run_program("chat", *OPTIONS, stdin=b"/system\n/system Be brief.\n/system\n/system -\n")
        self.assertEqual(done.stdout, b"Be brief.\n")
        for says in (b"There is no system prompt.", b"New system prompt; used from the next answer on.",
                     b"System prompt removed."):
            self.assertIn(says, done.stderr)

    def test_system_prompt_is_in_the_prompt(self):
        self.assertIn("Be brief.", self.chat("/system Be brief.", "One", "/show prompt"))

    def test_set(self):
        self.assertEqual(self.chat("/set temperature 0.5", "/set think off", "/set stats on", "/set stats default",
                                   "/show settings"), "n_predict 12\nseed 1\ntemperature 0.5\nthink off\n")
        table = self.chat("/set")
        self.assertRegex(table, r"(?m)^\* seed +1 ")
        self.assertRegex(table, r"(?m)^  top_k +40 ")
        self.assertLess(table.index("\nRepetition:\n"), table.index("\n  repeat_penalty "))
        self.assertRegex(self.chat("/set top_p"), r"^  top_p +0.95 ")
        self.fails("/set temprature 1", says="did you mean temperature?")
        self.fails("/set temperature hot", says="temperature: expected a number from -1 to 100, found 'hot'")
        self.fails("/set think maybe", says="think: expected auto, on or off, found 'maybe'")
        self.fails("/set n_predict 0", says="n_predict: expected -1 or a whole number from 1, found '0'")
        self.fails("/set logit_bias x", "Hello", says="logit_bias")

    def test_names_of_settings_from_elsewhere(self):
        self.assertEqual(self.chat("/set temp 0.5", "/set parameter top_p 0.7", "/set num_predict 5", "/set top-k 3",
                                   "/set --min-p 0.1", "/set verbose", "/set nothink", "/set noformat", "/show settings"),
                         "min_p 0.1\nn_predict 5\nseed 1\nstats on\ntemperature 0.5\nthink off\ntop_k 3\ntop_p 0.7\n")
        self.assertEqual(self.chat("/set system Be brief.", "/system"), "Be brief.\n")
        self.fails("/set tempp 1", says="unknown setting 'tempp'; did you mean temperature?")
        self.fails("/set num_ctx 100", says="num_ctx: the context's length is fixed while a chat runs")
        self.fails("/set colour red", says="unknown setting 'colour' (/set lists the settings)")

    def test_show(self):
        self.assertIn("architecture", self.chat("/show model"))
        self.assertIn("{%", self.chat("/show template"))
        self.assertEqual(self.chat("/show", "/show prompt", "/show settings", options=(MODEL,)), "")

    def test_tokens(self):
        self.assertEqual(self.chat("/tokens"), "0 of 512 tokens\n")
        count, *pieces = self.chat('/tokens "Once" upon').strip().split("\n")
        self.assertEqual(count, f"{len(pieces)} tokens")
        self.assertEqual("".join(json.loads(piece[8:]) for piece in pieces).strip(), '"Once" upon')
        n = int(self.chat("Hello", "/tokens").split("\n")[-2].split()[0])
        self.assertGreater(n, 12)

    def test_stats(self):
        out = self.chat("Hello", "And then?", "/stats")
        self.assertRegex(out, r"(?m)^last answer  12 tokens, .*\([1-9]\d* cached\)")
        self.assertRegex(out, r"(?m)^all answers  24 tokens, ")
        self.assertRegex(out, r"(?m)^seed +1$")
        context = re.search(r"(?m)^context +(.*)$", out)[1]
        self.assertEqual(self.chat("Hello", "And then?", "/tokens").split("\n")[-2], context)

    def test_stats_after_clear(self):
        self.assertRegex(self.chat("Hello", "/clear", "/stats"), r"(?m)^context +0 of 512 tokens$")

    def test_file(self):
        path = self.folder / "a b.txt"
        path.write_text("One ``` two")
        messages = self.saved(f"/file {path}", "What is it?", "And now?")["messages"]
        self.assertEqual(messages[0]["content"], "a b.txt:\n````\nOne ``` two\n````\n\nWhat is it?")
        self.assertEqual(messages[2]["content"], "And now?")
        self.assertEqual(self.saved(f"/file {path}", "/file -", "What?")["messages"][0]["content"], "What?")
        done = self.run_program("chat", *OPTIONS, stdin=f"/file {path}\n/file -\n".encode())
        self.assertRegex(done.stderr.decode(), r"Attached to the next message: '.*a b.txt', \d+ tokens\.\n"
                                               r"Attached files removed\.\n")
        path.write_bytes(b"\x89PNG")
        self.fails(f"/file {path}", says=["a b.txt", "UTF-8"])
        self.fails(f"/file {path}x", says=["a b.txtx", "No such file"])


class Files(Chat):
    def test_what_is_saved_reloads_exactly(self):
        first, second = self.folder / "first.json", self.folder / "second.json"
        self.chat("/system Be\tbrief.", "/set top_k 20", "One", "Two", "/retry", "/undo", "Three", f"/save {first}")
        self.chat(f"/load {first}", f"/save {second}", options=(MODEL,))
        self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_a_reloaded_conversation_goes_on_as_it_would_have(self):
        path = self.folder / "talk.json"
        whole = self.chat("One", "Two", f"/save {path}", "Three")
        rest = self.chat("Three", options=(MODEL, "--ctx", 512, "--load", path))
        self.assertTrue(whole.endswith(rest) and len(rest) > 1, (whole, rest))

    def test_saving_again_needs_no_name(self):
        path = self.folder / "talk.json"
        self.chat("One", f"/save {path}", "Two", "/save")
        self.assertEqual(len(json.loads(path.read_text())["messages"]), 4)

    def test_other_files_are_not_replaced(self):
        path = self.folder / "notes.txt"
        path.write_text("mine")
        self.fails("One", f"/save {path}", says=["notes.txt", "exists and is not a conversation"])
        self.assertEqual(path.read_text(), "mine")
        self.fails("One", f"/save {self.folder}/no/such", says="no/such")

    def test_bad_files(self):
        path = self.folder / "talk.json"
        good = self.saved("One")
        for change, says in (({"version": 7}, "version: expected 1, found 7"),
                             ({"settings": {"top_k": "many"}}, "top_k: expected a number"),
                             ({"settings": {"colour": "red"}}, "unknown setting 'colour'"),
                             ({"settings": {"format": "schema"}}, "format: expected a form of answers, found 'schema'"),
                             ({"settings": {"format": "schema @/etc/passwd"}}, "format: schema:"),
                             ({"started": "yesterday"}, "yesterday"),
                             ({"here": 0}, "messages[0]: a line ends here")):
            path.write_text(json.dumps(good | change))
            self.fails(f"/load {path}", says=["talk.json", says])
        path.write_text("{")
        self.fails(f"/load {path}", says=["talk.json", "expected a conversation in JSON"])


class Context(Chat):
    def test_full(self):
        err = self.run_program("chat", MODEL, "--seed", 1, "--ctx", 64, stdin=b"One\n").stderr.decode()
        self.assertIn("context of 64 tokens is full, so the answer ends here", err)
        self.fails("word " * 100, options=(MODEL, "--ctx", 64), says=["the context is full", "/undo or /clear"])

    def test_nearly_full(self):
        err = self.run_program("chat", MODEL, "--ctx", 64, "-n", 1, stdin=b"word " * 46).stderr.decode()
        self.assertRegex(err, r"nearly full: \d+ of 64")

    def test_reasoning(self):
        # The template opens a reasoning block, so that all generated text is reasoning.
        template = self.folder / "template.jinja"
        template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                            "{% if add_generation_prompt %}assistant: <think>\n\n{% endif %}")
        options = OPTIONS + ("--chat-template", template)
        shown = self.run_program("chat", *options, stdin=b"One\n")
        hidden = self.run_program("chat", *options, "--hide-reasoning", stdin=b"One\n")
        self.assertEqual((shown.stdout, hidden.stdout), (b"", b""))
        self.assertGreater(len(shown.stderr), len(hidden.stderr))


class Form(Chat):
    """Answers that are constrained: by options, by commands, and in a conversation's file."""

    def answers(self, *lines, options=OPTIONS):
        return self.chat(*lines, options=options).rstrip("\n").split("\n")

    def test_by_options(self):
        for flags, form in ((("--regex", "[ab]{3}"), "[ab]{3}"), (("--grammar", 'root ::= "yes" | "no"'), "yes|no"),
                            (("--json-schema", '{"enum": ["yes"]}'), '"yes"'),
                            (("--json-object", "-n", 60, "--compact-json"), r"\{.*")):
            for answer in self.answers("Hello", "And?", options=OPTIONS + flags):
                self.assertRegex(answer, f"^{form}$")

    def test_by_command(self):
        path = self.folder / "form.gbnf"
        path.write_text('root ::= "from a file"')
        for line, form in (("/format regex [ab]{3}", "[ab]{3}"), (f"/format grammar @{path}", "from a file"),
                           ('/format {"const": "x"}', '"x"'), ('/set format schema {"const": "x"}', '"x"')):
            self.assertRegex(self.answers(line, "Hello")[0], f"^{form}$")
        self.assertTrue(self.answers("/format json", "Hello")[0].startswith("{"))
        self.assertEqual(self.chat("/format json", "/format"), "json\n")
        self.assertEqual(self.answers("/format json", "/format text", "Hello"), self.answers("Hello"))

    def test_is_saved(self):
        path = self.folder / "talk.json"
        self.chat("/format regex [ab]{3}", "Hello", f"/save {path}")
        self.assertRegex(self.chat("Hello", options=(MODEL, "--load", path)), "^[ab]{3}\n$")

    def test_refused(self):
        self.fails("/format xml", says="format: expected text, json, schema TEXT|@FILE")
        self.fails("/format json x", says="format: expected text, json")
        self.fails("/format schema [", says="format: schema: ")
        self.fails("/format grammar @nowhere.gbnf", says="nowhere.gbnf")
        self.refused(2, "chat", MODEL, "--grammar", "root = ", says=["--grammar", "line 1"])
        self.refused(2, "chat", MODEL, "--json-object", "--regex", "a", says="--regex")


class Tools(Chat):
    TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"], "additionalProperties": False}}}]

    def options(self, choice):
        path = self.folder / "tools.json"
        path.write_text(json.dumps(self.TOOLS))
        return OPTIONS + ("-n", 80, "--chat-template", "chatml", "--tools", path, "--tool-choice", choice)

    def test_call_and_result(self):
        path = self.folder / "talk.json"
        options = self.options("required")
        out = self.chat("Hello", "/result 20 degrees", f"/save {path}", "/show prompt", options=options)
        self.assertIn('weather {"city": "Paris"}\n', out.replace('{"city":"Paris"}', '{"city": "Paris"}'))
        self.assertIn("20 degrees", out)
        messages = json.loads(path.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "tool", "assistant"])
        self.assertEqual(messages[1]["tool_calls"][0]["function"]["name"], "weather")
        again = self.folder / "again.json"
        self.chat(f"/load {path}", f"/save {again}", options=options)
        self.assertEqual(path.read_bytes(), again.read_bytes())

    def test_none(self):
        found = self.folder / "talk.json"
        self.chat("Hello", f"/save {found}", options=self.options("none"))
        self.assertNotIn("tool_calls", found.read_text())

    def test_refused(self):
        self.refused(2, "chat", MODEL, "--tool-choice", "auto", says="--tool-choice needs --tools")
        self.refused(2, "chat", MODEL, "--tools", self.folder / "none.json", says="none.json")
        self.fails("Hello", "/result x", says="/result: the last answer has no call of a tool", options=OPTIONS)


class Options(Chat):
    def test_a_built_in_template(self):
        self.assertIn("<|user|>\nHi", self.chat("Hi", "/show prompt", options=OPTIONS + ("--chat-template", "zephyr")))
        self.refused(1, "chat", MODEL, "--chat-template", "zephyrr", says="did you mean 'zephyr'?")

    def test_values_instead_of_the_files(self):
        out = self.chat("/show model", options=(MODEL, "--override-kv", "general.name=str:mine", "--check"))
        self.assertIn("name         mine\n", out)
        self.refused(1, "chat", MODEL, "--override-kv", "general.name", says=["overrides", "general.name"])

    def test_refused(self):
        self.refused(2, "chat", MODEL, "--load", "x", "--continue", says="--load or --continue")
        self.refused(2, "chat", MODEL, "--continue", "--system", "x", says="--system")
        self.refused(2, "chat", MODEL, "-n", 0, says="--n-predict")
        self.refused(2, "chat", MODEL, "--temp", "hot", says="--temp")
        self.refused(2, "chat", MODEL, "--kv", "f16,f16,f16", says="--kv")
        self.refused(1, "chat", MODEL, "--kv", "f17", says="f17")
        self.refused(1, "chat", MODEL, "--chat-template", "nowhere", says=["nowhere", "template --list"])
        self.refused(1, "chat", self.folder / "none.gguf", says="none.gguf")


class DumbTerminal(Chat):
    def test_prompt_without_escapes(self):
        leader, terminal = pty.openpty()
        process = subprocess.Popen([self.program, "chat", *map(str, OPTIONS)], stdin=terminal, stdout=terminal,
                                   stderr=terminal, env=self.environment(TERM="dumb"))
        os.close(terminal)
        self.addCleanup(os.close, leader)
        self.addCleanup(process.kill)
        seen = b""

        def until(text):
            nonlocal seen
            while text not in seen:
                seen += os.read(leader, 4096)
            out, seen = seen.split(text, 1)
            return out

        out = until(b"\n> ")
        os.write(leader, "Grüße\n".encode())
        out += until(b"\n> ")
        os.write(leader, b"/brunches\n")
        out += until(b"error: unknown command /brunches")
        os.write(leader, b"/exit\n")
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertNotIn(b"\x1b", out)


if __name__ == "__main__":
    main()
