// The chat page in a browser. Run in the folder that has playwright-core in node_modules: node --test page_test.mjs,
// with URL (a server with a context of 1024), URL_LONG (one that takes long to get full), URL_KEYS (the key is
// "key-7391"), BROWSER (Chromium's path) and SHOTS (a folder) in the environment. Where an answer has to be a certain
// one, the test gives it in the server's place.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

const { chromium } = createRequire(process.cwd() + "/")("playwright-core");
const { URL: url, URL_LONG, URL_KEYS, BROWSER, SHOTS } = process.env;
const ROUTE = "**/v1/chat/completions";
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Runs `body` with a page of a fresh browser profile, on which nothing may go wrong unnoticed. */
function onPage(name, body, options = {}) {
  test(name, { timeout: 300000 }, async () => {
    const context = await browser.newContext({ viewport: { width: 1180, height: 800 }, ...options });
    const page = await context.newPage();
    const wrong = [];
    page.on("pageerror", (error) => wrong.push(String(error)));
    page.on("console", (line) => {
      // Chromium reports each refused request, which some tests are about.
      if (line.type() === "error" && !line.text().startsWith("Failed to load resource")) wrong.push(line.text());
    });
    page.setDefaultTimeout(60000);
    await page.goto(options.url ?? url);
    if (options.url !== URL_KEYS) await page.locator("#tune:enabled").waitFor();
    await body(page, context);
    assert.deepEqual(wrong, []);
    await context.close();
  });
}

const event = (more) => `data: ${JSON.stringify(more)}\n\n`;
const delta = (more, finish = null) => event({ choices: [{ index: 0, delta: more, finish_reason: finish }] });
const tail = (usage = { completion_tokens: 42, total_tokens: 120 }) =>
  event({ choices: [], usage, timings: { predicted_per_second: 18.25 } }) + "data: [DONE]\n\n";

/** Answers in the server's place: `content` whole, and `reasoning` before it. Returns the requests' bodies. */
async function answerWith(page, content, { reasoning = "", finish = "stop", usage } = {}) {
  const bodies = [];
  await page.route(ROUTE, (route) => {
    bodies.push(route.request().postDataJSON());
    const thoughts = reasoning ? delta({ reasoning_content: reasoning }) : "";
    const body = thoughts + delta({ content }) + delta({}, finish) + tail(usage);
    return route.fulfill({ status: 200, contentType: "text/event-stream", body });
  });
  return bodies;
}

const last = (page, role) => page.locator(`.message.${role}`).last();
const answered = (page, text) => page.locator(".assistant > .text", { hasText: text }).waitFor();
const idle = (page) => page.locator("#send:visible").waitFor();

async function say(page, text) {
  await page.locator("#input").fill(text);
  await page.keyboard.press("Enter");
}

async function exchange(page, text) {
  await say(page, text);
  await idle(page);
  await last(page, "assistant").locator(".figures").waitFor();
}

/** Sets the conversation up so that the model does not end by itself. */
async function neverEnd(page, n = "") {
  await page.locator("#tune").click();
  await page.getByLabel("longest answer").fill(String(n));
  await page.locator("summary", { hasText: "More" }).click();
  await page.getByLabel("logit bias").fill("2-inf,4-inf");
  await page.getByRole("button", { name: "Done" }).click();
}

onPage("a message is answered as the model writes", async (page) => {
  assert.equal(await page.locator("#model").textContent(), "tessera-tiny");
  assert.ok(await page.locator("#welcome").isVisible());
  await neverEnd(page, 600);
  await page.evaluate(() => {
    window.lengths = new Set();
    new MutationObserver(() => window.lengths.add(document.querySelector("#messages").textContent.length))
      .observe(document.querySelector("#messages"), { subtree: true, childList: true, characterData: true });
  });
  await exchange(page, "Tell me of a ship.");
  assert.equal(await last(page, "user").locator(".text").textContent(), "Tell me of a ship.");
  assert.ok((await last(page, "assistant").locator(".text").textContent()).length > 0);
  const figures = await last(page, "assistant").locator(".figures").textContent();
  assert.match(figures, /^600 tokens \u00b7 [\d.]+ tokens\/s$/);
  assert.match(await page.locator("#context").textContent(), / of 1,024 tokens/);
  assert.ok(await page.evaluate(() => window.lengths.size) > 4, "the text came at once");
  assert.equal(await page.title(), "Tell me of a ship. \u2013 tessera");
});

