// The page: the shown conversation, the running answers, and the actions of the controls. view.js draws messages,
// prose.js text; api.js talks to the server, store.js to the browser's storage.
import * as api from "./api.js";
import * as settings from "./settings.js";
import * as store from "./store.js";
import { Conversation, localTime } from "./conversation.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);
const FULL = 0.9;  // share of the context above which the user is warned

let model = null;            // from api.describe()
let shown = null;            // the conversation
const runs = new Map();      // conversation id -> the running answer
const failures = new Map();  // conversation id -> why its last answer failed

const view = new View({
    edit: (index, text) => say(text, shown.messages[index].parent),
    retry: (index) => {
        const isAnswer = shown.messages[index].role === "assistant";
        answer(isAnswer ? shown.messages[index].parent : index);
    },
    goOn: (index) => answer(shown.messages[index].parent, index),
    remove: (index) => {
        const before = structuredClone({ ...shown });
        shown.remove(index);
        failures.delete(shown.id);
        keep(shown);
        draw();
        offerUndo("Message deleted.", before);
    },
    goThrough: (index) => {
        shown.goThrough(index);
        failures.delete(shown.id);
        keep(shown);
        draw();
    },
    leave: focusInput,
});

// Display.

function draw() {
    const run = runs.get(shown.id);
    view.nCtx = model?.nCtx ?? 0;
    view.draw(shown, run, failures.get(shown.id));
    $("title").value = shown.name;
    document.title = shown.name ? `${shown.name} \u2013 tessera` : "tessera";
    $("send").hidden = Boolean(run);
    $("stop").hidden = !run;
    const isEmpty = shown.messages.length === 0;
    $("export").hidden = $("delete").hidden = isEmpty;
    drawContext();
    drawList();
}

function drawContext() {
    const figures = shown.line().map((i) => shown.messages[i].figures).findLast(Boolean);
    const out = $("context");
    out.textContent = figures && model
        ? `${figures.used.toLocaleString("en")} of ${model.nCtx.toLocaleString("en")} tokens` : "";
    const isFull = figures && model && figures.used >= FULL * model.nCtx;
    out.classList.toggle("full", Boolean(isFull));
    if (isFull) out.textContent += ": nearly full";
}

function drawList() {
    $("list").replaceChildren(...store.list().map((conversation) => {
        const item = document.createElement("li");
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = conversation.name || "New conversation";
        if (conversation.id === shown.id) button.setAttribute("aria-current", "true");
        if (runs.has(conversation.id)) button.className = "live";
        button.addEventListener("click", () => {
            show(conversation.id);
            focusInput();
        });
        item.append(button);
        return item;
    }));
}

function notice(text, label = "", onClick = null) {
    const out = $("notice");
    out.replaceChildren(text);
    if (!label) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.textContent = label;
    button.addEventListener("click", onClick);
    out.append(" ", button);
}

function offerUndo(text, before) {
    notice(text, "Undo", () => {
        const conversation = Conversation.from(before);
        keep(conversation, false);
        notice("Restored.");
        open(conversation);
    });
}

// Conversations.

function keep(conversation, isNew = true) {
    if (isNew) conversation.updated = Date.now();
    if (!store.save(conversation))
        notice("The browser's storage is full, so this is not stored. Export or delete conversations.");
}

function open(conversation) {
    shown = conversation;
    store.setPresent(shown.id);
    closeSide();
    view.follows = true;
    draw();
}

function show(id) {
    notice("");
    open(runs.get(id)?.conversation ?? store.load(id) ?? new Conversation());
}

/** A conversation without messages is not stored. */
function begin() {
    notice("");
    open(new Conversation(shown?.system, shown?.settings));
    focusInput();
}

function removeShown() {
    runs.get(shown.id)?.controller.abort();
    const before = structuredClone({ ...shown });
    store.remove(shown.id);
    failures.delete(shown.id);
    const next = store.list()[0];
    if (next) open(next);
    else begin();
    offerUndo("Conversation deleted.", before);
    focusInput();
}

