"""The routes: what they answer, and what they say of wrong requests."""
import base64
import json
import struct
import tempfile

from server_case import ServerCase, main

HI = [{"role": "user", "content": "Tell me of a ship."}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"],
          "additionalProperties": False}


class Information(ServerCase):
    def get(self, path):
        answer = self.server.ask("GET", path)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def test_descriptions(self):
        self.assertEqual(self.get("/health").json(), {"status": "ok"})
        self.assertEqual(self.get("/v1/models").json()["data"][0]["id"], "tessera-tiny")
        props = self.get("/props").json()
        self.assertEqual(props["total_slots"], 8)
        self.assertTrue(props["eos_token"])
        self.assertIn("temperature", props["default_generation_settings"]["params"])
        self.assertEqual(len(self.get("/slots").json()), 8)

    def test_metrics(self):
        self.fine("/v1/completions", prompt="Once", max_tokens=5, ignore_eos=True)
        text = self.get("/metrics").body.decode()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        self.assertGreaterEqual(int(values["tessera_generated_tokens_total"]), 5)
        self.assertGreaterEqual(int(values["tessera_time_to_first_token_seconds_count"]), 1)
        self.assertGreaterEqual(int(values["tessera_inter_token_seconds_count"]), 4)
        self.assertGreaterEqual(int(values['tessera_responses_total{route="/v1/completions",status="200"}']), 1)
        self.assertEqual(values['tessera_queue_seconds_bucket{le="+Inf"}'], values["tessera_queue_seconds_count"])

    def test_openapi(self):
        api = self.get("/openapi.json").json()
        for path, operations in api["paths"].items():
            for method in operations:
                # An empty object breaks each body's required fields, if it has any, and nothing has no body at all.
                path = path.replace("{model}", "tessera-tiny")
                answer = self.server.ask(method.upper(), path, {} if method == "post" else None)
                schema = operations[method].get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                if schema and "required" in schema:
                    self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, schema["required"][0]), path)
                elif method == "get":
                    self.assertEqual(answer.status, 200, path)
                # Each field that is listed is checked.
                for name, field in (schema or {}).get("properties", {}).items():
                    if "type" in field and set(field["type"]) <= {"number", "integer", "null"}:
                        body = {"messages": HI, "prompt": "x", "content": "x", "tokens": [1], "input": "x", name: "no number"}
                        self.assertEqual(self.server.ask("POST", path, body).status, 400, (path, name))

    def test_tokens(self):
        tokens = self.fine("/tokenize", content="Once upon a time").json()["tokens"]
        self.assertEqual(self.fine("/detokenize", tokens=tokens).json()["content"].strip(), "Once upon a time")
        pieces = self.fine("/tokenize", content="Hi \u00e9\U0001f600", with_pieces=True, add_special=True).json()["tokens"]
        self.assertTrue(all({"id", "piece"} == set(piece) for piece in pieces))
        self.refused(400, "/detokenize", "tokens[1]", says=["tokens[1]", "99999999"], tokens=[1, 99999999])
        self.refused(400, "/tokenize", "content", says="expected a string, found a number", content=5)

    def test_template(self):
        answer = self.fine("/apply-template", messages=HI).json()
        self.assertIn("Tell me of a ship.", answer["prompt"])
        self.refused(400, "/apply-template", "messages[0].role", messages=[{"role": 1}])

    def test_embeddings(self):
        def vectors(**more):
            return [row["embedding"] for row in self.fine("/v1/embeddings", **more).json()["data"]]

        both = vectors(input=["a ship", "a tree"])
        self.assertAlmostEqual(sum(x * x for x in both[0]), 1, 4)
        self.assertEqual(vectors(input="a tree"), both[1:])
        packed = base64.b64decode(vectors(input="a tree", encoding_format="base64")[0])
        self.assertEqual(struct.unpack(f"<{len(both[1])}f", packed)[0], struct.unpack("<f", struct.pack("<f", both[1][0]))[0])
        self.assertNotEqual(vectors(input="a tree", pooling="mean"), both[1:])
        self.refused(400, "/v1/embeddings", "pooling", input="x", pooling="none")
        self.refused(400, "/v1/embeddings", "dimensions", input="x", dimensions=7)


