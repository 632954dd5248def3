// Requests to the server: the model's properties, and answers as streams. Errors become sentences for the user here.
import { key } from "./store.js";

/** An error whose `message` is for the user. */
export class ServerError extends Error {
    constructor(message, status = 0) {
        super(message);
        this.status = status;  // 0: no answer arrived
    }
}

const seconds = (n) => (n === 1 ? "a second" : `${n} seconds`);

function inWords(status, error, retryAfter) {
    const said = error?.message ?? `status ${status}`;
    if (error?.code === "context_length_exceeded") {
        const counts = said.match(/\d+/g) ?? [];
        const sizes = counts.length >= 2 ? ` (${counts[0]} tokens; the context holds ${counts[1]})` : "";
        return `This conversation is too long for the context${sizes}. ` +
            "Delete some messages, or begin a new conversation.";
    }
    switch (status) {
        case 401: return "The server needs a key, and this one is wrong.";
        case 404: return "The server does not know this route. Is it a tessera server?";
        case 413: return "The message is larger than the server accepts.";
        case 429: return `The server is busy. Try again in ${seconds(retryAfter || 1)}.`;
        case 503: return "The server is stopping, or has too many clients.";
    }
    return status >= 500 ? `The server failed: ${said}.` : `The server refused: ${said}.`;
}

async function ask(path, body, signal) {
    const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
    if (body) headers["Content-Type"] = "application/json";
    let answer;
    try {
        const method = body ? "POST" : "GET";
        answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new ServerError("No answer from the server. Is it running?");
    }
    if (answer.ok) return answer;
    const error = await answer.json().then((json) => json.error, () => null);
    throw new ServerError(inWords(answer.status, error, Number(answer.headers.get("Retry-After"))), answer.status);
}

/**
 * The model: {name, nCtx, thinks, params: [{name, help, min, max, preset}]}. Parameters are the sampling fields of the
 * chat route: the fields that have a default among the server's settings.
 */
export async function describe() {
    const props = await (await ask("props")).json();
    const api = await (await ask("openapi.json")).json();
    const route = api.paths["/v1/chat/completions"].post;
    const fields = route.requestBody.content["application/json"].schema.properties;
    const presets = props.default_generation_settings.params;
    const params = Object.entries(fields).filter(([name]) => name in presets).map(([name, field]) => ({
        name,
        help: field.description,
        isText: !field.type.includes("number"),
        min: field.minimum,
        max: field.maximum,
        preset: String(presets[name]),
    }));
    return { name: props.model_alias, nCtx: props.default_generation_settings.n_ctx,
        thinks: props.chat_template_caps.supports_thinking, params };
}

/** The data of each event of a stream. The network may split the text anywhere. */
async function* events(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        text += value;
        const lines = text.split("\n");
        text = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) yield line.slice(6);
    }
}

/**
 * Streams an answer: onDelta({content?, reasoning_content?}) for each piece. Returns {finish, usage, timings}. Throws
 * ServerError, or AbortError if the signal stopped it.
 */
export async function complete(body, signal, onDelta) {
    const answer = await ask("v1/chat/completions", { ...body, stream: true, stream_options: { include_usage: true } },
        signal);
    const out = { finish: "", usage: null, timings: null };
    try {
        for await (const data of events(answer.body)) {
            if (data === "[DONE]") return out;
            const event = JSON.parse(data);
            if (event.error) throw new ServerError(`The answer failed: ${event.error.message}.`);
            const choice = event.choices[0];
            if (choice) onDelta(choice.delta);
            out.finish = choice?.finish_reason ?? out.finish;
            out.usage = event.usage ?? out.usage;
            out.timings = event.timings ?? out.timings;
        }
    } catch (error) {
        if (error.name === "AbortError" || error instanceof ServerError) throw error;
    }
    throw new ServerError("The connection was lost before the end of the answer.");
}
