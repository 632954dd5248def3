// OpenAI's client from npm against `tessera serve`, unchanged. Run in the folder that has it in node_modules:
//   node --test openai_client.mjs, with URL, URL_SMALL (a context of 256, one at a time, one waiting) and URL_KEYS
//   (the key is "right") in the environment.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

const OpenAI = createRequire(process.cwd() + "/")("openai").default;
const connect = (url, more = {}) => new OpenAI({ baseURL: url + "/v1", apiKey: "any", maxRetries: 0, ...more });
const client = connect(process.env.URL), small = connect(process.env.URL_SMALL);

const model = "tessera-tiny";
const messages = [{ role: "system", content: "You tell stories." }, { role: "user", content: "Tell me of a ship." }];
const schema = {
  type: "object",
  properties: { name: { type: "string", maxLength: 12 }, brave: { type: "boolean" } },
  required: ["name", "brave"],
  additionalProperties: false,
};
const tools = ["weather", "lookup"].map((name) => ({ type: "function", function: { name, parameters: schema, strict: true } }));

const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};
const says = (error, status, type, param, code) => {
  assert.equal(error.status, status, String(error));
  assert.equal(error.type, type);
  if (param !== undefined) assert.equal(error.param, param);
  if (code !== undefined) assert.equal(error.code, code);
  assert.ok(error.requestID);
  return true;
};

test("models", async () => {
  const list = await client.models.list();
  assert.deepEqual(list.data.map((row) => [row.id, row.object]), [[model, "model"]]);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("another"), (e) => says(e, 404, "invalid_request_error", "model"));
});

test("chat", async () => {
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 12, seed: 7 });
  const choice = answer.choices[0];
  assert.equal(answer.object, "chat.completion");
  assert.equal(choice.message.role, "assistant");
  assert.ok(choice.message.content.length > 0);
  assert.equal(choice.finish_reason, "length");
  assert.equal(answer.usage.completion_tokens, 12);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 12);
});

test("chat as a stream with its usage", async () => {
  const body = { model, messages, max_completion_tokens: 12, seed: 7 };
  const whole = await client.chat.completions.create(body);
  const chunks = await collect(
    await client.chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } }));
  const text = chunks.map((c) => c.choices[0]?.delta.content ?? "").join("");
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, 12);
  assert.equal(chunks.at(-2).choices[0].finish_reason, "length");
});

test("a stream that is left early", async () => {
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 400, stream: true });
  let n = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    if (++n === 5) break;
  }
  assert.equal((await client.chat.completions.create({ model, messages, max_tokens: 1 })).choices.length, 1);
});

test("several answers", async () => {
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 8, n: 2, seed: 7 });
  assert.deepEqual(answer.choices.map((c) => c.index), [0, 1]);
  const chunks = await collect(
    await client.chat.completions.create({ model, messages, max_tokens: 8, n: 2, seed: 7, stream: true }));
  for (const i of [0, 1]) {
    const own = chunks.flatMap((c) => c.choices).filter((c) => c.index === i);
    assert.equal(own.map((c) => c.delta.content ?? "").join(""), answer.choices[i].message.content);
  }
});

test("a required call of a tool", async () => {
  const body = { model, messages, tools, tool_choice: "required", parallel_tool_calls: false, max_tokens: 600, seed: 3 };
  const answer = await client.chat.completions.create(body);
  const call = answer.choices[0].message.tool_calls[0];
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  assert.ok(["weather", "lookup"].includes(call.function.name));
  assert.deepEqual(Object.keys(JSON.parse(call.function.arguments)), ["name", "brave"]);
  const next = [...messages, answer.choices[0].message, { role: "tool", tool_call_id: call.id, content: "sunny" }];
  assert.equal((await client.chat.completions.create({ model, messages: next, tools, max_tokens: 4 })).choices.length, 1);
});

test("the calls of a stream", async () => {
  const choice = { type: "function", function: { name: "lookup" } };
  const body = { model, messages, tools, tool_choice: choice, parallel_tool_calls: false, max_tokens: 600, seed: 3 };
  const whole = (await client.chat.completions.create(body)).choices[0].message.tool_calls;
  const pieces = (await collect(await client.chat.completions.create({ ...body, stream: true })))
    .flatMap((c) => c.choices[0].delta.tool_calls ?? []);
  assert.equal(pieces[0].function.name, "lookup");
  assert.ok(pieces[0].id && pieces.length > 4, JSON.stringify(pieces));
  assert.ok(pieces.slice(1).every((p) => p.index === 0 && !p.id && p.function.arguments.length > 0));
  // The client's own helper puts the pieces together.
  const answer = await client.chat.completions.stream(body).finalChatCompletion();
  const calls = answer.choices[0].message.tool_calls;
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  assert.deepEqual(calls.map((c) => c.function.name), ["lookup"]);
  assert.deepEqual(JSON.parse(calls[0].function.arguments), JSON.parse(whole[0].function.arguments));
});