class Completions(ServerCase):
    options = ("-c", 256)

    def test_whole_and_streamed_are_the_same(self):
        body = {"prompt": "Once upon a time", "max_tokens": 12, "seed": 3, "temperature": 0.7}
        whole = self.fine("/v1/completions", **body).json()
        events = self.fine("/v1/completions", **body, stream=True, stream_options={"include_usage": True}).events()
        self.assertEqual(events.pop(), "[DONE]")
        usage = events.pop()
        self.assertEqual(usage["choices"], [])
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), whole["choices"][0]["text"])
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"])
        self.assertEqual(usage["usage"]["total_tokens"], whole["usage"]["total_tokens"])
        self.assertEqual(self.fine("/v1/completions", **body).json()["usage"]["completion_tokens"],
                         whole["usage"]["completion_tokens"])

    def test_fields(self):
        two = self.fine("/v1/completions", prompt=["A", "B"], n=2, max_tokens=3, echo=True, seed=1).json()
        self.assertEqual([c["index"] for c in two["choices"]], [0, 1, 2, 3])
        self.assertTrue(two["choices"][2]["text"].startswith("B"))
        greedy = self.fine("/v1/completions", prompt="Once", max_tokens=8, temperature=0, logprobs=3).json()["choices"][0]
        self.assertEqual(len(greedy["logprobs"]["tokens"]), len(greedy["logprobs"]["token_logprobs"]))
        self.assertEqual(len(greedy["logprobs"]["top_logprobs"][0]), 3)
        text = greedy["text"]
        stopped = self.fine("/v1/completions", prompt="Once", max_tokens=8, temperature=0, stop=[text[5:8]]).json()["choices"][0]
        self.assertEqual((stopped["finish_reason"], stopped["text"]), ("stop", text[:text.index(text[5:8])]))
        ids = self.fine("/tokenize", content="ship").json()["tokens"]
        biased = self.fine("/completion", prompt="Once", n_predict=3, logit_bias={str(ids[-1]): 1000}, return_tokens=True,
                           temperature=0, ignore_eos=True).json()
        self.assertEqual(biased["tokens"], [ids[-1]] * 3)

    def test_constraints(self):
        for more in ({"json_schema": SCHEMA}, {"response_format": {"type": "json_object", "schema": SCHEMA}},
                     {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}}):
            text = self.fine("/v1/completions", prompt="A: ", max_tokens=100, seed=1, **more).json()["choices"][0]["text"]
            self.assertEqual(list(json.loads(text)), ["name"])
        for more in ({"grammar": 'root ::= "yes" | "no"'}, {"regex": "yes|no"}):
            self.assertIn(self.fine("/v1/completions", prompt="A", seed=1, **more).json()["choices"][0]["text"], ("yes", "no"))
        bad = {"type": "object", "properties": {"a": {"type": 5}}, "required": ["a"]}
        self.refused(400, "/v1/completions", "json_schema", says="/properties/a", prompt="x", json_schema=bad)
        unenforced = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}, "required": ["a"]}
        nothing = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 4}}, "required": ["a"]}
        for schema in (unenforced, nothing, {"properties": {"a": {"nullable": True}}}):
            self.refused(400, "/v1/completions", "json_schema", says="/properties/a", prompt="x", json_schema=schema)
            self.refused(400, "/v1/chat/completions", "response_format.json_schema.schema", says="/properties/a", messages=HI,
                         response_format={"type": "json_schema", "json_schema": {"schema": schema}})
        self.refused(400, "/v1/completions", "grammar", says="line 1", prompt="x", grammar="root = ?")
        self.refused(400, "/v1/completions", "regex", prompt="x", regex="(")

    def test_wrong_fields(self):
        path = "/v1/completions"
        self.refused(400, path, "prompt", says="found nothing")
        self.refused(400, path, "prompt", says=["300 tokens", "context is of 256"], prompt=[5] * 300)
        self.refused(400, path, "temperature", says="from -1 to 100, found 1000", prompt="x", temperature=1000)
        self.refused(400, path, "temperature", says="expected a number, found a string", prompt="x", temperature="hot")
        self.refused(400, path, "top_k", prompt="x", top_k=1.5)
        self.refused(400, path, "n", says="from 1 to 16", prompt="x", n=0)
        self.refused(400, path, "max_tokens", prompt="x", max_tokens=0)
        self.refused(400, path, "stop", says="stop[1]", prompt="x", stop=["a", ""])
        self.refused(400, path, "stop", says="U+0000", prompt="x", stop="\0")
        self.refused(400, path, "logit_bias", says="token id", prompt="x", logit_bias={"-1": 1})
        self.refused(400, path, "stream", prompt="x", stream="yes")
        self.refused(400, path, "prompt[1]", says="prompt[1]", prompt=[1, -5])
        self.refused(400, path, "stream_options.include_usage", prompt="x", stream_options={"include_usage": 3})
        for body, says in ((b"", "JSON"), (b"{", "JSON"), (b'{"prompt": "\xff"}', "UTF-8"), (b"[" * 100, "nested"),
                           (b'{"prompt": "a", "prompt": "b"}', "twice"), (b'{"a": 1e999}', "JSON"), (b"[]", "an object"),
                           (b'"\\ud800"', "JSON")):
            answer = self.server.ask("POST", path, body)
            self.assertEqual(answer.status, 400, body)
            self.assertIn(says, answer.json()["error"]["message"])

    def test_every_truncated_body(self):
        body = json.dumps({"prompt": ["\u00e9\U0001f600", [1, 2]], "max_tokens": 1, "stop": "a\n", "logit_bias": {"5": -1e3}},
                          ensure_ascii=False).encode()
        for n in range(len(body)):
            answer = self.server.ask("POST", "/v1/completions", body[:n])
            self.assertEqual((answer.status, "not valid JSON" in answer.json()["error"]["message"]), (400, True), body[:n])
        self.assertEqual(self.server.ask("POST", "/v1/completions", body).status, 200)

    def test_native(self):
        body = {"prompt": "Once upon", "n_predict": 6, "seed": 2, "n_probs": 2}
        whole = self.fine("/completion", **body).json()
        self.assertEqual(whole["stop_type"], "limit")
        self.assertEqual((whole["tokens_predicted"], len(whole["completion_probabilities"])), (6, 6))
        events = self.fine("/completion", **body, stream=True).events()
        self.assertEqual("".join(e["content"] for e in events), whole["content"])
        self.assertEqual([e["stop"] for e in events][-2:], [False, True])

    def test_infill_without_the_tokens(self):
        self.refused(400, "/infill", "infill", input_prefix="a", input_suffix="b", says="token")


