// POST /v1/chat/completions: renders a dialogue to a prompt and parses the model's text, while it is
// generated, into messages, reasoning and tool calls.
#include <optional>

#include "server/answer.h"
#include "server/dialogue.h"
#include "server/error.h"
#include "server/prompts.h"
#include "server/routes.h"

namespace tessera::server {

namespace {

constexpr Field kChatRows[] = {
    {"max_completion_tokens", kWhole, -1, 1e9,
     "Most tokens to generate; -1 (default): until the model ends."},
    {"max_tokens", kWhole, -1, 1e9, "The same; the earlier name."},
    {"reasoning_budget", kWhole, -1, 1e9,
     "Most tokens of reasoning; its end is forced after them. 0: none, -1 (default): no limit."},
    {"thinking_budget_tokens", kWhole, -1, 1e9, "The same; another name."},
    {"reasoning_format", kText, 0, 0,
     "deepseek or auto (default): reasoning is returned as `reasoning_content`; none: it stays in the "
     "content; "
     "deepseek-legacy: both."},
    {"logprobs", kFlag, 0, 0, "Return the log probabilities of the tokens; default false."},
    {"top_logprobs", kWhole, 0, 20, "With logprobs: number of top alternatives per token."}};

/// How an answer is parsed.
struct Reading {
    tsr_parser_options options{};
    bool shows_twice = false;  ///< the content contains the reasoning as well
};

/// Splits one completion's text into pieces while it is generated.
class ChatText {
  public:
    explicit ChatText(const Reading& reading) : parts_(reading.options) {
        if (!reading.shows_twice) return;
        tsr_parser_options whole = reading.options;
        whole.flags |= TSR_PARSER_KEEP_REASONING;
        content_.emplace(whole);
    }

    void push(std::string_view text) {
        parts_.push(text);
        if (content_) content_->push(text);
    }
    void finish() {
        parts_.finish();
        if (content_) content_->finish();
    }
    std::optional<tessera_api::Parser::Piece> next() {
        while (auto piece = parts_.next())
            if (!content_ || piece->kind != TSR_PIECE_CONTENT) return piece;
        while (auto piece = content_ ? content_->next() : std::nullopt)
            if (piece->kind == TSR_PIECE_CONTENT) return piece;
        return std::nullopt;
    }
    tessera_api::Answer answer() {
        tessera_api::Answer out = parts_.answer();
        if (content_) out.content = content_->answer().content;
        return out;
    }

  private:
    tessera_api::Parser parts_;
    std::optional<tessera_api::Parser> content_;  ///< set where the content differs from that of parts_
};

class ChatAnswer : public Answer {
  public:
    ChatAnswer(const Service& service, const Fields& fields, const Reading& reading, size_t n)
        : Answer(fields),
          service_(service),
          id_(random_name("chatcmpl-")),
          created_(unix_time()),
          log_probs_(fields.flag("logprobs")),
          with_usage_(wants_usage(fields)) {
        for (size_t i = 0; i < n; i++) choices_.emplace_back(reading);
    }

    void start(std::string& out) override {
        for (size_t i = 0; i < choices_.size(); i++)
            out += sse(chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr));
    }

    void token(const Event& event, std::string& out) override {
        Choice& choice = choices_[event.choice];
        if (log_probs_ && event.id >= 0) choice.log_probs.push_back(log_prob(event));
        choice.text.push(event.text);
        show_pieces(event, out);
    }

    void end(const Event& event, const Totals& totals, std::string& out) override {
        Choice& choice = choices_[event.choice];
        choice.text.finish();
        show_pieces(event, out);
        choice.finish = finish_reason(event);
        if (!choice.ids.empty() && choice.finish == "stop") choice.finish = "tool_calls";
        const bool last = ++n_ended_ == choices_.size();
        Json data = chunk(event.choice, Json::object(), choice.finish);
        add_extras(event, data);
        if (last && !with_usage_) data["timings"] = totals.timings();
        out += sse(data);
    }

    void finish(const Totals& totals, std::string& out) override {
        if (with_usage_) {
            Json tail = envelope("chat.completion.chunk");
            tail["choices"] = Json::array();
            tail["usage"] = totals.usage();
            tail["timings"] = totals.timings();
            out += sse(tail);
        }
        out += "data: [DONE]\n\n";
    }

    Json whole(const Totals& totals) override {
        Json out = envelope("chat.completion");
        Json list = Json::array();
        for (size_t i = 0; i < choices_.size(); i++) {
            Choice& choice = choices_[i];
            const tessera_api::Answer answer = choice.text.answer();
            Json message = {{"role", "assistant"}, {"content", answer.content}};
            if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
            if (!answer.calls.empty()) {
                if (answer.content.empty()) message["content"] = nullptr;
                for (size_t k = 0; k < answer.calls.size(); k++)
                    message["tool_calls"].push_back(call_row(answer.calls[k], choice.ids[k]));
            }
            list.push_back(
                {{"index", i},
                 {"message", std::move(message)},
                 {"logprobs", log_probs_ ? Json{{"content", std::move(choice.all_log_probs)}} : Json()},
                 {"finish_reason", choice.finish}});
        }
        out["choices"] = std::move(list);
        out["usage"] = totals.usage();
        out["timings"] = totals.timings();
        return out;
    }

  protected:
    std::string progress(const Event& event) override {
        Json data = chunk(event.choice, Json::object(), nullptr);
        add_extras(event, data);
        return sse(data);
    }

  private:
    struct Choice {
        explicit Choice(const Reading& reading) : text(reading) {}
        ChatText text;
        Json log_probs = Json::array();      ///< not shown yet
        Json all_log_probs = Json::array();  ///< of whole answers
        std::vector<std::string> ids;        ///< of its calls
        std::string finish;
    };