onPage("stopping keeps what came, and the answer can be gone on with", async (page) => {
  await neverEnd(page);
  await say(page, "Hello");
  await page.locator(".live .text").waitFor();
  await page.screenshot({ path: `${SHOTS}/streaming.png` });
  await page.keyboard.press("Escape");
  await page.getByText("Stopped.").waitFor();
  const text = await last(page, "assistant").locator(".text").textContent();
  const bodies = await answerWith(page, " and on.");
  await page.getByRole("button", { name: "Continue" }).click();
  await idle(page);
  assert.equal(bodies[0].continue_final_message, true);
  assert.equal(bodies[0].messages.at(-1).role, "assistant");
  assert.ok((await last(page, "assistant").locator(".text").textContent()).startsWith(text.trimEnd().slice(0, 5)));
  assert.ok((await last(page, "assistant").locator(".text").textContent()).endsWith(" and on."));
  assert.equal(await page.locator(".message").count(), 2);
}, { url: URL_LONG });

onPage("retry and edit keep the earlier versions, delete can be undone", async (page) => {
  const bodies = await answerWith(page, "First.");
  await exchange(page, "Question");
  await page.unroute(ROUTE);
  await answerWith(page, "Second.");
  await last(page, "assistant").getByRole("button", { name: "Retry" }).click();
  await answered(page, "Second.");
  await page.getByText("2/2").waitFor();
  await page.getByRole("button", { name: "Earlier version" }).click();
  await answered(page, "First.");
  assert.equal(await page.evaluate(() => document.activeElement.id), "input");  // the arrow has gone
  await page.unroute(ROUTE);
  const edited = await answerWith(page, "Third.");
  await last(page, "user").getByRole("button", { name: "Edit" }).click();
  await page.keyboard.press("Escape");
  await last(page, "user").getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edit the message").fill("Another question");
  await page.keyboard.press("Enter");
  await answered(page, "Third.");
  assert.deepEqual(edited[0].messages, [{ role: "user", content: "Another question" }]);
  assert.equal(bodies.length, 1);
  await last(page, "user").getByRole("button", { name: "Delete" }).click();
  await answered(page, "First.");
  await page.getByRole("button", { name: "Undo" }).click();
  await answered(page, "Third.");
  // The whole conversation.
  await page.getByRole("button", { name: "Delete this conversation" }).click();
  assert.equal(await page.locator(".message").count(), 0);
  await page.getByRole("button", { name: "Undo" }).click();
  await answered(page, "Third.");
});

const CODE = "Here:\n\n```python\ndef f():\n    return \"<b>no</b>\"\n```\n\n" +
  "A list:\n- **one** `x`\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n> quoted\n\n## Head\n\n`open ** and * stay";
onPage("code has a block of its own, and a button that copies it", async (page, context) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await answerWith(page, CODE);
  await exchange(page, "Code?");
  const block = last(page, "assistant").locator(".code");
  assert.equal(await block.locator("figcaption span").textContent(), "python");
  assert.equal(await block.locator("pre").textContent(), "def f():\n    return \"<b>no</b>\"");
  await block.getByRole("button", { name: "Copy code" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "def f():\n    return \"<b>no</b>\"");
  assert.equal(await last(page, "assistant").locator("strong").textContent(), "one");
  assert.equal(await last(page, "assistant").locator(".item").count(), 2);
  assert.deepEqual(await last(page, "assistant").locator("th, td").allTextContents(), ["a", "b", "1", "2"]);
  assert.equal(await last(page, "assistant").locator("blockquote").textContent(), "quoted");
  assert.equal(await last(page, "assistant").locator("h4").textContent(), "Head");
  assert.ok((await last(page, "assistant").textContent()).includes("`open ** and * stay"));
});

onPage("no text takes long to draw", async (page) => {
  const n = 20000;
  for (const part of ["**a ", "*a", "`a``b", "`", "- ", "|a", "> ", "#", "~~~ `\n", "_*_ "]) {
    await page.unroute(ROUTE);
    await answerWith(page, part.repeat(n) + `\nend of ${part.length}`);
    await exchange(page, `${part} ?`);  // which waits for a minute at most
    await page.getByRole("button", { name: "New conversation" }).click();
  }
});

