// The settings dialog: the system prompt, and a field for each parameter that the server lists, with its range and
// default. Settings are texts by name, as in `tessera chat`; those that have the default are left out.

const FIRST = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed"];
const LEFT_OUT = ["infill"];  // not for conversations

const $ = (id) => document.getElementById(id);
let rows = [];  // {name, input}

/** The page's own rows, in the format of the server's. */
function own(model) {
    const out = [{ name: "n_predict", label: "longest answer",
        help: "Most tokens of an answer; empty: until the model ends it.", min: 1, max: 1e9, step: 1, preset: "" }];
    if (model.thinks)
        out.push({ name: "think", label: "thinking", help: "Reasoning before the answer.",
            options: [["", "as the model does"], ["on", "on"], ["off", "off"]], preset: "" });
    return out;
}

function makeInput(param) {
    if (param.options) {
        const select = document.createElement("select");
        select.append(...param.options.map(([value, label]) => new Option(label, value)));
        return select;
    }
    const input = document.createElement("input");
    input.placeholder = param.preset;
    input.autocomplete = "off";
    if (!param.isText) {
        input.type = "number";
        input.step = param.step ?? "any";
        input.min = param.min;
        input.max = param.max;
        input.inputMode = param.min < 0 ? "text" : "decimal";  // some phones' number pads have no minus
    }
    return input;
}

function addField(parent, param) {
    const label = document.createElement("label");
    label.className = "field";
    const input = makeInput(param);
    input.id = `set-${param.name}`;
    label.htmlFor = input.id;
    const help = document.createElement("small");
    help.textContent = param.help;
    help.id = `help-${param.name}`;
    input.setAttribute("aria-describedby", help.id);
    label.append((param.label ?? param.name).replaceAll("_", " "), input);
    const field = document.createElement("div");
    field.append(label, help);
    parent.append(field);
    rows.push({ name: param.name, input });
}

function fill(system, settings) {
    $("system").value = system;
    for (const { name, input } of rows) input.value = settings[name] ?? "";
}

/** Builds the fields for the model. */
export function build(model) {
    rows = [];
    $("fields").replaceChildren();
    $("more-fields").replaceChildren();
    const isFirst = ({ name }) => FIRST.includes(name);
    own(model).forEach((param) => addField($("fields"), param));
    const params = model.params.filter(({ name }) => !LEFT_OUT.includes(name));
    params.filter(isFirst).sort((a, b) => FIRST.indexOf(a.name) - FIRST.indexOf(b.name))
        .forEach((param) => addField($("fields"), param));
    params.filter((param) => !isFirst(param)).forEach((param) => addField($("more-fields"), param));
}

/** Opens the dialog; calls onDone(system, settings) if the user confirms. */
export function open(system, settings, onDone) {
    const dialog = $("settings");
    const form = dialog.querySelector("form");
    fill(system, settings);
    const more = dialog.querySelector("details");
    more.open = rows.some(({ name, input }) => input.value && more.contains(input) && name in settings);
    $("reset").onclick = () => fill("", {});
    $("cancel").onclick = () => dialog.close();
    // Unfold, so that the browser can point at a wrong value inside.
    form.addEventListener("invalid", () => { more.open ||= more.querySelector(":invalid") !== null; },
        { capture: true, once: true });
    form.onsubmit = () => {
        // Settings without a field here, from an imported file, are kept.
        const changed = { ...settings };
        for (const { name, input } of rows) {
            if (input.value.trim()) changed[name] = input.value.trim();
            else delete changed[name];
        }
        onDone($("system").value.trim(), changed);
    };
    dialog.showModal();
}

/** The settings as fields of a request. */
export function fields(settings, model) {
    const out = {};
    for (const { name, isText } of model.params)
        if (name in settings) out[name] = isText ? settings[name] : Number(settings[name]);
    if (Number(settings.n_predict) > 0) out.max_tokens = Number(settings.n_predict);
    if (settings.think === "on" || settings.think === "off") out.enable_thinking = settings.think === "on";
    return out;
}
