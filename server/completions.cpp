// POST /v1/completions: completions of prompts, in the format of OpenAI's earlier interface.
#include "server/answer.h"
#include "server/error.h"
#include "server/prompts.h"
#include "server/routes.h"

namespace tessera::server {

namespace {

constexpr Field kCompletionRows[] = {
    {"prompt", kText | kList, 0, 1 << 24, "A text, token ids, or an array of such prompts.", true},
    {"max_tokens", kWhole, -1, 1e9,
     "Most tokens to generate; default 16, 0: only prefill the prompt, -1: until the model ends."},
    {"echo", kFlag, 0, 0, "Return the prompt in front of the text; default false."},
    {"logprobs", kWhole | kFlag, 0, 20,
     "Return log probabilities, with this number of top alternatives per token."},
    {"best_of", kWhole, 1, 16, "Must equal n."},
    {"suffix", kText, 0, 1 << 24, "The text after the gap, for models trained to fill in the middle."}};

class TextAnswer : public Answer {
  public:
    TextAnswer(const Service& service, const Fields& fields, std::vector<std::string> echoes, size_t n,
               bool log_probs)
        : Answer(fields),
          service_(service),
          id_(random_name("cmpl-")),
          created_(unix_time()),
          n_(n),
          log_probs_(log_probs),
          with_usage_(wants_usage(fields)),
          echoes_(std::move(echoes)),
          choices_(echoes_.size() * n) {}

    void start(std::string& out) override {
        for (size_t i = 0; i < choices_.size(); i++) {
            choices_[i].text = echoes_[i / n_];
            if (!choices_[i].text.empty()) out += sse(chunk(i, choices_[i].text, Json(), Json()));
        }
    }

    void token(const Event& event, std::string& out) override {
        Choice& choice = choices_[event.choice];
        Json shown;
        if (log_probs_ && event.id >= 0) {
            add_log_prob(choice.log_probs, event, choice.text.size());
            add_log_prob(shown, event, choice.text.size());
        }
        choice.text += event.text;
        if (event.text.empty() && shown.is_null()) return;
        Json data = chunk(event.choice, event.text, shown, Json());
        add_extras(event, data);
        out += sse(data);
    }

    void end(const Event& event, const Totals&, std::string& out) override {
        choices_[event.choice].finish = finish_reason(event);
        Json data = chunk(event.choice, "", Json(), choices_[event.choice].finish);
        add_extras(event, data);
        out += sse(data);
    }

    void finish(const Totals& totals, std::string& out) override {
        if (with_usage_) {
            Json tail = envelope();
            tail["choices"] = Json::array();
            tail["usage"] = totals.usage();
            tail["timings"] = totals.timings();
            out += sse(tail);
        }
        out += "data: [DONE]\n\n";
    }

    Json whole(const Totals& totals) override {
        Json out = envelope(), list = Json::array();
        for (size_t i = 0; i < choices_.size(); i++)
            list.push_back({{"text", choices_[i].text},
                            {"index", i},
                            {"logprobs", std::move(choices_[i].log_probs)},
                            {"finish_reason", choices_[i].finish}});
        out["choices"] = std::move(list);
        out["usage"] = totals.usage();
        out["timings"] = totals.timings();
        return out;
    }

  protected:
    std::string progress(const Event& event) override {
        Json data = chunk(event.choice, "", Json(), Json());
        add_extras(event, data);
        return sse(data);
    }

  private:
    struct Choice {
        std::string text, finish;
        Json log_probs;
    };

    Json envelope() const {
        return {{"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", service_.name}};
    }

    Json chunk(size_t index, const std::string& text, const Json& log_probs, const Json& finish) const {
        Json out = envelope();
        out["choices"] = Json::array(
            {{{"text", text}, {"index", index}, {"logprobs", log_probs}, {"finish_reason", finish}}});
        return out;
    }

    void add_log_prob(Json& to, const Event& event, size_t offset) const {
        if (to.is_null())
            to = {{"tokens", Json::array()},
                  {"token_logprobs", Json::array()},
                  {"top_logprobs", Json::array()},
                  {"text_offset", Json::array()}};
        to["tokens"].push_back(token_text(service_, event.id));
        to["token_logprobs"].push_back(json_log_p(event.log_p));
        Json top = Json::object();
        for (const tsr_token_prob& row : event.top) top[token_text(service_, row.id)] = json_log_p(row.log_p);
        to["top_logprobs"].push_back(std::move(top));
        to["text_offset"].push_back(offset);
    }

    const Service& service_;
    const std::string id_;
    const int64_t created_;
    const size_t n_;
    const bool log_probs_, with_usage_;
    const std::vector<std::string> echoes_;
    std::vector<Choice> choices_;
};

std::vector<std::vector<int32_t>> prompts_of(const Service& service, const Fields& fields) {
    if (!fields.has("suffix") || fields.value("suffix") == "")
        return read_prompts(service, fields.value("prompt"), "prompt");
    const Json& prompt = fields.value("prompt");
    if (!prompt.is_string()) throw HttpError(400, "prompt: with a suffix, expected one text", "prompt");
    const auto& prefix = prompt.get_ref<const std::string&>();
    const auto& suffix = fields.value("suffix").get_ref<const std::string&>();
    tsr_infill infill{};
    infill.prefix = prefix.data();
    infill.n_prefix = prefix.size();
    infill.suffix = suffix.data();
    infill.n_suffix = suffix.size();
    try {
        auto tokens = service.model.infill(infill);
        check_length(service, tokens.size(), "prompt");
        return {std::move(tokens)};
    } catch (const tessera_api::Error& error) {
        rethrow(error, "suffix");
    }
}

}  // namespace

const FieldTable kCompletionFields = kCompletionRows;

Response post_completions(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kGenerationFields, kCompletionFields});
    const auto prompts = prompts_of(service, fields);
    tessera_api::Request options = read_generation(service, request, fields);
    options.max_tokens = 16;
    read_max_tokens(fields, {"max_tokens"}, options);
    options.grammar = read_response_format(fields, nullptr);
    const int64_t best_of = fields.whole("best_of", options.n_completions);
    if (best_of != options.n_completions)
        throw HttpError(400,
                        "best_of: expected the value of n, " + std::to_string(options.n_completions) +
                            ", found " + std::to_string(best_of),
                        "best_of");
    const Json& wanted = fields.value("logprobs");
    const bool log_probs = wanted.is_number() || (wanted.is_boolean() && wanted.get<bool>());
    if (log_probs) options.flags |= TSR_LOG_PROBS;
    if (wanted.is_number()) options.n_top = wanted.get<int32_t>();
    const bool echo = fields.flag("echo");
    if (echo && log_probs)
        throw HttpError(400, "echo: expected logprobs to be absent, since those of prompts are not computed",
                        "echo");
    std::vector<std::string> echoes(prompts.size());
    for (size_t i = 0; echo && i < prompts.size(); i++)
        echoes[i] = fields.value("prompt").is_string() ? fields.value("prompt").get<std::string>()
                                                       : service.model.detokenize(prompts[i]);
    const auto n = static_cast<size_t>(options.n_completions);
    auto answer = std::make_shared<TextAnswer>(service, fields, std::move(echoes), n, log_probs);
    auto generation = std::make_unique<Generation>(service, request, options, prompts);
    return respond(request, std::move(generation), std::move(answer), n, fields.flag("stream"));
}

}  // namespace tessera::server
