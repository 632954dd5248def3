// The C interface: chat templates, prompts and the parser of answers. The engine's Chat does the work; this
// file converts its types to C structs.
#include <deque>

#include "src/capi/guard.h"
#include "src/capi/handles.h"

struct tsr_parser {
    std::unique_ptr<tessera::chat::OutputParser> parser;
    std::deque<tessera::chat::Delta> deltas;  // not yet returned by tsr_parser_next
    tessera::chat::Delta given;               // owner of the text last returned
    std::vector<tsr_call> calls;              // of the answer
    std::string notes;
    bool finished = false;
};

namespace tessera::capi {

namespace {

std::string_view view_of(const char* text) { return text ? std::string_view(text) : std::string_view(); }

std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
}

tsr_chat_info info_of(const tsr_chat& chat) {
    const engine::Chat& inner = *chat.chat;
    const chat::Abilities &plain = inner.plain().abilities(), &tools = inner.with_tools().abilities();
    tsr_chat_info out{};
    out.source = inner.plain().source().c_str();
    out.format = chat.format.c_str();
    out.turn_end = inner.plain().turn_end().c_str();
    out.stop = inner.stop().empty() ? nullptr : inner.stop().c_str();
    out.warning = chat.warning.empty() ? nullptr : chat.warning.c_str();
    out.system = plain.system;
    out.tools = tools.tools;
    out.tool_calls = tools.tool_calls;
    out.tool_results = tools.tool_results;
    out.parts = plain.parts;
    out.thinking = plain.thinking;
    out.enforced_calls = inner.tool_call_format() ? 2 : 0;
    return out;
}

/// nullopt for TSR_DEFAULT.
Result<std::optional<bool>> choice(int32_t value, const char* name) {
    if (value == TSR_DEFAULT) return std::optional<bool>();
    if (value == TSR_YES || value == TSR_NO) return std::optional(value == TSR_YES);
    return fail(ErrorCode::InvalidArgument, "%s: expected TSR_DEFAULT, TSR_YES or TSR_NO, found %d", name,
                value);
}

Result<chat::Dialogue> dialogue_of(const tsr_dialogue& given) {
    TSR_TRY_VOID(need(given.messages, "messages"));
    TSR_TRY(chat::Dialogue out,
            engine::read_dialogue(given.messages, view_of(given.tools), view_of(given.kwargs)));
    TSR_TRY(const auto opens, choice(given.add_generation_prompt, "add_generation_prompt"));
    TSR_TRY(const auto goes_on, choice(given.continue_last, "continue_last"));
    TSR_TRY(const auto thinks, choice(given.enable_thinking, "enable_thinking"));
    if (opens.value_or(false) && goes_on.value_or(false))
        return fail(ErrorCode::InvalidArgument,
                    "expected at most one of add_generation_prompt and continue_last, found both");
    if (goes_on) out.continue_last = *goes_on;
    if (goes_on && !opens) out.add_generation_prompt = !*goes_on;
    if (opens) out.add_generation_prompt = *opens;
    if (opens.value_or(false)) out.continue_last = false;
    if (thinks) out.enable_thinking = thinks;
    if (given.now) {
        auto now = jinja::DateTime::parse(given.now);
        if (!now) return fail_in("now", std::move(now.error()));
        out.now = *now;
    }
    return out;
}

Result<std::unique_ptr<chat::OutputParser>> parser_of(const tsr_parser_options& given) {
    const chat::Format* format = given.prompt ? given.prompt->format : chat::find_format("plain");
    chat::ParserOptions options;
    if (given.prompt) options = given.prompt->parser_options();
    if (given.format) {
        TSR_TRY(format, engine::find_answer_format(given.format));
    }
    if (given.tools) {
        TSR_TRY(options.tools, engine::read_tools(given.tools));
    }
    if (given.opening) options.opening = given.opening;
    if (given.turn_end) options.turn_end = given.turn_end;
    options.stream_calls = given.stream_calls != 0;
    options.no_calls = (given.flags & TSR_PARSER_NO_CALLS) != 0;
    options.keep_reasoning = (given.flags & TSR_PARSER_KEEP_REASONING) != 0;
    return chat::OutputParser::make(*format, std::move(options));
}

tsr_call call_of(const chat::ToolCall& call) {
    return {call.id.c_str(), call.name.c_str(), call.arguments.c_str()};
}

void collect(tsr_parser& parser) {
    for (chat::Delta& delta : parser.parser->take_deltas()) parser.deltas.push_back(std::move(delta));
}

tsr_piece next_piece(tsr_parser& parser) {
    tsr_piece out{};
    out.text = "";
    if (parser.deltas.empty()) return out;
    parser.given = std::move(parser.deltas.front());
    parser.deltas.pop_front();
    const chat::Delta& delta = parser.given;
    out.text = delta.text.c_str();
    out.n_text = delta.text.size();
    switch (delta.kind) {
        case chat::Delta::Kind::Content:
            out.kind = TSR_PIECE_CONTENT;
            break;
        case chat::Delta::Kind::Reasoning:
            out.kind = TSR_PIECE_REASONING;
            break;
        case chat::Delta::Kind::Call:
            out.kind = TSR_PIECE_CALL;
            out.call_index = delta.call_index;
            out.call = call_of(parser.parser->answer().calls[delta.call_index]);
            break;
        case chat::Delta::Kind::CallBegin:
            out.kind = TSR_PIECE_CALL_BEGIN;
            out.call_index = delta.call_index;
            out.call = call_of(parser.parser->answer().calls[delta.call_index]);
            out.call.arguments = "";
            break;
        case chat::Delta::Kind::CallArguments:
            out.kind = TSR_PIECE_CALL_ARGUMENTS;
            out.call_index = delta.call_index;
            break;
    }
    return out;
}

tsr_answer answer_of(tsr_parser& parser) {
    const chat::Answer& answer = parser.parser->answer();
    parser.calls.clear();
    for (const chat::ToolCall& call : answer.calls) parser.calls.push_back(call_of(call));
    parser.notes = joined(answer.notes);
    tsr_answer out{};
    out.content = answer.content.c_str();
    out.n_content = answer.content.size();
    out.reasoning = answer.reasoning.c_str();
    out.n_reasoning = answer.reasoning.size();
    out.calls = parser.calls.data();
    out.n_calls = parser.calls.size();
    out.notes = parser.notes.c_str();
    return out;
}

Result<void> need_open(const tsr_parser& parser) {
    if (!parser.finished) return {};
    return fail(ErrorCode::InvalidArgument, "parser: expected an answer under way, found a finished one");
}

}  // namespace

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

