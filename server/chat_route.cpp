// POST /v1/chat/completions: a dialogue to a prompt, and the model's text back to messages, reasoning and
// calls of tools, as it is written.
#include "server/answer.h"
#include "server/dialogue.h"
#include "server/error.h"
#include "server/prompts.h"
#include "server/routes.h"

namespace tessera::server {

namespace {

constexpr Field kChatRows[] = {
    {"max_completion_tokens", kWhole, -1, 1e9, "Tokens to write; -1 (default): until the model ends."},
    {"max_tokens", kWhole, -1, 1e9, "The same, by its earlier name."},
    {"reasoning_budget", kWhole, -1, 1e9,
     "Tokens of reasoning, after which its end is written; 0: none, -1 (default): no limit."},
    {"thinking_budget_tokens", kWhole, -1, 1e9, "The same by another name."},
    {"logprobs", kFlag, 0, 0, "The logarithms of the tokens' probabilities; default false."},
    {"top_logprobs", kWhole, 0, 20, "With logprobs: so many likeliest tokens beside each."}};

class ChatAnswer : public Answer {
  public:
    ChatAnswer(const Service& service, const tessera_api::Prompt& prompt, size_t n, bool log_probs,
               bool with_usage)
        : service_(service),
          id_(random_name("chatcmpl-")),
          created_(unix_time()),
          log_probs_(log_probs),
          with_usage_(with_usage) {
        for (size_t i = 0; i < n; i++) choices_.emplace_back(prompt);
    }

    void start(std::string& out) override {
        for (size_t i = 0; i < choices_.size(); i++)
            out += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr);
    }

    void token(const Event& event, std::string& out) override {
        Choice& choice = choices_[event.choice];
        if (log_probs_ && event.id >= 0) choice.log_probs.push_back(log_prob(event));
        choice.parser.push(event.text);
        show_pieces(event.choice, out);
    }

    void end(const Event& event, const Totals& totals, std::string& out) override {
        Choice& choice = choices_[event.choice];
        choice.parser.finish();
        show_pieces(event.choice, out);
        choice.finish = finish_reason(event);
        if (!choice.ids.empty() && choice.finish == "stop") choice.finish = "tool_calls";
        const bool last = ++n_ended_ == choices_.size();
        out += chunk(event.choice, Json::object(), choice.finish, last && !with_usage_ ? &totals : nullptr);
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
            const tessera_api::Answer answer = choice.parser.answer();
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

  private:
    struct Choice {
        explicit Choice(const tessera_api::Prompt& prompt) : parser(prompt, true) {}
        tessera_api::Parser parser;
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

    std::string chunk(size_t index, Json delta, const Json& finish, const Totals* totals = nullptr) {
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
        if (totals) out["timings"] = totals->timings();
        return sse(out);
    }

    void show_pieces(size_t index, std::string& out) {
        Choice& choice = choices_[index];
        while (const auto piece = choice.parser.next()) {
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
            out += chunk(index, std::move(delta), nullptr);
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
                {"bytes", token_bytes(service_, id)}};
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

Response post_chat_completions(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kTemplateFields, kGenerationFields, kChatFields});
    const Dialogue dialogue(service, fields);
    const std::vector<int32_t> tokens = dialogue.prompt().tokens();
    check_length(service, tokens.size(), "messages");
    tessera_api::Request options = read_generation(service, request, fields);
    options.max_tokens = read_max_tokens(fields, {"max_completion_tokens", "max_tokens"});
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
    if (auto calls = dialogue.calls(fields)) {
        if (options.grammar)
            throw HttpError(
                400, "tools: expected no other constraint on the answer where calls are held to their form",
                "tools");
        options.grammar = std::move(calls);
    }
    const auto n = static_cast<size_t>(options.n_completions);
    auto answer = std::make_shared<ChatAnswer>(service, dialogue.prompt(), n, log_probs, wants_usage(fields));
    auto generation =
        std::make_unique<Generation>(service, request, options, std::vector<std::vector<int32_t>>{tokens});
    return respond(request, std::move(generation), std::move(answer), n, fields.flag("stream"));
}

}  // namespace tessera::server
