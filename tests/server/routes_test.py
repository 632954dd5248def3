"""The routes: their answers, and errors for invalid requests."""
import base64
import json
import struct
import tempfile
import time

from server_case import MODEL, ServerCase, main, raw

HI = [{"role": "user", "content": "Tell me of a ship."}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"],
          "additionalProperties": False}


class Information(ServerCase):
    options = ("-c", 2048)

    def get(self, path):
        answer = self.server.ask("GET", path)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def test_descriptions(self):
        self.assertEqual(self.get("/health").json(), {"status": "ok"})
        model = self.get("/v1/models").json()["data"][0]
        self.assertEqual(model["id"], "tessera-tiny")
        self.assertEqual(model["meta"]["size"], MODEL.stat().st_size)
        props = self.get("/props").json()
        self.assertEqual(props["total_slots"], 8)
        self.assertTrue(props["eos_token"])
        self.assertIn("temperature", props["default_generation_settings"]["params"])
        defaults = props["default_generation_settings"]
        self.assertEqual((defaults["id"], defaults["is_processing"], defaults["params"]["n_predict"]), (0, False, -1))
        self.assertEqual([slot["id"] for slot in self.get("/slots").json()], list(range(8)))

    def test_slots(self):
        def busy():
            return [slot for slot in self.get("/slots").json() if slot["is_processing"]]

        def until(done):
            deadline = time.monotonic() + 20
            while not done(found := busy()):
                self.assertLess(time.monotonic(), deadline, found)
                time.sleep(0.01)
            return found

        with self.server.connect() as connection:
            body = {"prompt": "Once upon a time", "n_predict": 3000, "ignore_eos": True, "stream": True, "n": 2}
            connection.sendall(raw("/completion", body))
            two = until(lambda found: len(found) == 2 and all(s["next_token"][0]["n_decoded"] > 2 for s in found))
            self.assertEqual([slot["id"] for slot in two], [0, 1])
            self.assertEqual(len({slot["id_task"] for slot in two}), 2)
            for slot in two:
                read, known = slot["n_prompt_tokens_processed"], slot["n_prompt_tokens_cache"]
                self.assertEqual(slot["n_prompt_tokens"], read + known)
                row = slot["next_token"][0]
                self.assertEqual(row["n_decoded"] + row["n_remain"], 3000)
        self.assertEqual(until(lambda found: not found), [])

    def test_metrics(self):
        self.fine("/v1/completions", prompt="Once", max_tokens=5, ignore_eos=True)
        answered = 'tessera_responses_total{route="/v1/completions",status="200"}'
        deadline, values = time.monotonic() + 20, {}
        while answered not in values:  # an answer is counted after it is sent, which its reader may see before
            self.assertLess(time.monotonic(), deadline, values)
            text = self.get("/metrics").body.decode()
            values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        self.assertGreaterEqual(int(values[answered]), 1)
        self.assertGreaterEqual(int(values["tessera_generated_tokens_total"]), 5)
        self.assertGreaterEqual(int(values["tessera_time_to_first_token_seconds_count"]), 1)
        self.assertGreaterEqual(int(values["tessera_inter_token_seconds_count"]), 4)
        self.assertEqual(values['tessera_queue_seconds_bucket{le="+Inf"}'], values["tessera_queue_seconds_count"])

    def test_openapi(self):
        api = self.get("/openapi.json").json()
        for path, operations in api["paths"].items():
            for method in operations:
                # An empty object lacks each body's required fields, if any; None sends no body.
                path = path.replace("{model}", "tessera-tiny")
                answer = self.server.ask(method.upper(), path, {} if method == "post" else None)
                schema = operations[method].get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                if schema and "required" in schema:
                    self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, schema["required"][0]), path)
                elif method == "get":
                    self.assertEqual(answer.status, 200, path)
                # Each listed field is checked.
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
        self.refused(400, "/tokenize", "content", says="expected a string or an array, found a number", content=5)

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
        # More inputs than are computed in a batch give the same as each alone.
        many = ["a ship", "x " * 200] + [f"tree number {i}" for i in range(20)]
        for pooling in ("last", "mean"):
            alone = [vectors(input=text, pooling=pooling)[0] for text in many]
            self.assertEqual(vectors(input=many, pooling=pooling), alone)
        usage = self.fine("/v1/embeddings", input=[[5, 6, 7], [8]], user="me").json()["usage"]
        self.assertEqual(usage, {"prompt_tokens": 4, "total_tokens": 4})
        self.fine("/v1/embeddings", input="word " * 500)
        self.refused(400, "/v1/embeddings", "input", says=["2048", "2049"], input=["x"] * 2049)
        native = self.fine("/embedding", content=["a tree", "a ship"]).json()
        self.assertEqual([row["index"] for row in native], [0, 1])
        self.assertEqual([row["embedding"][0] for row in native], both[::-1])
        raw_one = self.fine("/embedding", content="a tree", embd_normalize=-1).json()[0]["embedding"][0]
        self.assertNotAlmostEqual(sum(x * x for x in raw_one), 1, 2)
        self.refused(400, "/embedding", "embd_normalize", content="x", embd_normalize=1)
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
        settings = biased["generation_settings"]
        self.assertEqual((settings["temperature"], settings["n_predict"], settings["ignore_eos"]), (0, 3, True))
        self.assertIn(f"{ids[-1]}+1000", settings["logit_bias"])
        lettered = self.fine("/completion", prompt="Once", n_predict=1, samplers="kpt", top_k=3).json()
        self.assertEqual((lettered["generation_settings"]["samplers"], lettered["generation_settings"]["top_k"]), ("kpt", 3))
        self.refused(400, "/completion", "samplers", says="expected names", prompt="Once", samplers="kpz")

    def test_texts_and_ids_become_tokens(self):
        one = self.fine("/tokenize", content="A ship").json()["tokens"]
        two = self.fine("/tokenize", content=" at sea").json()["tokens"]
        self.assertEqual(self.fine("/tokenize", content=["A ship", 7, " at sea"]).json()["tokens"], [*one, 7, *two])
        self.assertEqual(self.fine("/tokenize", content=[]).json()["tokens"], [])
        self.refused(400, "/tokenize", "content[1]", content=["x", {}])

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
        self.refused(400, path, "prompt", says=["300 tokens", "context holds 256"], prompt=[5] * 300)
        self.refused(400, path, "temperature", says="from -1 to 100, found 1000", prompt="x", temperature=1000)
        self.refused(400, path, "temperature", says="expected a number, found a string", prompt="x", temperature="hot")
        self.refused(400, path, "top_k", prompt="x", top_k=1.5)
        self.refused(400, path, "n", says="from 1 to 16", prompt="x", n=0)
        self.refused(400, path, "max_tokens", prompt="x", max_tokens=-2)
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

    def test_indentation(self):
        body = {"prompt": "def f():", "n_predict": 60, "grammar": 'root ::= "\\n    a\\n\\n  b\\nc"'}
        for n_indent, kept in ((0, "\n    a\n\n  b\nc"), (1, "\n    a\n\n  b\n"), (3, "\n    a\n\n"), (5, "\n")):
            answer = self.fine("/completion", **body, n_indent=n_indent).json()
            self.assertEqual((answer["content"], answer["stop_type"]), (kept, "limit" if n_indent else "eos"))
            self.assertEqual(answer["generation_settings"]["n_indent"], n_indent)
            events = self.fine("/completion", **body, n_indent=n_indent, stream=True).events()
            self.assertEqual("".join(e["content"] for e in events), kept)
        self.refused(400, "/completion", "n_indent", **body, n_indent=-1)

    def test_known_prompts(self):
        body = {"prompt": "Once " * 60, "n_predict": 8, "seed": 1, "id_slot": 1}
        answers = [self.fine("/completion", **body, **more).json() for more in ({}, {}, {"cache_prompt": False})]
        self.assertEqual(len({a["content"] for a in answers}), 1)
        self.assertGreater(answers[1]["timings"]["cache_n"], 50)
        self.assertEqual((answers[2]["timings"]["cache_n"], answers[2]["tokens_cached"]), (0, 0))
        self.assertEqual(answers[2]["timings"]["prompt_n"], answers[2]["tokens_evaluated"])

    def test_adapters(self):
        self.assertEqual(self.server.ask("GET", "/lora-adapters").json(), [])
        self.assertEqual(self.server.ask("POST", "/lora-adapters", []).json(), {"success": True})
        for path, body in (("/lora-adapters", [{"id": 0, "scale": 1}]), ("/completion", {"prompt": "a", "lora": [{"id": 0}]}),
                           ("/v1/chat/completions", {"messages": HI, "lora": [{"id": 0, "scale": 0.5}]})):
            answer = self.server.ask("POST", path, body)
            message = answer.json()["error"]["message"]
            self.assertEqual(answer.status, 400)
            self.assertIn("[0].id: expected no adapter, since the server has none, found 0", message)
        self.assertEqual(self.server.ask("POST", "/lora-adapters", {}).status, 400)
        self.assertEqual(self.server.ask("POST", "/lora-adapters", [5]).status, 400)
        self.fine("/completion", prompt="a", n_predict=1, lora=[])

    def test_native(self):
        body = {"prompt": "Once upon", "n_predict": 6, "seed": 2, "n_probs": 2}
        whole = self.fine("/completion", **body).json()
        self.assertEqual(whole["stop_type"], "limit")
        self.assertEqual((whole["tokens_predicted"], len(whole["completion_probabilities"])), (6, 6))
        events = self.fine("/completion", **body, stream=True).events()
        self.assertEqual("".join(e["content"] for e in events), whole["content"])
        self.assertEqual([e["stop"] for e in events][-2:], [False, True])

    def test_response_fields(self):
        body = {"prompt": "Once upon", "n_predict": 4, "seed": 2}
        fields = ["content", "timings/predicted_n", "timings/nothing", "content/x"]
        some = self.fine("/completion", **body, response_fields=fields).json()
        self.assertEqual(some, {"content": self.fine("/completion", **body).json()["content"], "timings/predicted_n": 4})
        self.assertEqual(self.fine("/completion", **body, response_fields=["stop"], stream=True).events()[-1], {"stop": True})
        self.assertEqual(self.fine("/completion", **body, response_fields=[""]).json(), {})  # no fields
        self.refused(400, "/completion", "response_fields[0]", prompt="x", response_fields=[5])

    def test_prompt_only(self):
        """Clients compute a prompt in advance, so that the next request finds it cached."""
        ids = [7 + i % 150 for i in range(120)]
        for path, name in (("/completion", "n_predict"), ("/v1/completions", "max_tokens")):
            ids.append(3)
            answer = self.fine(path, prompt=ids, **{name: 0}).json()
            self.assertEqual(answer["timings"]["predicted_n"], 0)
            self.assertEqual(answer["timings"]["prompt_n"] + answer["timings"]["cache_n"], len(ids))
            self.assertEqual(self.fine(path, prompt=ids, **{name: 2}).json()["timings"]["prompt_n"], 1)
        self.assertEqual((answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]), ("", "length"))
        echo = self.fine("/v1/completions", prompt="Once", max_tokens=0, echo=True, stream=True).events()
        self.assertEqual("".join(e["choices"][0]["text"] for e in echo[:-1]), "Once")

    def test_timings_per_token(self):
        body = {"prompt": "Once upon", "max_tokens": 5, "seed": 2, "ignore_eos": True, "stream": True}
        for path in ("/completion", "/v1/completions"):
            timings = [e["timings"] for e in self.fine(path, **body, timings_per_token=True).events() if e != "[DONE]"]
            for name in ("predicted_n", "predicted_ms"):
                rising = [t[name] for t in timings[:-1]]
                self.assertEqual(sorted(rising), rising)
            self.assertEqual((timings[0]["predicted_n"], timings[-1]["predicted_n"]), (1, 5))
            self.assertGreater(timings[0]["prompt_ms"], 0)
            plain = self.fine(path, **body).events()
            self.assertFalse([e for e in plain[:4] if "timings" in e or "prompt_progress" in e])

    def test_progress(self):
        ids = [5 + i % 190 for i in range(200)]
        for path in ("/completion", "/v1/completions"):
            ids = ids[::-1] if path == "/completion" else ids
            for n_known in (0, 190):
                events = self.fine(path, prompt=ids, max_tokens=2, stream=True, return_progress=True).events()
                told = [e["prompt_progress"] for e in events if "prompt_progress" in e]
                self.assertTrue(all("prompt_progress" in e for e in events[:len(told)]), events)
                self.assertTrue(all(t["total"] == 200 and t["cache"] == told[0]["cache"] for t in told), told)
                self.assertGreaterEqual(told[0]["cache"], n_known)
                self.assertEqual((told[0]["processed"], told[-1]["processed"]), (told[0]["cache"], 200))
                self.assertEqual(sorted(t["time_ms"] for t in told), [t["time_ms"] for t in told])

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
        # Tokens with the spaces in front of them.
        self.assertEqual("".join(row["token"] for row in whole["logprobs"]["content"]), whole["message"]["content"])
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
        self.assertEqual(count(reasoning_effort="low"), count())  # this template does not use it
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
            # First the name with an id, then the arguments as they are generated.
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

    def test_no_call(self):
        """Neither free text nor a requested response format contains a call if tools are off."""
        tools = [{"type": "function", "function": {"name": "lookup", "parameters": SCHEMA}}]
        body = {"messages": HI, "tools": tools, "tool_choice": "none", "max_tokens": 60, "seed": 1}
        trigger = self.fine("/tokenize", content="<tool_call>").json()["tokens"]
        wanted = {"logit_bias": {str(id): 1000 for id in trigger}, "temperature": 0}
        choice = self.fine(self.path, **body, **wanted).json()["choices"][0]
        self.assertNotIn("<tool_call>", choice["message"]["content"])
        self.assertNotIn("tool_calls", choice["message"])
        call = '<tool_call>{"name": "lookup", "arguments": {"name": "x"}}</tool_call>'
        for more in ({}, {"tools": None}):
            answer = self.fine(self.path, **body | more, grammar="root ::= " + json.dumps(call)).json()["choices"][0]
            self.assertEqual((answer["message"]["content"], answer["finish_reason"]), (call, "stop"))
            events = self.fine(self.path, **body | more, grammar="root ::= " + json.dumps(call), stream=True).events()[:-1]
            self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events), call)
        count = [self.fine(self.path + "/input_tokens", messages=HI, tools=tools, tool_choice=choice).json()["input_tokens"]
                 for choice in ("auto", "none")]
        self.assertEqual(count[0], count[1])

    def test_progress_and_timings(self):
        body = {"messages": HI, "max_tokens": 4, "seed": 1, "ignore_eos": True, "stream": True}
        events = self.fine(self.path, **body, return_progress=True, timings_per_token=True).events()[:-1]
        told = [e for e in events if "prompt_progress" in e]
        self.assertTrue(all(e["choices"][0]["delta"] == {} for e in told), told)
        self.assertEqual(told[-1]["prompt_progress"]["processed"], told[-1]["prompt_progress"]["total"])
        self.assertEqual(events[-1]["timings"]["predicted_n"], 4)
        self.assertTrue(all("timings" in e for e in events[1:]))

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
        self.refused(400, self.path, "messages", says="the context holds 1024", messages=[{"role": "user", "content": "a " * 9000}])