tsr_status tsr_chat_create(const tsr_model* model, const tsr_chat_options* options, tsr_chat** chat,
                           tsr_error* error) {
    if (chat) *chat = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(need(chat, "chat"));
        TSR_TRY(const tsr_chat_options wanted, read_options(options, "options"));
        auto created = std::make_unique<tsr_chat>();
        TSR_TRY(created->chat, engine::Chat::create(model->model->file(), model->tokenizer,
                                                    {.template_text = view_of(wanted.template_text),
                                                     .template_name = view_of(wanted.template_name),
                                                     .format = view_of(wanted.format)}));
        created->format = created->chat->format().name;
        created->warning = joined(created->chat->plain().warnings());
        *chat = created.release();
        return {};
    });
}

void tsr_chat_free(tsr_chat* chat) { delete chat; }

tsr_status tsr_chat_get_info(const tsr_chat* chat, tsr_chat_info* info, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(chat, "chat"));
        return write_struct(info_of(*chat), info, "info");
    });
}

tsr_status tsr_chat_render(const tsr_chat* chat, const tsr_dialogue* dialogue, tsr_prompt** prompt,
                           tsr_error* error) {
    if (prompt) *prompt = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(chat, "chat"));
        TSR_TRY_VOID(need(dialogue, "dialogue"));
        TSR_TRY_VOID(need(prompt, "prompt"));
        TSR_TRY(const tsr_dialogue given, read_options(dialogue, "dialogue"));
        TSR_TRY(const chat::Dialogue read, dialogue_of(given));
        auto rendered = std::make_unique<tsr_prompt>();
        TSR_TRY(static_cast<engine::ChatPrompt&>(*rendered), chat->chat->render(read));
        rendered->notes = joined(rendered->prompt.notes);
        *prompt = rendered.release();
        return {};
    });
}

void tsr_prompt_free(tsr_prompt* prompt) { delete prompt; }

tsr_status tsr_prompt_get_info(const tsr_prompt* prompt, tsr_prompt_info* info, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(prompt, "prompt"));
        tsr_prompt_info out{};
        out.text = prompt->prompt.text.c_str();
        out.n_text = prompt->prompt.text.size();
        out.tokens = prompt->tokens.data();
        out.n_tokens = prompt->tokens.size();
        out.opening = prompt->prompt.opening.c_str();
        out.notes = prompt->notes.c_str();
        return write_struct(out, info, "info");
    });
}

tsr_status tsr_parser_create(const tsr_parser_options* options, tsr_parser** parser, tsr_error* error) {
    if (parser) *parser = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(parser, "parser"));
        TSR_TRY(const tsr_parser_options wanted, read_options(options, "options"));
        auto created = std::make_unique<tsr_parser>();
        TSR_TRY(created->parser, parser_of(wanted));
        *parser = created.release();
        return {};
    });
}

void tsr_parser_free(tsr_parser* parser) { delete parser; }

tsr_status tsr_parser_push(tsr_parser* parser, const char* text, size_t n, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(parser, "parser"));
        TSR_TRY(const std::string_view bytes, need_text(text, n, "text"));
        TSR_TRY_VOID(need_open(*parser));
        parser->parser->push(bytes);
        collect(*parser);
        return {};
    });
}

tsr_status tsr_parser_finish(tsr_parser* parser, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(parser, "parser"));
        TSR_TRY_VOID(need_open(*parser));
        parser->finished = true;
        parser->parser->finish();
        collect(*parser);
        return {};
    });
}

tsr_status tsr_parser_next(tsr_parser* parser, tsr_piece* piece, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(parser, "parser"));
        TSR_TRY_VOID(write_struct(tsr_piece{}, piece, "piece"));
        return write_struct(next_piece(*parser), piece, "piece");
    });
}

tsr_status tsr_parser_answer(tsr_parser* parser, tsr_answer* answer, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(parser, "parser"));
        return write_struct(answer_of(*parser), answer, "answer");
    });
}