onPage("no text becomes an element", async (page) => {
  const attack = "<img src=x onerror=\"window.hit=1\"><script>window.hit=2</script>" +
    "<a href=\"javascript:window.hit=3\">x</a>";
  const text = `${attack}\n\n\`\`\`<img/onerror=1>\n${attack}\n\`\`\`\n\n**${attack}** # ${attack}`;
  await answerWith(page, text, { reasoning: attack });
  await exchange(page, attack);
  await page.locator("#title").fill(attack);
  await page.keyboard.press("Enter");
  await page.reload();
  await page.locator(".message.assistant").waitFor();
  assert.equal(await page.locator("#messages img, #messages script, #messages a, #list img").count(), 0);
  assert.ok((await last(page, "user").locator(".text").textContent()) === attack);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  // And were there a hole, the policy would close it.
  const headers = (await page.request.get(url)).headers();
  assert.match(headers["content-security-policy"], /default-src 'none'.*frame-ancestors 'none'/);
  assert.ok(!headers["content-security-policy"].includes("unsafe"));
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.equal(headers["referrer-policy"], "no-referrer");
});

onPage("settings reach the request, and wrong ones do not", async (page) => {
  const bodies = await answerWith(page, "Fine.");
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("System prompt").fill("You tell stories.");
  assert.equal(await page.getByLabel("temperature").getAttribute("placeholder"), "0.8");
  await page.getByLabel("temperature").fill("1000");
  await page.getByRole("button", { name: "Done" }).click();
  assert.ok(await page.locator("#settings").isVisible(), "a temperature of 1000 was taken");
  await page.getByLabel("temperature").fill("0.5");
  await page.getByLabel("longest answer").fill("7");
  await page.getByLabel("seed").fill("3");
  await page.locator("#settings").screenshot({ path: `${SHOTS}/settings.png` });
  await page.getByRole("button", { name: "Done" }).click();
  await exchange(page, "One");
  const { temperature, max_tokens, seed, top_p, messages, stream } = bodies[0];
  assert.deepEqual({ temperature, max_tokens, seed, top_p, stream },
    { temperature: 0.5, max_tokens: 7, seed: 3, top_p: undefined, stream: true });
  assert.deepEqual(messages[0], { role: "system", content: "You tell stories." });
  // The next conversation has them, too; the real server takes them.
  await page.unroute(ROUTE);
  await page.getByRole("button", { name: "New conversation" }).click();
  await exchange(page, "Two");
  assert.match(await last(page, "assistant").locator(".figures").textContent(), /^7 tokens/);
  await page.getByText("reached the token limit of the settings").waitFor();
});

onPage("reasoning is folded", async (page) => {
  await answerWith(page, "Four.", { reasoning: "Two and two." });
  await exchange(page, "2 + 2?");
  const thoughts = page.locator(".reasoning > div");
  assert.ok(!await thoughts.isVisible());
  await page.getByText("Thoughts").click();
  assert.equal(await thoughts.textContent(), "Two and two.");
});