class Chat(ServerCase):
    path = "/v1/chat/completions"
    options = ("-c", 1024)

    def test_whole_and_streamed_are_the_same(self):
        body = {"messages": HI, "max_tokens": 12, "seed": 5, "logprobs": True, "top_logprobs": 2}
        whole = self.fine(self.path, **body).json()["choices"][0]
        self.assertEqual(whole["message"]["role"], "assistant")
        self.assertEqual(len(whole["logprobs"]["content"]), 12)
        self.assertEqual(len(whole["logprobs"]["content"][0]["top_logprobs"]), 2)
        events = self.fine(self.path, **body, stream=True).events()
        self.assertEqual(events.pop(), "[DONE]")
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events), whole["message"]["content"])
        shown = [row for e in events if e["choices"][0]["logprobs"] for row in e["choices"][0]["logprobs"]["content"]]
        self.assertEqual(shown, whole["logprobs"]["content"])
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "length")

    def test_effort_and_input_tokens(self):
        def count(**more):
            return self.fine(self.path + "/input_tokens", messages=HI, **more).json()["input_tokens"]

        prompt = self.fine("/apply-template", messages=HI).json()
        self.assertEqual(count(), prompt["n_tokens"])
        self.assertEqual(count(reasoning_effort="low"), count())  # this template does not know it
        self.refused(400, self.path, "reasoning_effort", says="found 'much'", messages=HI, reasoning_effort="much")

    def test_cached_tokens(self):
        messages = [{"role": "user", "content": "Word " * 60}]
        self.fine(self.path, messages=messages, max_tokens=1)
        usage = self.fine(self.path, messages=messages, max_tokens=1).json()["usage"]
        self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], 50)

    def test_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA, "strict": True}}
        text = self.fine(self.path, messages=HI, max_tokens=100, seed=1, response_format=form).json()
        self.assertEqual(list(json.loads(text["choices"][0]["message"]["content"])), ["name"])

    def test_tools(self):
        tools = [{"type": "function", "function": {"name": "lookup", "parameters": SCHEMA}}]
        body = {"messages": HI, "tools": tools, "max_tokens": 200, "seed": 1, "parallel_tool_calls": False}
        answer = self.server.post(self.path, **body, tool_choice="required")
        if self.server.ask("GET", "/props").json()["chat_template_caps"]["enforced_tool_calls"] == 0:
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "tool_choice"))
        else:
            choice = answer.json()["choices"][0]
            self.assertEqual(choice["finish_reason"], "tool_calls", answer.body)
            call = choice["message"]["tool_calls"][0]
            self.assertEqual(call["function"]["name"], "lookup")
            self.assertEqual(list(json.loads(call["function"]["arguments"])), ["name"])
            events = self.fine(self.path, **body, tool_choice="required", stream=True).events()[:-1]
            deltas = [d for e in events for d in e["choices"][0]["delta"].get("tool_calls", [])]
            # The name first, with an id, and the arguments as they are written.
            self.assertEqual((deltas[0]["function"], deltas[0]["type"]), ({"name": "lookup", "arguments": ""}, "function"))
            self.assertTrue(deltas[0]["id"].startswith("call_"))
            self.assertTrue(all(set(d) == {"index", "function"} and d["index"] == 0 for d in deltas[1:]), deltas)
            self.assertGreater(len(deltas), 4)
            self.assertEqual("".join(d["function"]["arguments"] for d in deltas), call["function"]["arguments"])
        self.refused(400, self.path, "tool_choice", messages=HI, tool_choice="required")
        tools[0]["function"]["parameters"] = {"properties": {"a": {"uniqueItems": True}}}
        self.refused(400, self.path, "tools", says=['"lookup"', "/properties/a"], messages=HI, tools=tools)
        tools[0]["function"]["parameters"] = SCHEMA
        self.refused(400, self.path, "tool_choice", messages=HI, tools=tools, tool_choice="perhaps")

    def test_a_call_that_breaks_off(self):
        long = {"type": "object", "properties": {"name": {"type": "string", "minLength": 900}}, "required": ["name"]}
        tools = [{"type": "function", "function": {"name": "lookup", "parameters": long}}]
        body = {"messages": HI, "tools": tools, "tool_choice": "required", "max_tokens": 120, "seed": 1}
        choice = self.fine(self.path, **body).json()["choices"][0]
        call = choice["message"]["tool_calls"][0]["function"]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"], call["name"]), ("length", None, "lookup"))
        events = self.fine(self.path, **body, stream=True).events()[:-1]
        deltas = [d["function"] for e in events for d in e["choices"][0]["delta"].get("tool_calls", [])]
        self.assertEqual("".join(d["arguments"] for d in deltas), call["arguments"])

    def test_wrong_fields(self):
        self.refused(400, self.path, "messages", says="found nothing")
        self.refused(400, self.path, "messages[0].role", messages=[{"role": 5, "content": "x"}])
        self.refused(400, self.path, "top_logprobs", messages=HI, top_logprobs=2)
        self.refused(400, self.path, "response_format.type", messages=HI, response_format={"type": "xml"})
        self.refused(400, self.path, "messages", says="the context is of", messages=[{"role": "user", "content": "a " * 9000}])


