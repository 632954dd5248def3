// Messages on the page. Draws a conversation and its running answer; clicks call the callbacks. All text is set through
// textContent.
import * as prose from "./prose.js";

const $ = (id) => document.getElementById(id);
const NEAR = 80;  // pixels from the end that count as the end

function make(tag, className, ...children) {
    const out = document.createElement(tag);
    if (className) out.className = className;
    out.append(...children);
    return out;
}

function button(label, onClick, className = "quiet", spoken = label) {
    const out = make("button", className, label);
    out.type = "button";
    if (spoken !== label) out.setAttribute("aria-label", spoken);
    out.addEventListener("click", onClick);
    return out;
}

// navigator.clipboard exists for secure origins only, and the address of another machine is none.
async function toClipboard(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = make("textarea", "offscreen");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
}

async function copy(text, from) {
    await toClipboard(text);
    const label = from.textContent;
    from.textContent = "Copied";
    setTimeout(() => { from.textContent = label; }, 1500);
}

const number = (n) => n.toLocaleString("en");

function figuresText({ tokens, rate }) {
    const count = `${number(tokens)} ${tokens === 1 ? "token" : "tokens"}`;
    return rate > 0 ? `${count} \u00b7 ${rate.toFixed(1)} tokens/s` : count;
}

function cutText(message, nCtx) {
    switch (message.cut) {
        case "length": return "The answer reached the token limit of the settings.";
        case "context":
            return `The context${nCtx ? ` of ${number(nCtx)} tokens` : ""} is full, so the answer ends here. ` +
                "Delete some messages, or begin a new conversation.";
        case "interrupt": return "Stopped.";
        default: return "";
    }
}

/**
 * `actions`: {edit(index, text), retry(index), goOn(index), remove(index), goThrough(index), leave()}, the last when the
 * control that had the focus was removed. `nCtx`: the model's context length, once known.
 */
export class View {
    constructor(actions) {
        this.actions = actions;
        this.nCtx = 0;
        this.follows = true;
        $("scroll").addEventListener("scroll", () => this.look(), { passive: true });
        $("jump").addEventListener("click", () => this.toEnd());
        new ResizeObserver(() => this.follow()).observe($("messages"));
        new ResizeObserver(() => this.follow()).observe($("scroll"));
    }

    look() {
        const { scrollTop, clientHeight, scrollHeight } = $("scroll");
        this.follows = scrollHeight - scrollTop - clientHeight < NEAR;
        $("jump").hidden = this.follows;
    }

    follow() {
        if (this.follows) $("scroll").scrollTop = $("scroll").scrollHeight;
        this.look();
    }

    toEnd() {
        this.follows = true;
        this.follow();
    }

    /** `run`: the running answer of this conversation, if any; `failure`: an error's text, if any. */
    draw(conversation, run, failure) {
        const hadFocus = $("messages").contains(document.activeElement) && document.activeElement.dataset;
        const line = conversation.line();
        const shown = line.map((index) => {
            const goesOn = run?.index === index;
            return this.message(conversation, index, run, goesOn);
        });
        this.live = null;
        if (run) {
            const article = line.includes(run.index) ? shown[line.indexOf(run.index)] : this.article("assistant");
            if (!shown.includes(article)) shown.push(article);
            article.setAttribute("aria-busy", "true");
            article.classList.add("live");
            this.live = article;
        }
        const last = line.at(-1);
        const isOpen = !run && last !== undefined && conversation.messages[last].role === "user";
        if (failure || isOpen) shown.push(this.failure(failure || "There is no answer yet.", Boolean(failure), last));
        $("messages").replaceChildren(...shown);
        $("welcome").hidden = line.length > 0;
        if (run) this.update(run);
        this.follow();
        // The focus stays on its control, or moves to the message input.
        const again = hadFocus && document.querySelector(`[data-place="${hadFocus.place}"]:enabled`);
        if (again) again.focus();
        else if (hadFocus) this.actions.leave();
    }

    /** Updates the running answer. */
    update(run) {
        const { message, conversation } = run;
        const shows = message.reasoning && conversation.settings.reasoning !== "hide";
        const waits = message.content || shows ? "" : message.reasoning ? "Thinking" : "Reading";
        let waiting = this.live.querySelector(".waiting");
        if (!waits) waiting?.remove();
        else if (!waiting) this.live.append(waiting = make("p", "waiting"));
        if (waits && waiting.textContent !== waits) waiting.textContent = waits;
        if (shows) this.reasoning(this.live, message.reasoning, !message.content);
        if (message.content) prose.show(this.text(this.live), message.content, copy);
        this.follow();
    }

