// Loads and probes templates, and renders: the context, adapting, repairs, and the cut of a turn that is
// continued.
#include "src/text/chat/template.h"

#include <algorithm>

#include "common/expected.h"
#include "common/log.h"
#include "common/strings.h"
#include "src/text/chat/adapt.h"
#include "src/text/chat/probe.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

using jinja::Failure;
using jinja::Kind;

// Marks the position where a turn is cut off. Letters only, so that no template changes it.
constexpr std::string_view kCut = "tessEraCutsHerE";

Value text_value(std::string text) { return Value::text(std::move(text)); }

// The shortest dialogues: a template that renders neither does not work.
std::vector<Dialogue> plain_dialogues() {
    const auto message = [](const char* role, const char* text) {
        return Value::dict_of({{"role", Value::text(role)}, {"content", Value::text(text)}});
    };
    Dialogue one, three;
    one.messages = Value::list({message("user", "Hello")});
    three.messages =
        Value::list({message("user", "Hello"), message("assistant", "Hi"), message("user", "Well?")});
    return {one, three};
}

}  // namespace

ChatTemplate ChatTemplate::load(std::string_view source, SpecialTexts special, Clock clock) {
    Result<ChatTemplate> loaded = parse(source, special, clock);
    Result<std::string> fault = loaded ? loaded->probe() : tl::unexpected<Error>(loaded.error());
    if (fault && fault->empty()) return std::move(*loaded);
    Result<ChatTemplate> chatml = load_strictly(find_builtin("chatml"), std::move(special), std::move(clock));
    TSR_CHECK(chatml.has_value());
    std::string warning =
        fault ? "the chat template fails for some dialogues, ChatML is used for those: " + *fault
              : "the chat template does not work, ChatML is used instead: " + fault.error().message;
    log::warn("%s", warning.c_str());
    if (!fault) {
        chatml->warnings_.push_back(std::move(warning));
        return std::move(*chatml);
    }
    loaded->warnings_.push_back(std::move(warning));
    if (loaded->turn_end_.empty()) loaded->turn_end_ = chatml->turn_end_;
    loaded->fallback_ = std::make_shared<const ChatTemplate>(std::move(*chatml));
    return std::move(*loaded);
}

Result<ChatTemplate> ChatTemplate::load_strictly(std::string_view source, SpecialTexts special, Clock clock) {
    TSR_TRY(ChatTemplate out, parse(source, std::move(special), std::move(clock)));
    TSR_TRY(const std::string fault, out.probe());
    if (!fault.empty()) out.warnings_.push_back("the chat template fails for some dialogues: " + fault);
    return out;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, SpecialTexts special, Clock clock) {
    auto parsed = jinja::Template::parse(source);
    if (!parsed) return tl::unexpected<Error>(parsed.error().to_error());
    return ChatTemplate(std::move(*parsed), std::move(special), std::move(clock));
}

Result<std::string> ChatTemplate::probe() {
    Prober prober(*this);
    prober.absent_tools();
    prober.content_forms();
    prober.system();
    prober.tools_and_calls();
    prober.thinking();
    abilities_ = prober.abilities();
    turn_end_ = prober.turn_end();
    std::optional<Error> fault;
    bool renders_any = false;
    for (const Dialogue& dialogue : plain_dialogues()) {
        std::vector<std::string> notes;
        Result<std::string> text = render_adapted(dialogue, notes);
        if (text && text->find("Hello") == std::string::npos)
            text = fail(ErrorCode::Malformed, "the message 'Hello' is not in the prompt: '%s'",
                        printable(*text, 200).c_str());
        renders_any |= text.has_value();
        if (!text && !fault) fault = text.error();
    }
    if (!fault) return std::string();
    if (!renders_any) return tl::unexpected<Error>(*fault);
    return fault->message;
}

Value ChatTemplate::context(const Dialogue& dialogue, const jinja::DateTime& now, bool with_extras) const {
    Value::Pairs pairs;
    const auto set = [&](const char* name, Value value) {
        pairs.emplace_back(text_value(name), std::move(value));
    };
    if (with_extras) {
        const Value tools = dialogue.tools.is_none() ? Value::list({}) : dialogue.tools;
        set("functions", text_value(jinja::dump_json(tools).value_or(std::string("[]"))));
        set("datetime", text_value(jinja::format_time("%b %d %Y", now)));
    }
    for (const auto& pair : dialogue.kwargs.as_dict().pairs()) pairs.push_back(pair);
    if (dialogue.enable_thinking) {
        // Templates use either name.
        set("enable_thinking", Value::boolean(*dialogue.enable_thinking));
        set("thinking", Value::boolean(*dialogue.enable_thinking));
    }
    set("messages", dialogue.messages);
    set("tools", dialogue.tools);
    set("documents", dialogue.documents);
    set("add_generation_prompt", Value::boolean(dialogue.add_generation_prompt));
    if (!special_.bos.empty()) set("bos_token", text_value(special_.bos));
    if (!special_.eos.empty()) set("eos_token", text_value(special_.eos));
    return Value::dict(std::move(pairs));
}