onPage("conversations are kept, renamed, exported and imported", async (page, context) => {
  await answerWith(page, "Kept.");
  await exchange(page, "The first");
  await page.getByRole("button", { name: "New conversation" }).click();
  await exchange(page, "The second");
  await page.locator("#title").fill("Mine");
  await page.keyboard.press("Enter");
  await page.reload();
  await page.locator(".message.user", { hasText: "The second" }).waitFor();
  assert.deepEqual(await page.locator("#list button").allTextContents(), ["Mine", "The first"]);
  assert.equal(await page.locator("#title").inputValue(), "Mine");
  const downloaded = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const download = await downloaded;
  assert.equal(download.suggestedFilename(), "Mine.json");
  await download.saveAs(`${SHOTS}/Mine.json`);
  const file = JSON.parse(await readFile(`${SHOTS}/Mine.json`, "utf8"));
  assert.deepEqual([file.format, file.here], ["tessera-chat", 1]);
  assert.deepEqual(file.messages.map((row) => row.content), ["The second", "Kept."]);
  await page.locator("#list button", { hasText: "The first" }).click();
  await page.locator(".message.user", { hasText: "The first" }).waitFor();
  await page.locator("#files").setInputFiles([`${SHOTS}/Mine.json`]);
  await page.getByText("Imported.").waitFor();
  assert.deepEqual(await page.locator("#list button").allTextContents(), ["Mine", "Mine", "The first"]);
  const wrong = Buffer.from('{"format": "tessera-chat", "version": 2}');
  await page.locator("#files").setInputFiles([{ name: "bad.json", mimeType: "application/json", buffer: wrong }]);
  await page.getByText("bad.json is not a conversation: version: expected 1.").waitFor();
  // Another tab.
  const other = await context.newPage();
  await other.goto(url);
  await other.locator("#list button", { hasText: "The first" }).click();
  await other.getByRole("button", { name: "Delete this conversation" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#list button").length === 2);
});

onPage("a file that is no conversation is refused by name", async (page) => {
  const good = {
    format: "tessera-chat", version: 1, started: "2026-08-22T10:20:30", system: "s", settings: { seed: "1" },
    messages: [{ parent: -1, role: "user", content: "a" },
      { parent: 0, role: "assistant", content: "b", reasoning_content: "r", cut: "length" }], here: 1 };
  const [question, answer] = good.messages;
  const changes = [[{ format: "x" }, "format"], [{ version: 2 }, "version"], [{ started: 5 }, "started"],
    [{ system: [] }, "system"], [{ settings: { seed: 1 } }, "settings"], [{ settings: [] }, "settings"],
    [{ messages: {} }, "messages"], [{ here: 2 }, "here"], [{ here: -2 }, "here"], [{ here: "1" }, "here"],
    [{ messages: [answer] }, "messages[0].parent"], [{ messages: [{ ...question, parent: 0 }] }, "messages[0].parent"],
    [{ messages: [{ ...question, role: "assistant" }] }, "messages[0].role"],
    [{ messages: [question, { ...answer, content: null }] }, "messages[1].content"],
    [{ messages: [question, { ...answer, cut: "x" }] }, "messages[1].cut"],
    [{ messages: [question, { ...answer, reasoning_content: 1 }] }, "messages[1].reasoning_content"],
    [{ messages: [null] }, "messages[0]"]];
  const texts = changes.map(([change]) => JSON.stringify({ ...good, ...change }));
  const whole = JSON.stringify(good);
  for (let n = 0; n < whole.length; n++) texts.push(whole.slice(0, n));
  texts.push("[".repeat(1e6), "null", "[]", "5");
  const said = await page.evaluate(async ([all, fine]) => {
    const { Conversation } = await import("./page/conversation.js");
    const refusal = (text) => {
      try {
        return Conversation.parse(text) && "";
      } catch (error) {
        return error.constructor === Error ? error.message : `a bug: ${error}`;
      }
    };
    // The good one comes out as it went in.
    return { refusals: all.map(refusal), again: Conversation.parse(fine).toFile() };
  }, [texts, whole]);
  assert.equal(JSON.stringify(JSON.parse(said.again)), whole);
  said.refusals.forEach((text, i) => assert.match(text, /^it is not JSON$|: expected /, texts[i].slice(0, 200)));
  changes.forEach(([, place], i) => assert.ok(said.refusals[i].startsWith(place), said.refusals[i]));
});

onPage("what came is kept when the page is left in the middle", async (page) => {
  await neverEnd(page);
  await say(page, "A long story");
  await page.locator(".live .text").waitFor();
  await page.reload();
  await page.locator(".message.assistant").waitFor();
  assert.ok((await last(page, "assistant").textContent()).length > 10);
}, { url: URL_LONG });

onPage("errors are told in words", async (page) => {
  const refuse = (status, error, headers = {}) => page.route(ROUTE, (route) =>
    route.fulfill({ status, headers, contentType: "application/json", body: JSON.stringify({ error }) }));
  await refuse(429, { message: "busy" }, { "Retry-After": "3" });
  await say(page, "Hello");
  await page.getByRole("alert").getByText("Try again in 3 seconds").waitFor();
  await page.unroute(ROUTE);
  await page.route(ROUTE, (route) => route.abort());
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("alert").getByText("No answer from the server").waitFor();
  assert.equal(await page.locator("#notice").textContent(), "");
  await page.unroute(ROUTE);
  await page.route(ROUTE, (route) =>
    route.fulfill({ status: 200, contentType: "text/event-stream", body: delta({ content: "So far" }) }));
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("alert").getByText("The connection was lost").waitFor();
  await answered(page, "So far");
  await page.unroute(ROUTE);
  // By the server itself: more than the context holds, and then a context that gets full.
  await page.getByRole("button", { name: "New conversation" }).click();
  await say(page, "word ".repeat(3000));
  await page.getByRole("alert").getByText("too long for the context (").waitFor();
  await page.getByRole("button", { name: "New conversation" }).click();
  await answerWith(page, "Full.", { finish: "length", usage: { completion_tokens: 9, total_tokens: 1024 } });
  await exchange(page, "Hello");
  await page.getByText("The context of 1,024 tokens is full").waitFor();
  await page.getByText("nearly full").waitFor();
});

onPage("a key is asked for", async (page) => {
  await page.getByText("This server needs a key").waitFor();
  await page.getByLabel("Key", { exact: true }).fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("The given key is wrong").waitFor();
  await page.getByLabel("Key", { exact: true }).fill("key-7391");
  await page.keyboard.press("Enter");
  await page.locator("#tune:enabled").waitFor();
  await exchange(page, "Hi");
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("7391")), false);
}, { url: URL_KEYS });

