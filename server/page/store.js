// Storage of conversations: the browser's local storage, with one entry per conversation. No other file accesses it.
import { Conversation } from "./conversation.js";

const PREFIX = "tessera/chat/";
const PRESENT = "tessera/present";
const KEY = "tessera/key";

/** The storage, or a temporary one where the browser forbids it. */
function open(kind) {
    try {
        const storage = window[kind];
        storage.getItem("");
        return storage;
    } catch {
        const map = new Map();
        return {
            getItem: (name) => map.get(name) ?? null,
            setItem: (name, value) => map.set(name, value),
            removeItem: (name) => map.delete(name),
            key: (i) => [...map.keys()][i],
            get length() { return map.size; },
        };
    }
}

const kept = open("localStorage");
const ofTab = open("sessionStorage");

function parse(text) {
    try {
        const stored = JSON.parse(text);
        return Array.isArray(stored?.messages) ? Conversation.from(stored) : null;
    } catch {
        return null;  // another program's entry
    }
}

/** All conversations, the most recently used first. */
export function list() {
    const out = [];
    for (let i = 0; i < kept.length; i++) {
        const name = kept.key(i);
        const conversation = name.startsWith(PREFIX) && parse(kept.getItem(name));
        if (conversation) out.push(conversation);
    }
    return out.sort((a, b) => b.updated - a.updated);
}

export function load(id) {
    return parse(kept.getItem(PREFIX + id));
}

/** False where the browser has no room left. */
export function save(conversation) {
    try {
        kept.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
        return true;
    } catch {
        return false;
    }
}

export function remove(id) {
    kept.removeItem(PREFIX + id);
}

/** The conversation that is shown when the page opens. */
export function present() {
    return kept.getItem(PRESENT) ?? "";
}

export function setPresent(id) {
    try {
        kept.setItem(PRESENT, id);
    } catch {
        // The storage is full: the page opens with the newest conversation.
    }
}

/** The server's key, stored until the tab is closed. */
export function key() {
    return ofTab.getItem(KEY) ?? "";
}

export function setKey(value) {
    if (value) ofTab.setItem(KEY, value);
    else ofTab.removeItem(KEY);
}

/** Calls back with a conversation's id when another tab has changed it. */
export function onOtherTab(callback) {
    window.addEventListener("storage", (event) => {
        if (event.key?.startsWith(PREFIX)) callback(event.key.slice(PREFIX.length));
    });
}