tl::expected<std::string, Failure> ChatTemplate::run(const Dialogue& dialogue, bool with_extras) const {
    const jinja::DateTime now = dialogue.now ? *dialogue.now : clock_ ? clock_() : jinja::DateTime::now();
    return template_.render(context(dialogue, now, with_extras), now);
}

Result<std::string> ChatTemplate::render_raw(const Dialogue& dialogue) const {
    auto text = run(dialogue, false);
    if (!text) return fail_in("chat template", text.error().to_error());
    return std::move(*text);
}

Result<std::string> ChatTemplate::render_adapted(const Dialogue& dialogue,
                                                 std::vector<std::string>& notes) const {
    TSR_TRY(const Dialogue adapted, adapt(dialogue, abilities_, notes));
    auto text = run(adapted);
    if (text) return std::move(*text);
    Dialogue repaired = adapted;
    std::vector<std::string> repair_notes;
    for (const Repair& repair : repairs()) {
        std::optional<Dialogue> changed = repair.change(repaired);
        if (!changed) continue;
        repaired = std::move(*changed);
        repair_notes.emplace_back(repair.note);
        auto second = run(repaired);
        if (!second) continue;
        notes.insert(notes.end(), repair_notes.begin(), repair_notes.end());
        return std::move(*second);
    }
    return fail_in("chat template", text.error().to_error());
}

Result<std::string> ChatTemplate::render_open(Dialogue dialogue, std::vector<std::string>& notes) const {
    Value::Items messages = dialogue.messages.items();
    if (messages.empty() || text_member(messages.back(), "role") != "assistant")
        return fail(ErrorCode::InvalidArgument,
                    "expected the assistant's message last, to be continued, found another message");
    Value& last = messages.back();
    // If the message has only reasoning, the reasoning is continued.
    const Value* content = last.find("content");
    std::string words = content ? plain_text(*content) : std::string();
    const bool reasons = words.empty() && !text_member(last, "reasoning_content").empty();
    if (reasons) words = text_member(last, "reasoning_content");
    last =
        with_member(last, reasons ? "reasoning_content" : "content", text_value(words + std::string(kCut)));
    dialogue.messages = Value::list(std::move(messages));
    dialogue.add_generation_prompt = false;
    TSR_TRY(std::string text, render_adapted(dialogue, notes));
    const size_t cut = text.rfind(kCut);
    if (cut == std::string::npos)
        return fail(ErrorCode::Unsupported,
                    "the chat template does not print the end of the last message, which "
                    "therefore cannot be continued");
    text.resize(cut);
    return text;
}

Result<Prompt> ChatTemplate::render(const Dialogue& dialogue) const {
    Result<Prompt> own = render_own(dialogue);
    if (own || !fallback_) return own;
    Result<Prompt> prompt = fallback_->render(dialogue);
    if (!prompt) return own;
    prompt->notes.insert(prompt->notes.begin(),
                         "ChatML is used, as the chat template fails: " + own.error().message);
    return prompt;
}

Result<Prompt> ChatTemplate::render_own(const Dialogue& dialogue) const {
    Prompt prompt;
    if (dialogue.continue_last) {
        TSR_TRY(prompt.text, render_open(dialogue, prompt.notes));
    } else {
        TSR_TRY(prompt.text, render_adapted(dialogue, prompt.notes));
    }
    if (dialogue.add_generation_prompt && !dialogue.continue_last) {
        Dialogue closed = dialogue;
        closed.add_generation_prompt = false;
        std::vector<std::string> ignored;
        // The opening is unknown if the template fails without it.
        if (const Result<std::string> before = render_adapted(closed, ignored);
            before && prompt.text.starts_with(*before))
            prompt.opening = prompt.text.substr(before->size());
    }
    if (special_.bos.empty()) return prompt;
    size_t n_bos = 0;
    while (std::string_view(prompt.text).substr(n_bos * special_.bos.size()).starts_with(special_.bos))
        n_bos++;
    if (n_bos > 1) {
        prompt.text.erase(0, (n_bos - 1) * special_.bos.size());
        prompt.notes.emplace_back("the template prints the bos token more than once: only one is kept");
    }
    prompt.has_bos = n_bos > 0;
    return prompt;
}

}  // namespace tessera::chat
