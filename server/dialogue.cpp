// Passes messages, tools and the template's variables of a request to the library, which checks and renders
// them. tool_choice decides how the answer is constrained.
#include "server/dialogue.h"

#include "server/error.h"
#include "server/routes.h"

namespace tessera::server {

namespace {

constexpr Field kTemplateRows[] = {
    {"messages", kList, 0, 10000, "The dialogue, in OpenAI's format.", true},
    {"tools", kList, 0, 1000, "Functions that the model may call, with JSON schemas of their arguments."},
    {"tool_choice", kText | kObject, 0, 0,
     "auto (default with tools), none (the answer cannot begin a call), required, or the function to call."},
    {"parallel_tool_calls", kFlag, 0, 0, "Allow several calls in one answer; default true."},
    {"chat_template_kwargs", kObject, 0, 0, "Further variables of the template, such as enable_thinking."},
    {"enable_thinking", kFlag, 0, 0, "The template's switch for reasoning."},
    {"reasoning_effort", kText, 0, 0,
     "Passed to the template: none, minimal, low, medium or high; none disables reasoning."},
    {"add_generation_prompt", kFlag, 0, 0, "Open the assistant's turn; default true."},
    {"continue_final_message", kFlag, 0, 0,
     "Continue the last message; default: if it is the assistant's and has text."}};

bool continues(const Json& messages) {
    if (messages.empty() || !messages.back().is_object()) return false;
    const Json& last = messages.back();
    const bool has_text = last.contains("content") && last["content"].is_string() && !last["content"].empty();
    return last.value("role", Json()) == "assistant" && has_text && !last.contains("tool_calls");
}

std::string read_effort(const Fields& fields) {
    const std::string effort = fields.text("reasoning_effort");
    for (const char* known : {"", "none", "minimal", "low", "medium", "high"})
        if (effort == known) return effort;
    throw HttpError(
        400, "reasoning_effort: expected none, minimal, low, medium or high, found '" + shown(effort) + "'",
        "reasoning_effort");
}

}  // namespace

const FieldTable kTemplateFields = kTemplateRows;

Dialogue::Dialogue(const Service& service, const Fields& fields) : service_(service) {
    read_choice(fields);
    const std::string messages = dump(fields.value("messages"));
    const std::string tools = has_tools_ ? dump(fields.value("tools")) : "";
    const std::string effort = read_effort(fields);
    Json variables = fields.value("chat_template_kwargs");
    if (!effort.empty() && !variables.contains("reasoning_effort")) variables["reasoning_effort"] = effort;
    const std::string kwargs = variables.is_null() ? "" : dump(variables);
    tsr_dialogue dialogue{};
    dialogue.messages = messages.c_str();
    if (!tools.empty()) dialogue.tools = tools.c_str();
    if (!kwargs.empty()) dialogue.kwargs = kwargs.c_str();
    if (fields.has("enable_thinking"))
        dialogue.enable_thinking = fields.flag("enable_thinking") ? TSR_YES : TSR_NO;
    else if (effort == "none" && !variables.contains("enable_thinking"))
        dialogue.enable_thinking = TSR_NO;
    const bool goes_on = fields.flag("continue_final_message", continues(fields.value("messages")));
    dialogue.continue_last = goes_on ? TSR_YES : TSR_NO;
    if (!goes_on)
        dialogue.add_generation_prompt = fields.flag("add_generation_prompt", true) ? TSR_YES : TSR_NO;
    try {
        prompt_ = service.chat.render(dialogue);
    } catch (const tessera_api::Error& error) {
        rethrow(error);
    }
}

void Dialogue::read_choice(const Fields& fields) {
    const Json& tools = fields.value("tools");
    has_tools_ = !tools.is_null() && !tools.empty();
    const Json& choice = fields.value("tool_choice");
    if (choice.is_object()) {
        const bool named = choice.contains("function") && choice["function"].is_object() &&
                           choice["function"].contains("name");
        if (!named)
            throw HttpError(400, "tool_choice.function.name: expected a string, found nothing",
                            "tool_choice");
        function_ = terminated(choice["function"]["name"], "tool_choice.function.name");
        choice_ = Choice::Required;
    } else if (choice.is_null() || choice == "auto") {
        choice_ = has_tools_ ? Choice::Auto : Choice::Free;
    } else if (choice == "required") {
        choice_ = Choice::Required;
    } else if (choice == "none") {
        choice_ = Choice::None;
    } else {
        throw HttpError(400,
                        "tool_choice: expected auto, none, required or a function, found '" +
                            shown(choice.get_ref<const std::string&>()) + "'",
                        "tool_choice");
    }
    if (choice_ == Choice::Required && !has_tools_)
        throw HttpError(400, "tool_choice: expected functions in tools, since a call is required; found none",
                        "tool_choice");
}

std::optional<tessera_api::Grammar> Dialogue::calls(const Fields& fields) const {
    const int enforced = service_.chat_info.enforced_calls;
    if (!has_tools_ || (choice_ != Choice::Required && enforced < 2)) return std::nullopt;
    tsr_tool_grammar_options form{};
    form.prompt = prompt_->get();
    form.required = choice_ == Choice::Required;
    form.none = choice_ == Choice::None;
    form.parallel = fields.flag("parallel_tool_calls", true);
    form.function = function_.empty() ? nullptr : function_.c_str();
    try {
        return tessera_api::Grammar(form);
    } catch (const tessera_api::Error& error) {
        rethrow(error, choice_ == Choice::Required ? "tool_choice" : "tools");
    }
}

}  // namespace tessera::server
