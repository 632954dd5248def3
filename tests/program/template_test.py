"""`tessera template`: prompts of dialogues, from every source, and errors for invalid ones."""
import json

from program_case import SHARED, ProgramCase, main, needs_shared

HELLO = [{"role": "user", "content": "Hello"}]


class Template(ProgramCase):
    def render(self, dialogue, *arguments):
        return self.fine("template", *arguments, stdin=json.dumps(dialogue).encode()).decode()

    def file(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def test_builtin(self):
        chatml = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
        self.assertEqual(self.render(HELLO, "--chat-template", "chatml"), chatml)
        self.assertEqual(self.render({"messages": HELLO, "model": "x"}, "--chat-template", "chatml"), chatml)
        self.assertEqual(self.render(HELLO, "--chat-template", "chatml", "--closed"), chatml.rsplit("<|im_start|>", 1)[0])
        self.assertIn("llama3", self.fine("template", "--list").decode().split())

    def test_template_of_a_file(self):
        source = self.file("t.jinja", "{{ bos_token }}{{ strftime_now('%d %B %Y') }} {{ mood }} {% if tools %}"
                                      "{{ tools[0].function.name }} {% endif %}{% for m in messages %}{{ m.content }}"
                                      "{% endfor %}{{ enable_thinking }}")
        tools = self.file("tools.json", [{"name": "lookup"}])
        text = self.render(HELLO, "--chat-template", source, "--date", "2026-01-31", "--bos", "<s>", "--tools", tools,
                           "--kwargs", '{"mood": "fine"}', "--thinking", "off")
        self.assertEqual(text, "<s>31 January 2026 fine lookup HelloFalse")

    def test_continue(self):
        open_end = HELLO + [{"role": "assistant", "content": "Once upon"}]
        self.assertTrue(self.render(open_end, "--chat-template", "chatml", "--continue").endswith("\nOnce upon"))
        self.refused(1, "template", "--chat-template", "chatml", "--continue", stdin=json.dumps(HELLO).encode(),
                     says="assistant's message last")

    def test_report(self):
        report = json.loads(self.render([{"role": "system", "content": "S"}] + HELLO, "--chat-template", "gemma",
                                        "--bos", "<bos>", "--json"))
        self.assertTrue(report["has_bos"])
        self.assertFalse(report["abilities"]["system"])
        self.assertEqual(report["opening"], "<start_of_turn>model\n")
        self.assertEqual(len(report["notes"]), 1)
        self.assertIn("S\n\nHello", report["prompt"])

    def test_broken_template(self):
        source = self.file("t.jinja", "\n  {% for m in messages %}")
        done = self.run_program("template", "--chat-template", source, stdin=json.dumps(HELLO).encode())
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"line 2, column 6", done.stderr)
        self.assertIn(b"<|im_start|>user\nHello", done.stdout)

    def test_raw(self):
        """The template gets the dialogue as it is, and its errors are not covered up by ChatML."""
        source = self.file("t.jinja", "{{ messages | tojson }} {{ tools | tojson }} {{ documents }}")
        messages = [{"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]}]
        tools = self.file("tools.json", [{"name": "lookup"}])
        text = self.render(messages, "--chat-template", source, "--raw", "--tools", tools)
        self.assertEqual(text, json.dumps(messages) + ' [{"name": "lookup"}] None')
        self.assertEqual(json.loads(self.render(messages, "--chat-template", source, "--raw", "--json"))["prompt"],
                         json.dumps(messages) + " null None")
        refuses = self.file("r.jinja", "{{ raise_exception('never') }}")
        self.refused(1, "template", "--chat-template", refuses, "--raw", stdin=json.dumps(HELLO).encode(),
                     says="the template refuses: never")

    def test_wrong_use(self):
        dialogue = json.dumps(HELLO).encode()
        self.refused(1, "template", "--chat-template", "chatlm", stdin=dialogue, says=["chatlm", "did you mean 'chatml'"])
        self.refused(1, "template", "--chat-template", "chatml", stdin=b'[{"role": 1}]', says="messages[0].role")
        self.refused(1, "template", "--chat-template", "chatml", stdin=b"{", says=["standard input", "JSON"])
        self.refused(1, "template", "--chat-template", "chatml", stdin=b"", says="standard input is empty")
        wrong = self.file("wrong.json", "[{")
        self.refused(1, "template", "--chat-template", "chatml", "-f", wrong, says=["wrong.json", "JSON"])
        self.refused(1, "template", "--chat-template", "chatml", "--kwargs", "[]", stdin=dialogue, says="--kwargs")
        self.refused(2, "template", "--chat-template", "chatml", "--date", "soon", stdin=dialogue, says="2026-08-22")
        self.refused(2, "template", "--closed", "--continue", stdin=dialogue, says="at most one of")

    @needs_shared("golden/templates/Qwen-Qwen3-0.6B.json")
    def test_references(self):
        suite = json.loads((SHARED / "golden/templates/Qwen-Qwen3-0.6B.json").read_text())
        for case in suite["cases"]:
            given = case["input"]
            if "output" not in case:
                continue
            dialogue = {"messages": given["messages"], "tools": given["tools"], "documents": given["documents"],
                        "chat_template_kwargs": given["kwargs"],
                        "add_generation_prompt": given["add_generation_prompt"]}
            with self.subTest(case["dialogue"]):
                text = self.render(dialogue, "--chat-template", SHARED / "data/templates" / suite["template"], "--raw",
                                   "--eos", suite["eos_token"], "--date", suite["now"])
                self.assertEqual(text, case["output"])


if __name__ == "__main__":
    main()