class BuiltInTemplate(ServerCase):
    options = ("-c", 512, "--chat-template", "zephyr")

    def test_is_used(self):
        self.assertIn("<|user|>\nTell me of a ship.", self.fine("/apply-template", messages=HI).json()["prompt"])


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

    def test_format(self):
        body = {"messages": HI, "max_tokens": 40, "seed": 1, "reasoning_budget": 5}
        apart = self.fine(self.path, **body, reasoning_format="deepseek").json()["choices"][0]["message"]
        self.assertEqual(apart, self.fine(self.path, **body, reasoning_format="auto").json()["choices"][0]["message"])
        whole = self.fine(self.path, **body, reasoning_format="none").json()["choices"][0]["message"]
        self.assertNotIn("reasoning_content", whole)
        begin, thoughts, rest = "<think>", *whole["content"].removeprefix("<think>").split("</think>", 1)
        self.assertEqual((whole["content"][:7], thoughts.strip(), rest.strip()),
                         (begin, apart["reasoning_content"].strip(), apart["content"].strip()))
        events = self.fine(self.path, **body, reasoning_format="none", stream=True).events()[:-1]
        self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events), whole["content"])
        twice = self.fine(self.path, **body, reasoning_format="deepseek-legacy").json()["choices"][0]["message"]
        self.assertEqual((twice["content"], twice["reasoning_content"]), (whole["content"], apart["reasoning_content"]))
        events = self.fine(self.path, **body, reasoning_format="deepseek-legacy", stream=True).events()[:-1]
        for name in ("content", "reasoning_content"):
            self.assertEqual("".join(e["choices"][0]["delta"].get(name, "") for e in events), twice[name])
        self.refused(400, self.path, "reasoning_format", says="found 'all'", messages=HI, reasoning_format="all")

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
