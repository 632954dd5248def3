#!/usr/bin/env python3
"""Chat answers split into content, reasoning and calls, and constrained answers: the stream of each part, and refusals."""
import json
import os
import pty
import re

from program_case import LLAMA, ProgramCase, main

THOUGHT = "Rain, perhaps."
CALL = {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}]


def says(*texts):
    """A grammar that accepts only this answer."""
    return "root ::= " + " ".join(json.dumps(text) for text in texts)


class Case(ProgramCase):
    CHAT = ("run", LLAMA, "--chat", "--chat-template", "chatml", "-p", "Hello", "-n", 400)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path


class Chat(Case):
    def test_parts_go_where_they_belong(self):
        answer = says(f"<think>{THOUGHT}</think>I will look.", f"<tool_call>{json.dumps(CALL)}</tool_call>")
        tools = self.file("tools.json", TOOLS)
        done = self.run_program(*self.CHAT, "--tools", tools, "--grammar", answer)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode(), "I will look.\n" + json.dumps(CALL, separators=(",", ":")) + "\n")
        self.assertIn(THOUGHT + "\n", done.stderr.decode())
        self.assertNotIn(b"\033", done.stderr)
        quiet = self.run_program(*self.CHAT, "--tools", tools, "--grammar", answer, "--quiet")
        self.assertEqual((quiet.stdout, quiet.stderr), (done.stdout, b""))
        out = json.loads(self.fine(*self.CHAT, "--tools", tools, "--grammar", answer, "--json"))
        self.assertEqual((out["content"], out["reasoning"], out["tool_calls"], out["notes"]),
                         ("I will look.", THOUGHT, [CALL], []))
        self.assertIn("<tool_call>", out["text"])

    def test_several_calls_are_several_lines(self):
        call = f"<tool_call>{json.dumps(CALL)}</tool_call>"
        out = self.fine(*self.CHAT, "--tools", self.file("t.json", TOOLS), "--grammar", says(call, "\n", call)).decode()
        self.assertEqual([json.loads(line) for line in out.splitlines()], [CALL, CALL])

    def test_calls_are_held_to_the_tools(self):
        """A model that was not trained for tools still calls one, with arguments that satisfy the schema."""
        tools = self.file("tools.json", [
            {"type": "function", "function": {"name": "weather", "parameters": {
                "type": "object", "required": ["city", "days"], "additionalProperties": False, "properties": {
                    "city": {"type": "string", "maxLength": 12},
                    "days": {"type": "integer", "enum": [1, 2, 7]}}}}},
            {"type": "function", "function": {"name": "stop", "parameters": {
                "type": "object", "additionalProperties": False}}}])
        run = (*self.CHAT, "--seed", 3, "--json", "--tools", tools, "--tool-choice")
        elements = self.file("elements.jinja", "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}"
                                               "{# calls: <function=name><parameter=key> #}")
        for template in ("chatml", elements):
            with self.subTest(template):
                out = json.loads(self.fine(*run, "weather", "--chat-template", template))
                self.assertEqual((out["content"], out["notes"]), ("", []), out["text"])
                for call in out["tool_calls"]:
                    self.assertEqual((call["name"], sorted(call["arguments"])), ("weather", ["city", "days"]))
                    self.assertLessEqual(len(call["arguments"]["city"]), 12)
                    self.assertIn(call["arguments"]["days"], (1, 2, 7))
                self.assertTrue(out["tool_calls"], out["text"])
        out = json.loads(self.fine(*run, "required"))
        self.assertIn(out["tool_calls"][0]["name"], ("weather", "stop"))
        out = json.loads(self.fine(*run, "none", "-n", 20))
        self.assertEqual(out["tool_calls"], [])
        self.refused(1, *run, "go", says=("--tool-choice", "one of the tools", "'go'"))
        self.refused(2, *run, "auto", "--json-object", says="exclude each other")
        self.refused(2, *self.CHAT, "--tool-choice", "auto", says="--tool-choice needs --tools")

    def test_what_is_no_call_stays_text(self):
        done = self.run_program(*self.CHAT, "--grammar", says("Well. <tool_call>{oops"))
        self.assertEqual((done.returncode, done.stdout), (0, b"Well. <tool_call>{oops\n"))
        self.assertIn("answer: the text from '<tool_call>' on was taken for content", done.stderr.decode())

    def test_cut_off_answers_are_whole(self):
        command = (*self.CHAT[:-1], 12)
        done = self.run_program(*command, "--grammar", says("<think>" + "long " * 40))
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        self.assertIn(b"long", done.stderr)
        stopped = self.run_program(*self.CHAT, "--grammar", says("one two three"), "--stop", " three")
        self.assertEqual(stopped.stdout, b"one two\n")

    def test_interrupted(self):
        process = self.start("run", LLAMA, "--chat", "--chat-template", "chatml", "-p", "Hello", "-n", -1, "--ctx", 4096,
                             "--grammar", 'root ::= "<think>a</think>" [b-z]*', "--ignore-eos")
        self.assertRegex(process.stdout.read(5).decode(), "[b-z]{5}")
        process.send_signal(2)
        rest, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertTrue(rest.endswith(b"\n"))
        self.assertIn(b"a\n", errors)

    def test_reasoning_is_dim_on_a_terminal(self):
        master, slave = pty.openpty()
        process = self.start(*map(str, self.CHAT), "--grammar", says(f"<think>{THOUGHT}</think>Yes."), stderr=slave)
        os.close(slave)
        out, shown = process.communicate(timeout=60)[0], b""
        try:
            while chunk := os.read(master, 4096):
                shown += chunk
        except OSError:
            pass  # Linux reports the closed other side so
        os.close(master)
        self.assertEqual(out, b"Yes.\n")
        self.assertIn(b"\033[2m", shown)
        self.assertIn(THOUGHT.encode(), re.sub(rb"\x1b\[[0-9]*[mK]", b"", shown).replace(b"\r", b""))

    def test_prompt_of_a_chat(self):
        """The system message and the template enter the prompt, which is shown only on request."""
        hello = says("Hi")
        out = json.loads(self.fine(*self.CHAT, "--grammar", hello, "--json"))
        longer = json.loads(self.fine(*self.CHAT, "--system", "Be brief.", "--grammar", hello, "--json"))
        self.assertGreater(longer["prompt_tokens"], out["prompt_tokens"])
        self.assertEqual(self.fine(*self.CHAT, "--grammar", hello, "--echo"), b"Hello\nHi\n")

    def test_wrong_use(self):
        plain = ("run", LLAMA, "-p", "x")
        for option in (("--system", "s"), ("--tools", "f"), ("--chat-template", "chatml"), ("--no-think",)):
            self.refused(2, *plain, *option, says="needs --chat")
        chat = (*plain, "--chat")
        self.refused(1, *chat, "--tools", self.folder / "none.json", says=("--tools", "none.json", "cannot open"))
        self.refused(1, *chat, "--tools", self.file("a.json", "{"), says=("--tools", "a.json", "JSON"))
        self.refused(1, *chat, "--tools", self.file("b.json", [{"type": "function"}]), says=("--tools", "tools[0].function"))
        self.refused(1, *chat, "--chat-template", "chatlm", says=("--chat-template", "did you mean 'chatml'?"))
        broken = self.file("broken.jinja", "\n  {% for m in messages %}")
        self.refused(1, *chat, "--chat-template", broken, says=("broken.jinja", "line 2, column 6"))