onPage("a keyboard is enough", async (page) => {
  const bodies = await answerWith(page, "Yes.");
  await page.keyboard.type("one");  // the message has the focus
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await answered(page, "Yes.");
  assert.equal(bodies[0].messages[0].content, "one\ntwo");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.type("!");
  await page.keyboard.press("Enter");
  await page.getByText("2/2").waitFor();
  // Every control can be reached, and has a name.
  await page.reload();
  await page.locator("#tune:enabled").waitFor();
  await page.locator(".message.assistant").waitFor();
  const seen = [];
  await page.evaluate(() => document.activeElement.blur());
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => {
      const at = document.activeElement;
      return at === document.body ? "" : at.getAttribute("aria-label") || at.textContent.trim();
    });
    if (seen.includes(name) && name === seen[0]) break;
    if (name) seen.push(name);
  }
  for (const name of ["To the message", "New conversation", "Import", "Title of the conversation", "Settings", "Copy",
    "Edit", "Retry", "Delete", "Earlier version", "Message", "Send"])
    assert.ok(seen.includes(name), `Tab does not reach ${name}: ${seen}`);
  // A dialog gives the focus back.
  await page.locator("#tune").focus();
  await page.keyboard.press("Enter");
  await page.locator("#settings").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tune");
});

const TALK = [
  ["What is a tessera?", `A **tessera** is one small tile of a mosaic: a cube of stone, glass or clay, set beside \
thousands of others.

Three things decide how a mosaic looks:

1. the *cut* of the tiles,
2. the width of the joints,
3. the lines they run along, which mosaicists call \`andamento\`.

| material | since |
|---|---|
| pebbles | 8th century BC |
| glass | 3rd century BC |`],
  ["Count them in Python.", `Rows of tiles, counted by colour:

\`\`\`python
from collections import Counter

def count(mosaic):
    """How often each colour stands in a mosaic, which is a list of rows."""
    return Counter(tile for row in mosaic for tile in row)
\`\`\`

\`count(["ab", "ba"])\` gives two of each.`]];

/** A conversation that shows the parts, and pictures of it. */
async function pictures(page, name) {
  await answerWith(page, "Yes.");
  await page.locator("#input").fill("A title that is longer than the list of conversations is wide");
  await page.locator("#send").click();
  await idle(page);
  await page.locator("#new").evaluate((button) => button.click());  // which a phone does not show
  for (const [question, answer] of TALK) {
    await page.unroute(ROUTE);
    await answerWith(page, answer, { reasoning: "The user asks about mosaics. I should be brief." });
    await page.locator("#input").fill(question);
    await page.locator("#send").click();
    await idle(page);
  }
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${SHOTS}/${name}.png` });
  const fits = await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);
  assert.ok(fits, "the page is too wide");
  const right = (selector) => page.locator(selector).last().evaluate((at) => at.getBoundingClientRect().right);
  assert.ok(await right("#list button") <= await right("#side"), "the list is too wide");
}

for (const colorScheme of ["light", "dark"]) {
  onPage(`it looks well on a desktop, ${colorScheme}`, async (page) => {
    await page.screenshot({ path: `${SHOTS}/welcome-${colorScheme}.png` });
    await pictures(page, `desktop-${colorScheme}`);
  }, { colorScheme });
}

onPage("it works on a phone", async (page) => {
  await pictures(page, "phone");
  // Enter begins a line there; the conversations are behind a button.
  await page.locator("#input").tap();
  await page.keyboard.type("a");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("#input").inputValue(), "a\n");
  assert.ok(!await page.locator("#side").isVisible());
  await page.getByRole("button", { name: "Conversations" }).tap();
  await page.locator("#side").waitFor();
  await page.waitForTimeout(300);  // the drawer slides
  await page.screenshot({ path: `${SHOTS}/phone-side.png` });
  await page.locator("#shade").tap({ position: { x: 370, y: 400 } });
  await page.locator("#side").waitFor({ state: "hidden" });
  await page.locator("#tune").tap();
  await page.locator("#settings").waitFor();
  await page.screenshot({ path: `${SHOTS}/phone-settings.png` });
}, PHONE);