    article(role) {
        const out = make("article", `message ${role}`);
        out.setAttribute("aria-label", role === "user" ? "You" : "The model");
        return out;
    }

    /** The element of a message's text, created if missing. */
    text(article) {
        let out = article.querySelector(":scope > .text");
        if (!out) {
            out = make("div", "text");
            article.append(out);
        }
        return out;
    }

    reasoning(article, text, isThinking) {
        let details = article.querySelector(":scope > .reasoning");
        if (!details) {
            details = make("details", "reasoning", make("summary"), make("div"));
            article.prepend(details);
        }
        details.classList.toggle("thinking", isThinking);
        const [summary, body] = details.children;
        const label = isThinking ? "Thinking" : "Thoughts";
        if (summary.textContent !== label) summary.textContent = label;
        body.textContent = text.trim();
    }

    message(conversation, index, run, goesOn) {
        const message = conversation.messages[index];
        const article = this.article(message.role);
        if (message.role === "user") {
            this.text(article).textContent = message.content;
        } else {
            const hides = conversation.settings.reasoning === "hide";
            if (message.reasoning && !hides) this.reasoning(article, message.reasoning, false);
            if (message.content) prose.show(this.text(article), message.content, copy);
            else article.append(make("p", "cut", "The answer is empty."));
        }
        if (goesOn) return article;
        const cut = cutText(message, this.nCtx);
        if (cut) {
            const canGoOn = message.cut !== "context" && message.content && index === conversation.here && !run;
            article.append(make("p", "cut", cut, ...(canGoOn
                ? [" ", button("Continue", () => this.actions.goOn(index), "link")] : [])));
        }
        article.append(this.footer(conversation, index, article, run));
        return article;
    }

    /** While an answer is running, its conversation cannot be changed. */
    footer(conversation, index, article, run) {
        const message = conversation.messages[index];
        const isUser = message.role === "user";
        const out = make("footer", "");
        const versions = conversation.versions(index);
        if (versions.length > 1 && !run) {
            const at = versions.indexOf(index);
            const step = (by, label, spoken) => {
                const to = versions[at + by];
                const arrow = button(label, () => this.actions.goThrough(to), "quiet", spoken);
                arrow.disabled = to === undefined;
                return arrow;
            };
            out.append(make("span", "versions", step(-1, "\u2039", "Earlier version"),
                `${at + 1}/${versions.length}`, step(1, "\u203a", "Later version")));
        }
        out.append(button("Copy", (event) => copy(message.content, event.currentTarget)));
        if (!run) {
            if (isUser) out.append(button("Edit", () => this.edit(article, index, message.content), "quiet edit"));
            else out.append(button("Retry", () => this.actions.retry(index)));
            out.append(button("Delete", () => this.actions.remove(index)));
        }
        for (const control of out.querySelectorAll("button"))
            control.dataset.place = `${conversation.line().indexOf(index)} ${control.ariaLabel ?? control.textContent}`;
        if (message.figures) out.append(make("span", "figures", figuresText(message.figures)));
        return out;
    }

    edit(article, index, content) {
        const area = make("textarea", "");
        area.value = content;
        area.setAttribute("aria-label", "Edit the message");
        const before = [...article.childNodes];
        const cancel = () => {
            article.replaceChildren(...before);
            article.classList.remove("edited");
            article.querySelector(".edit").focus();
        };
        const send = () => area.value.trim() && this.actions.edit(index, area.value.trim());
        const controls = make("footer", "editing", button("Send", send, "main"), button("Cancel", cancel));
        article.replaceChildren(area, controls);
        article.classList.add("edited");
        area.addEventListener("keydown", (event) => {
            if (event.isComposing) return;
            if (event.key === "Escape") cancel();
            else if (event.key === "Enter" && !event.shiftKey) send();
            else return;
            event.preventDefault();
            event.stopPropagation();
        });
        const grow = () => {
            area.style.height = "auto";
            area.style.height = `${area.scrollHeight}px`;
        };
        area.addEventListener("input", grow);
        grow();
        area.focus();
    }

    /** Whether there is a message to edit. */
    editLast() {
        const edits = $("messages").querySelectorAll(".edit");
        edits[edits.length - 1]?.click();
        return edits.length > 0;
    }

    failure(text, isError, index) {
        const out = make("div", isError ? "failure" : "failure mild", make("p", "", text));
        if (isError) out.setAttribute("role", "alert");
        if (index !== undefined) out.append(button("Try again", () => this.actions.retry(index), "main"));
        return out;
    }
}
