// Renders a model's text: paragraphs, headings, lists, tables, quotes, emphasis and fenced code. All text is set through
// textContent, so none of it can become markup. Independent of the rest of the page.

const FENCE = /^ {0,3}(`{3,}(?!.*`)|~{3,})(.*)$/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*+\u2022]|\d{1,3}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const ROW = /^\s*\|.*\|\s*$/;
const DASHES = /^[\s:|-]*-[\s:|-]*$/;
const RULE = /^ {0,3}([-*_])( *\1){2,}\s*$/;
const OTHERS = [FENCE, HEADING, ITEM, RULE, QUOTE, ROW];
// Code, strong, emphasis; lengths are bounded, so that matching takes linear time.
const INLINE = new RegExp([
    /(?<!`)(`{1,3})(?!`)([^]{1,1000}?)(?<!`)\1(?!`)/,
    /\*\*(?=\S)([^]{0,500}?\S)\*\*(?!\*)/,
    /(?<![\w*])\*(?=[^\s*])([^*\n]{0,500}[^\s*])\*(?![\w*])/,
].map((form) => form.source).join("|"), "g");

/** Splits the text into blocks {kind, source, ...}; a fence that is still open extends to the end. */
export function blocks(text) {
    const out = [];
    const lines = text.split("\n");
    for (let at = 0; at < lines.length;) {
        const begin = at;
        const line = lines[at++];
        const take = (kind, more) => out.push({ kind, source: lines.slice(begin, at).join("\n"), ...more });
        const fence = line.match(FENCE);
        const heading = line.match(HEADING);
        const item = line.match(ITEM);
        const takeWhile = (form) => {
            while (at < lines.length && form.test(lines[at])) at++;
            return lines.slice(begin, at);
        };
        if (fence) {
            const mark = fence[1];
            const closes = (other) => {
                const end = other.trim();
                return end.length >= mark.length && end === mark[0].repeat(end.length);
            };
            while (at < lines.length && !closes(lines[at])) at++;
            const code = lines.slice(begin + 1, at).join("\n");
            at = Math.min(at + 1, lines.length);
            take("code", { language: fence[2].trim().split(/\s/)[0], text: code });
        } else if (RULE.test(line)) {
            take("rule");
        } else if (heading) {
            take("heading", { level: heading[1].length, text: heading[2] });
        } else if (item) {
            take("item", { depth: Math.min(Math.floor(item[1].replace(/\t/g, "    ").length / 2), 6),
                mark: /\d/.test(item[2]) ? item[2] : "\u2022", text: item[3] });
        } else if (QUOTE.test(line)) {
            const inner = takeWhile(QUOTE);
            take("quote", { text: inner.map((quoted) => quoted.replace(QUOTE, "")).join("\n") });
        } else if (ROW.test(line) && DASHES.test(lines[at] ?? "")) {
            const cells = (row) => row.trim().slice(1, -1).split("|").map((cell) => cell.trim());
            const rows = takeWhile(ROW);
            take("table", { rows: [rows[0], ...rows.slice(2)].map(cells) });
        } else if (line.trim()) {
            const ends = (other) => !other.trim() || OTHERS.some((form) => form.test(other));
            while (at < lines.length && !ends(lines[at])) at++;
            take("paragraph", { text: lines.slice(begin, at).join("\n").replace(/^ {1,3}(?=\S)/, "") });
        }
    }
    return out;
}

function element(tag, className = "", text = "") {
    const out = document.createElement(tag);
    if (className) out.className = className;
    if (text) out.textContent = text;
    return out;
}

function addInline(parent, text) {
    let at = 0;
    for (const match of text.matchAll(INLINE)) {
        const [whole, , code, strong, emphasis] = match;
        parent.append(text.slice(at, match.index));
        at = match.index + whole.length;
        if (code !== undefined) {
            parent.append(element("code", "", code));
        } else {
            const inner = element(strong !== undefined ? "strong" : "em");
            addInline(inner, strong ?? emphasis);
            parent.append(inner);
        }
    }
    parent.append(text.slice(at));
    return parent;
}

function codeBlock(block, copy) {
    const figure = element("figure", "code");
    const caption = element("figcaption");
    const button = element("button", "quiet", "Copy");
    button.type = "button";
    button.setAttribute("aria-label", "Copy code");
    button.addEventListener("click", () => copy(block.text, button));
    caption.append(element("span", "", block.language || "text"), button);
    const pre = element("pre");
    pre.tabIndex = 0;  // makes it scrollable by keyboard
    pre.append(element("code", "", block.text));
    figure.append(caption, pre);
    return figure;
}

function table(rows) {
    const out = element("table");
    rows.forEach((cells, i) => {
        const row = element("tr");
        row.append(...cells.map((cell) => addInline(element(i === 0 ? "th" : "td"), cell)));
        out.append(row);
    });
    const frame = element("div", "table");
    frame.append(out);
    return frame;
}

function render(block, copy) {
    switch (block.kind) {
        case "code":
            return codeBlock(block, copy);
        case "table":
            return table(block.rows);
        case "quote":
            return addInline(element("blockquote"), block.text);
        case "rule":
            return element("hr");
        case "heading":
            return addInline(element(`h${Math.min(block.level + 2, 6)}`), block.text);
        case "item": {
            const item = addInline(element("p", `item depth-${block.depth}`), block.text);
            item.prepend(element("span", "mark", block.mark + " "));
            return item;
        }
        default:
            return addInline(element("p"), block.text);
    }
}

/**
 * Updates an element to a text that may have grown. Blocks that have not changed stay, and so does a selection in them.
 * `copy(text, button)` is called by the buttons of code blocks.
 */
export function show(parent, text, copy) {
    const wanted = blocks(text);
    const had = parent.blocks ?? [];
    let same = 0;
    while (same < wanted.length && had[same]?.source === wanted[same].source) same++;
    // Growing code keeps its element, and so its scroll position.
    const grown = parent.children[same];
    if (wanted[same]?.kind === "code" && had[same]?.kind === "code" && wanted[same].language === had[same].language &&
        grown && same === had.length - 1) {
        had[same].text = wanted[same].text;
        wanted[same] = Object.assign(had[same], { source: wanted[same].source });
        grown.querySelector("code").textContent = had[same].text;
        same++;
    }
    while (parent.children.length > same) parent.lastElementChild.remove();
    parent.append(...wanted.slice(same).map((block) => render(block, copy)));
    parent.blocks = wanted;
}