function exportShown() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([shown.toFile()], { type: "application/json" }));
    link.download = `${shown.name.replace(/[\\/:*?"<>|\p{Cc}]/gu, "_").replace(/^\.+/, "") || "conversation"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    notice("Exported. `tessera chat --load` can read the file, too.");
}

async function importFiles(files) {
    const refused = [];
    let last = null;
    for (const file of files) {
        try {
            last = Conversation.parse(await file.text(), file.name.replace(/\.json$/i, ""));
            keep(last);
        } catch (error) {
            refused.push(`${file.name} is not a conversation: ${error.message}.`);
        }
    }
    if (last) open(last);
    notice(refused.join(" ") || (files.length === 1 ? "Imported." : `Imported ${files.length} conversations.`));
}

// Messages and answers.

function say(text, parent = shown.here) {
    shown.add({ role: "user", content: text }, parent);
    keep(shown);
    answer(shown.here);
}

/** Answers message `parent`; with `index`, continues that answer. */
async function answer(parent, index = -1) {
    if (runs.has(shown.id)) return;
    const conversation = shown;
    const goesOn = index >= 0;
    const message = goesOn ? { ...conversation.messages[index] } : { role: "assistant", content: "" };
    const run = { conversation, controller: new AbortController(), message, parent, index };
    conversation.here = goesOn ? index : parent;
    runs.set(conversation.id, run);
    failures.delete(conversation.id);
    notice("");
    $("spoken").textContent = "";
    view.follows = true;
    draw();
    const body = { messages: conversation.dialogue(), ...(model && settings.fields(conversation.settings, model)) };
    if (goesOn) body.continue_final_message = true;
    delete message.cut;
    try {
        const ended = await api.complete(body, run.controller.signal, (delta) => take(run, delta));
        finish(run, ended);
        // Screen readers get the whole answer at once instead of each piece.
        if (conversation === shown) $("spoken").textContent = message.content;
    } catch (error) {
        const isEmpty = !finish(run, null);
        if (error.name !== "AbortError") fail(conversation, error);
        else if (isEmpty && conversation === shown) notice("Stopped before the answer began.");
    }
    if (conversation.id === shown.id) draw();
    else drawList();
}

function take(run, delta) {
    run.message.content += delta.content ?? "";
    if (delta.reasoning_content) run.message.reasoning = (run.message.reasoning ?? "") + delta.reasoning_content;
    // The page is drawn at most once per frame.
    run.frame ??= requestAnimationFrame(() => {
        run.frame = null;
        if (runs.get(shown.id) === run) view.update(run);
    });
}

/**
 * Turns the answer so far into a message; `ended`: the server's final data, or null. Returns whether the answer has
 * any text. Called once per answer.
 */
function finish(run, ended) {
    const { conversation, message } = run;
    if (runs.get(conversation.id) !== run) return true;
    cancelAnimationFrame(run.frame);
    runs.delete(conversation.id);
    const isEmpty = !message.content && !message.reasoning;
    message.time = localTime();
    if (!ended) message.cut = "interrupt";
    else if (ended.finish === "length") message.cut = ended.usage?.total_tokens >= model?.nCtx ? "context" : "length";
    if (ended?.usage)
        message.figures = { tokens: ended.usage.completion_tokens, used: ended.usage.total_tokens,
            rate: ended.timings?.predicted_per_second ?? 0 };
    if (run.index >= 0) conversation.messages[run.index] = message;
    else if (!isEmpty || ended) conversation.add(message, run.parent);
    // A conversation that was deleted meanwhile stays deleted.
    if (store.load(conversation.id)) keep(conversation);
    return !isEmpty;
}

function fail(conversation, error) {
    if (error.status === 401) {
        failures.set(conversation.id, "The server needs a key.");
        askForKey(() => conversation.id === shown.id && answer(conversation.line().findLast(
            (i) => conversation.messages[i].role === "user")));
    } else {
        failures.set(conversation.id, error.message);
    }
}

// The server.

function askForKey(onKey) {
    const dialog = $("key");
    $("key-hint").textContent = store.key() ? "The given key is wrong."
        : "The key is stored until this tab is closed.";
    $("key-input").value = "";
    dialog.querySelector("form").onsubmit = async () => {
        store.setKey($("key-input").value.trim());
        await connect();
        if (model) onKey();
    };
    if (!dialog.open) dialog.showModal();
}

async function connect() {
    try {
        model = await api.describe();
        settings.build(model);
        $("model").textContent = $("welcome-name").textContent = model.name;
        $("tune").disabled = false;
        if (shown) draw();
    } catch (error) {
        if (error.status === 401) askForKey(() => {});
        else notice(error.message, "Try again", () => {
            notice("");
            connect();
        });
    }
}

// Controls.

const isTouched = () => matchMedia("(pointer: coarse)").matches;
const isNarrow = () => matchMedia("(max-width: 760px)").matches;

function closeSide() {
    const hadFocus = $("side").contains(document.activeElement);
    document.body.classList.remove("side-open");
    $("menu").setAttribute("aria-expanded", "false");
    if (hadFocus && isNarrow()) $("menu").focus();
}

/** Not on a phone, where focus would open the keyboard. */
function focusInput() {
    if (!isTouched()) $("input").focus();
}

function growInput() {
    const input = $("input");
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight}px`;
}