class Forms(Case):
    RUN = ("run", LLAMA, "-p", "Say: ", "-n", 400, "--seed", 1)

    def test_every_kind_holds(self):
        person = {"type": "object", "properties": {"name": {"enum": ["Ann", "Bo"]}}, "required": ["name"],
                  "additionalProperties": False}
        for option in (json.dumps(person), "@" + str(self.file("person.json", person))):
            out = self.fine(*self.RUN, "--json-schema", option).decode()
            self.assertIn(json.loads(out)["name"], ("Ann", "Bo"))
        compact = self.fine(*self.RUN, "--json-schema", json.dumps(person), "--compact-json").decode()
        self.assertRegex(compact, r'^\{"name":"(Ann|Bo)"\}\n$')
        self.assertRegex(self.fine(*self.RUN, "--regex", "[a-c]{4}-[0-9]{2}").decode(), "^[a-c]{4}-[0-9]{2}\n$")
        grammar = self.file("g.gbnf", 'root ::= word ("," word){2}\nword ::= "ab" | "cd"\n')
        self.assertRegex(self.fine(*self.RUN, "--grammar", f"@{grammar}").decode(), "^(ab|cd)(,(ab|cd)){2}\n$")
        self.assertTrue(self.fine("run", LLAMA, "-p", "Say: ", "-n", 40, "--json-object").startswith(b"{"))

    def test_stop_strings(self):
        held = (*self.RUN, "--grammar", says("one two three"))
        self.assertEqual(self.fine(*held, "--stop", "three", "--stop", "two"), b"one \n")
        self.assertEqual(json.loads(self.fine(*held, "--stop", "two", "--json"))["stop"], "stop string")
        self.refused(2, *held, "--stop", "", says="--stop")

    def test_samplers_by_name(self):
        held = (*self.RUN, "--grammar", 'root ::= [ab]{8}', "--stats")
        done = self.run_program(*held, "--samplers", "min_p;temperature")
        self.assertIn(b"sampling min_p;temperature;draw\n", done.stderr)
        self.refused(2, *held, "--samplers", "min_q", says=("--samplers", "did you mean 'min_p'?"))

    def test_refusals_name_the_place(self):
        grammar = self.file("g.gbnf", 'root ::= "a"\nb ::= [x\n')
        self.refused(1, *self.RUN, "--grammar", f"@{grammar}", says=("--grammar", "line 2, column"))
        self.refused(1, *self.RUN, "--grammar", 'root ::= root "a" | "b"', says=("--grammar", "line 1, column 1", "left recursive"))
        self.refused(1, *self.RUN, "--grammar", "@" + str(self.folder / "none"), says=("cannot open", "none"))
        self.refused(1, *self.RUN, "--regex", "a(?=b)", says=("--regex", "position"))
        self.refused(1, *self.RUN, "--json-schema", '{"properties": {"a": {"type": "string", "format": "regex"}}}',
                     says=("--json-schema", "/properties/a/format"))
        self.refused(1, *self.RUN, "--json-schema", '{"type": "integer", "minimum": 5, "maximum": 4}', says="--json-schema")
        self.refused(1, *self.RUN, "--json-schema", "{", says=("--json-schema", "JSON"))

    def test_one_form_at_a_time(self):
        self.refused(2, *self.RUN, "--grammar", says("a"), "--json-object", says="found 2")
        self.refused(2, *self.RUN, "--regex", "a", "--json-schema", "{}", "--grammar", says("a"), says="found 3")


if __name__ == "__main__":
    main()