    Json envelope(const char* object) const {
        return {{"id", id_},
                {"object", object},
                {"created", created_},
                {"model", service_.name},
                {"system_fingerprint", std::string("tessera-") + tsr_version()}};
    }

    Json chunk(size_t index, Json delta, const Json& finish) {
        Choice& choice = choices_[index];
        Json out = envelope("chat.completion.chunk");
        Json row = {
            {"index", index}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", finish}};
        if (log_probs_ && !choice.log_probs.empty()) {
            row["logprobs"] = {{"content", choice.log_probs}};
            for (Json& entry : choice.log_probs) choice.all_log_probs.push_back(std::move(entry));
            choice.log_probs = Json::array();
        }
        out["choices"] = Json::array({std::move(row)});
        return out;
    }

    void show_pieces(const Event& event, std::string& out) {
        Choice& choice = choices_[event.choice];
        while (const auto piece = choice.text.next()) {
            Json delta;
            switch (piece->kind) {
                case TSR_PIECE_CALL:
                case TSR_PIECE_CALL_BEGIN:
                    choice.ids.push_back(piece->call.id.empty() ? random_name("call_") : piece->call.id);
                    delta["tool_calls"] = Json::array({call_row(piece->call, choice.ids.back())});
                    delta["tool_calls"][0]["index"] = piece->call_index;
                    break;
                case TSR_PIECE_CALL_ARGUMENTS:
                    delta["tool_calls"] = Json::array(
                        {{{"index", piece->call_index}, {"function", {{"arguments", piece->text}}}}});
                    break;
                default:
                    delta[piece->kind == TSR_PIECE_REASONING ? "reasoning_content" : "content"] = piece->text;
            }
            Json data = chunk(event.choice, std::move(delta), nullptr);
            add_extras(event, data);
            out += sse(data);
        }
    }

    static Json call_row(const tessera_api::Call& call, const std::string& id) {
        return {{"id", id},
                {"type", "function"},
                {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    }

    Json entry(int32_t id, float log_p) const {
        return {{"token", token_text(service_, id)},
                {"logprob", json_log_p(log_p)},
                {"bytes", byte_list(token_bytes(service_, id))}};
    }
    Json log_prob(const Event& event) const {
        Json out = entry(event.id, event.log_p);
        out["top_logprobs"] = Json::array();
        for (const tsr_token_prob& top : event.top) out["top_logprobs"].push_back(entry(top.id, top.log_p));
        return out;
    }

    const Service& service_;
    const std::string id_;
    const int64_t created_;
    const bool log_probs_, with_usage_;
    std::vector<Choice> choices_;
    size_t n_ended_ = 0;
};

}  // namespace

const FieldTable kChatFields = kChatRows;

namespace {

Reading reading_of(const Dialogue& dialogue, const Fields& fields) {
    Reading out;
    out.options.prompt = dialogue.prompt().get();
    out.options.stream_calls = 1;
    if (dialogue.forbids_calls()) out.options.flags |= TSR_PARSER_NO_CALLS;
    const std::string format = fields.text("reasoning_format", "auto");
    out.shows_twice = format == "deepseek-legacy";
    if (format == "none")
        out.options.flags |= TSR_PARSER_KEEP_REASONING;
    else if (format != "deepseek" && format != "auto" && !out.shows_twice)
        throw HttpError(400,
                        "reasoning_format: expected none, deepseek, deepseek-legacy or auto, found '" +
                            shown(format) + "'",
                        "reasoning_format");
    return out;
}

}  // namespace

Response post_chat_completions(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kTemplateFields, kGenerationFields, kChatFields});
    const Dialogue dialogue(service, fields);
    const Reading reading = reading_of(dialogue, fields);
    const std::vector<int32_t> tokens = dialogue.prompt().tokens();
    check_length(service, tokens.size(), "messages");
    tessera_api::Request options = read_generation(service, request, fields);
    read_max_tokens(fields, {"max_completion_tokens", "max_tokens"}, options);
    options.flags |= TSR_SHOW_SPECIAL_TEXT;
    const int64_t budget = fields.whole("reasoning_budget", fields.whole("thinking_budget_tokens", -1));
    options.max_reasoning = budget < 0 ? 0 : budget == 0 ? -1 : budget;
    options.prompt = dialogue.prompt().get();
    if (service.chat_info.stop) options.stop.emplace_back(service.chat_info.stop);
    const bool log_probs = fields.flag("logprobs");
    if (log_probs) options.flags |= TSR_LOG_PROBS;
    options.n_top = static_cast<int32_t>(fields.whole("top_logprobs", 0));
    if (options.n_top > 0 && !log_probs)
        throw HttpError(400, "top_logprobs: expected logprobs to be true, found it is not", "top_logprobs");
    options.grammar = read_response_format(fields, dialogue.prompt().get());
    // Where calls are forbidden another constraint suffices: no text is parsed as a call.
    if (auto calls = options.grammar && dialogue.forbids_calls() ? std::nullopt : dialogue.calls(fields)) {
        if (options.grammar)
            throw HttpError(
                400, "tools: expected no other constraint on the answer where tool calls are constrained",
                "tools");
        options.grammar = std::move(calls);
    }
    const auto n = static_cast<size_t>(options.n_completions);
    auto answer = std::make_shared<ChatAnswer>(service, fields, reading, n);
    auto generation =
        std::make_unique<Generation>(service, request, options, std::vector<std::vector<int32_t>>{tokens});
    return respond(request, std::move(generation), std::move(answer), n, fields.flag("stream"));
}

}  // namespace tessera::server
