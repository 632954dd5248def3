// A conversation: a tree of messages with a current line through it, as in the files of `tessera chat`
// (docs/guide/chat.md), which it is exported to and imported from. Independent of the page and the server.

const FORMAT = "tessera-chat";
const CUTS = ["length", "context", "interrupt"];
const TITLE_LENGTH = 60;

/** "2026-08-22T10:20:30", in local time, as templates print dates. */
export function localTime(date = new Date()) {
    const two = (n) => String(n).padStart(2, "0");
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}` +
        `T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// crypto.randomUUID exists for secure origins only, and the address of another machine is none.
function randomId() {
    return Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");
}

export class Conversation {
    /** `system` and `settings` (texts by name): taken over from the previous conversation. */
    constructor(system = "", settings = {}) {
        this.id = randomId();
        this.title = "";  // empty: the beginning of the first message
        this.started = localTime();
        this.updated = Date.now();
        this.system = system;
        this.settings = { ...settings };
        this.messages = [];  // {parent, role, content, time?, reasoning?, cut?, figures?}
        this.here = -1;      // the last message of the current line; -1: the line is empty
    }

    static from(stored) {
        return Object.assign(new Conversation(), stored);
    }

    get name() {
        if (this.title) return this.title;
        const first = this.line()[0];
        const text = first === undefined ? "" : this.messages[first].content.trim().split("\n")[0];
        return text.length > TITLE_LENGTH ? text.slice(0, TITLE_LENGTH).trimEnd() + "\u2026" : text;
    }

    /** Indices of the current line, the first message first. */
    line() {
        const out = [];
        for (let i = this.here; i >= 0; i = this.messages[i].parent) out.push(i);
        return out.reverse();
    }

    /** The versions of a message: itself, and its siblings in other lines. */
    versions(index) {
        const { parent } = this.messages[index];
        return this.messages.flatMap((message, i) => (message.parent === parent ? [i] : []));
    }

    /** Adds a message after message `parent`, and makes it the end of the line. Returns its index. */
    add(message, parent = this.here) {
        this.here = this.messages.push({ parent, ...message }) - 1;
        return this.here;
    }

    /** Goes to the newest line through a message. */
    goThrough(index) {
        this.here = index;
        for (let i = index + 1; i < this.messages.length; i++)
            if (this.messages[i].parent === this.here) this.here = i;
    }

    /** Removes a message and all that follow it; another version takes its place, if there is one. */
    remove(index) {
        const { parent } = this.messages[index];
        const others = this.versions(index).filter((i) => i !== index);
        const gone = new Set([index]);
        this.messages.forEach((message, i) => gone.has(message.parent) && gone.add(i));
        if (gone.has(this.here)) {
            if (others.length > 0) this.goThrough(others[others.length - 1]);
            else this.here = parent;
        }
        const moved = new Map([[-1, -1]]);
        this.messages.forEach((_, i) => gone.has(i) || moved.set(i, moved.size - 1));
        this.here = moved.get(this.here);
        this.messages = this.messages
            .filter((_, i) => !gone.has(i))
            .map((message) => ({ ...message, parent: moved.get(message.parent) }));
    }

    /** The line up to a message, for /v1/chat/completions. */
    dialogue(last = this.here) {
        const out = this.system ? [{ role: "system", content: this.system }] : [];
        const line = this.line();
        for (const i of line.slice(0, line.indexOf(last) + 1)) {
            const { role, content, reasoning } = this.messages[i];
            out.push(reasoning ? { role, content, reasoning_content: reasoning } : { role, content });
        }
        return out;
    }

    /** The file for `tessera chat --load`, where each line ends with an answer: messages without one are left out. */
    toFile() {
        const kept = Conversation.from(structuredClone({ ...this }));
        for (let i = kept.messages.length - 1; i >= 0; i--) {
            const isAnswered = kept.messages.some((message) => message.parent === i);
            if (kept.messages[i].role === "user" && !isAnswered) kept.remove(i);
        }
        const file = { format: FORMAT, version: 1, started: kept.started };
        if (kept.system) file.system = kept.system;
        file.settings = kept.settings;
        file.messages = kept.messages.map(({ parent, role, content, time, reasoning, cut }) => ({
            parent, role, content, ...(reasoning && { reasoning_content: reasoning }), ...(time && { time }),
            ...(cut && { cut }) }));
        file.here = kept.here;
        return JSON.stringify(file, null, 1) + "\n";
    }

    /** Throws an Error that names the member and the expected value. */
    static parse(text, title = "") {
        let file;
        try {
            file = JSON.parse(text);
        } catch {
            throw new Error("it is not JSON");
        }
        const check = (fine, place, expected) => {
            if (!fine) throw new Error(`${place}: expected ${expected}`);
        };
        const isText = (value) => typeof value === "string";
        const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
        check(isObject(file) && file.format === FORMAT, "format", `"${FORMAT}"`);
        check(file.version === 1, "version", "1");
        check(isText(file.started), "started", "a text");
        check(file.system === undefined || isText(file.system), "system", "a text");
        check(isObject(file.settings) && Object.values(file.settings).every(isText), "settings", "texts by name");
        check(Array.isArray(file.messages), "messages", "a list");
        const out = new Conversation(file.system ?? "", file.settings);
        Object.assign(out, { title, started: file.started });
        const isIndex = (value, end) => Number.isInteger(value) && value >= -1 && value < end;
        file.messages.forEach((row, i) => {
            const place = `messages[${i}]`;
            check(isObject(row) && isIndex(row.parent, i), `${place}.parent`, "-1 or an earlier message");
            const role = row.parent < 0 || out.messages[row.parent].role === "assistant" ? "user" : "assistant";
            check(row.role !== "tool" && !row.tool_calls, place, "no tool calls, which only tessera chat can continue");
            check(row.role === role, `${place}.role`, `"${role}"`);
            check(isText(row.content), `${place}.content`, "a text");
            check([undefined, ...CUTS].includes(row.cut), `${place}.cut`, CUTS.join(", "));
            const reasoning = row.reasoning_content;
            check(reasoning === undefined || isText(reasoning), `${place}.reasoning_content`, "a text");
            check(row.time === undefined || isText(row.time), `${place}.time`, "a text");
            out.messages.push({ parent: row.parent, role, content: row.content, ...(row.time && { time: row.time }),
                ...(reasoning && { reasoning }), ...(row.cut && { cut: row.cut }) });
        });
        check(isIndex(file.here, out.messages.length), "here", "-1 or the number of a message");
        out.here = file.here;
        return out;
    }
}