THINKS = """{% if reasoning_effort %}Effort: {{ reasoning_effort }}. {% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}"""


class Reasoning(ServerCase):
    path = "/v1/chat/completions"

    @classmethod
    def setUpClass(cls):
        cls.template = tempfile.NamedTemporaryFile("w", suffix=".jinja")
        cls.template.write(THINKS)
        cls.template.flush()
        cls.options = ("-c", 512, "--chat-template", cls.template.name)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.template.close()

    def test_budget(self):
        body = {"messages": HI, "max_tokens": 60, "seed": 1, "ignore_eos": True, "logprobs": True}
        free = self.fine(self.path, **body).json()["choices"][0]
        self.assertEqual(free["message"]["content"], "")
        for name in ("reasoning_budget", "thinking_budget_tokens"):
            for budget in (0, 5, 20):
                choice = self.fine(self.path, **body, **{name: budget}).json()["choices"][0]
                tokens = [row["token"].strip() for row in choice["logprobs"]["content"]]
                thought = choice["message"].get("reasoning_content", "")
                self.assertEqual("".join(tokens[:budget]), "".join(thought.split()))
                self.assertTrue("".join(tokens[budget:]).startswith("</think>"), tokens)
                self.assertTrue(choice["message"]["content"])
                self.assertTrue(free["message"]["reasoning_content"].startswith(thought.strip()))
        unlimited = self.fine(self.path, **body, reasoning_budget=-1).json()["choices"][0]
        self.assertEqual(unlimited["message"], free["message"])

    def test_effort(self):
        for more in ({"reasoning_effort": "high"}, {"chat_template_kwargs": {"reasoning_effort": "high"}, "reasoning_effort": "low"}):
            self.assertIn("Effort: high.", self.fine("/apply-template", messages=HI, **more).json()["prompt"])

    def test_budget_and_a_form(self):
        form = {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}
        answer = self.fine(self.path, messages=HI, max_tokens=200, seed=1, reasoning_budget=10, response_format=form).json()
        message = answer["choices"][0]["message"]
        self.assertTrue(message["reasoning_content"])
        self.assertEqual(list(json.loads(message["content"])), ["name"])


if __name__ == "__main__":
    main()