function submit() {
    const text = $("input").value.trim();
    if (!text || runs.has(shown.id)) return;
    $("input").value = "";
    growInput();
    say(text);
}

function onKeyInMessage(event) {
    if (event.isComposing) return;
    // Touch keyboards have no Shift to hold.
    if (event.key === "Enter" && !event.shiftKey && !isTouched()) {
        event.preventDefault();
        submit();
    } else if (event.key === "ArrowUp" && !$("input").value && view.editLast()) {
        event.preventDefault();
    }
}

function onKey(event) {
    if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (document.body.classList.contains("side-open")) closeSide();
    else runs.get(shown.id)?.controller.abort();
}

function wire() {
    $("composer").addEventListener("submit", (event) => {
        event.preventDefault();
        submit();
    });
    $("input").addEventListener("keydown", onKeyInMessage);
    $("input").addEventListener("input", growInput);
    $("stop").addEventListener("click", () => {
        runs.get(shown.id)?.controller.abort();
        focusInput();
    });
    document.addEventListener("keydown", onKey);
    $("new").addEventListener("click", begin);
    $("menu").addEventListener("click", () => {
        const isOpen = document.body.classList.toggle("side-open");
        $("menu").setAttribute("aria-expanded", String(isOpen));
        if (isOpen) $("new").focus();
    });
    $("shade").addEventListener("click", closeSide);
    $("import").addEventListener("click", () => $("files").click());
    $("files").addEventListener("change", async () => {
        await importFiles([...$("files").files]);
        $("files").value = "";
    });
    $("export").addEventListener("click", exportShown);
    $("delete").addEventListener("click", removeShown);
    $("title").addEventListener("change", () => {
        shown.title = $("title").value.trim();
        if (shown.messages.length > 0) keep(shown, false);
        draw();
    });
    $("title").addEventListener("keydown", (event) => event.key === "Enter" && $("title").blur());
    $("tune").disabled = true;
    $("tune").addEventListener("click", () => settings.open(shown.system, shown.settings, (system, changed) => {
        Object.assign(shown, { system, settings: changed });
        if (shown.messages.length > 0) keep(shown, false);
        draw();
    }));
    store.onOtherTab((id) => {
        if (id !== shown.id || runs.has(id)) return drawList();
        shown = store.load(id) ?? shown;
        draw();
    });
    // The answer so far is stored when the page is closed.
    window.addEventListener("pagehide", () => {
        for (const run of [...runs.values()]) {
            finish(run, null);
            run.controller.abort();
        }
    });
    window.addEventListener("pageshow", (event) => event.persisted && draw());
}

wire();
show(store.present() || store.list()[0]?.id);
growInput();
connect();