test("an answer that satisfies a schema", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "person", schema, strict: true } };
  const answer = await client.chat.completions.parse({ model, messages, response_format, max_tokens: 600, seed: 3 });
  const parsed = answer.choices[0].message.parsed;
  assert.equal(typeof parsed.name, "string");
  assert.equal(typeof parsed.brave, "boolean");
});

test("log probabilities", async () => {
  const body = { model, messages, max_tokens: 4, logprobs: true, top_logprobs: 3, temperature: 0 };
  const rows = (await client.chat.completions.create(body)).choices[0].logprobs.content;
  assert.equal(rows.length, 4);
  for (const row of rows) {
    assert.equal(row.top_logprobs.length, 3);
    assert.equal(row.top_logprobs[0].token, row.token);
    assert.ok(row.logprob <= 0 && Array.isArray(row.bytes));
  }
});

test("completions", async () => {
  const body = { model, prompt: ["Once upon", "The sea"], max_tokens: 6, seed: 1, logprobs: 2 };
  const whole = await client.completions.create(body);
  assert.equal(whole.choices.length, 2);
  assert.equal(whole.choices[1].logprobs.tokens.length, 6);
  const chunks = await collect(await client.completions.create({ ...body, stream: true }));
  const second = chunks.flatMap((c) => c.choices).filter((c) => c.index === 1);
  assert.equal(second.map((c) => c.text).join(""), whole.choices[1].text);
});

test("embeddings", async () => {
  const input = ["a ship", "a tree", "a much longer text about a ship at sea"];
  // The client asks for base64 unless it is told otherwise.
  const packed = await client.embeddings.create({ model, input });
  const plain = await client.embeddings.create({ model, input, encoding_format: "float" });
  assert.equal(packed.data.length, 3);
  assert.ok(plain.usage.prompt_tokens > 3);
  for (let i = 0; i < 3; i++) {
    assert.deepEqual([...packed.data[i].embedding], [...plain.data[i].embedding].map(Math.fround));
    const length = Math.hypot(...plain.data[i].embedding);
    assert.ok(Math.abs(length - 1) < 1e-4, String(length));
  }
});

test("a prompt beyond the context", async () => {
  const long = [{ role: "user", content: "word ".repeat(2000) }];
  await assert.rejects(small.chat.completions.create({ model, messages: long }),
    (e) => says(e, 400, "invalid_request_error", "messages", "context_length_exceeded") && /the context holds 256/.test(e.message));
});

test("wrong fields", async () => {
  const wrong = (field, value) => client.chat.completions.create({ model, messages, [field]: value });
  for (const [field, value] of [["temperature", "hot"], ["n", 0], ["top_logprobs", 3], ["stop", 5], ["messages", "Hi"]])
    await assert.rejects(wrong(field, value), (e) => says(e, 400, "invalid_request_error", field));
  const broken = { type: "object", properties: { a: { type: 5 } } };
  await assert.rejects(
    wrong("response_format", { type: "json_schema", json_schema: { name: "x", schema: broken } }),
    (e) => says(e, 400, "invalid_request_error", "response_format.json_schema.schema") && /\/properties\/a/.test(e.message));
});

test("keys", async () => {
  const url = process.env.URL_KEYS;
  await assert.rejects(connect(url).models.list(), (e) => says(e, 401, "authentication_error", null, "invalid_api_key"));
  assert.equal((await connect(url, { apiKey: "right" }).models.list()).data.length, 1);
});

test("a full queue, and what the client makes of it", async () => {
  const body = { model, messages: [{ role: "user", content: "Hi" }], max_tokens: 60, logit_bias: { 2: -100 } };
  const asked = Array.from({ length: 12 }, () => small.chat.completions.create(body).then(() => null, (e) => e));
  const errors = (await Promise.all(asked)).filter((e) => e);
  assert.ok(errors.length > 0 && errors.length < 12, String(errors.length));
  for (const e of errors) says(e, 429, "rate_limit_error", null, "queue_full");
  // It waits as Retry-After says, and asks again.
  const patient = connect(process.env.URL_SMALL, { maxRetries: 9 });
  const answers = await Promise.all(Array.from({ length: 4 }, () => patient.chat.completions.create({ ...body, max_tokens: 2 })));
  assert.equal(answers.length, 4);
});
