// POST /completion and /infill: llama.cpp's own interface.
#include <algorithm>

#include "server/answer.h"
#include "server/error.h"
#include "server/prompts.h"
#include "server/routes.h"

namespace tessera::server {

namespace {

constexpr Field kNativeRows[] = {
    {"prompt", kText | kList, 0, 1 << 24,
     "A text, token ids, both mixed in an array, or an array of prompts."},
    {"n_predict", kWhole, -1, 1e9,
     "Most tokens to generate; 0: only prefill the prompt, -1 (default): until the model ends."},
    {"max_tokens", kWhole, -1, 1e9, "The same; another name."},
    {"n_probs", kWhole, 0, 100, "Number of top alternatives per token, with their probabilities; default 0."},
    {"n_keep", kWhole, -1, 1e9,
     "With context_shift: tokens at the front that are kept; -1: the whole prompt."},
    {"n_indent", kWhole, 0, 1e6,
     "A completion ends before a line, other than the first, that is indented by fewer spaces and tabs; 0 "
     "(default): off."},
    {"context_shift", kFlag, 0, 0, "Drop the older half of a full context instead of ending; default false."},
    {"return_tokens", kFlag, 0, 0, "Return the token ids as well; default false."},
    {"response_fields", kList, 0, 100,
     "Return only these members of the answer, or of a stream's last event; a path such as "
     "`timings/predicted_n` "
     "names a nested one."}};
constexpr Field kInfillRows[] = {
    {"input_prefix", kText, 0, 1 << 24, "The text before the gap."},
    {"input_suffix", kText, 0, 1 << 24, "The text after the gap."},
    {"input_extra", kList, 0, 1000, "Files of the same repository: objects with `filename` and `text`."}};

std::vector<std::string> read_members(const Fields& fields) {
    std::vector<std::string> out;
    for (const Json& path : fields.value("response_fields"))
        out.push_back(terminated(path, "response_fields[" + std::to_string(out.size()) + "]"));
    return out;
}

/// The members at these paths, by their paths; missing ones are left out.
Json members_of(const Json& report, const std::vector<std::string>& paths) {
    Json out = Json::object();
    for (const std::string& path : paths) {
        const Json* at = &report;
        for (size_t begin = 0; at && begin <= path.size();) {
            const size_t end = std::min(path.find('/', begin), path.size());
            const auto found = at->find(path.substr(begin, end - begin));
            at = found == at->end() ? nullptr : &*found;
            begin = end + 1;
        }
        if (at) out[path] = *at;
    }
    return out;
}

/// The values that an answer was generated with, by the names of the request's fields.
Json settings_of(const Service& service, const Fields& fields, const tessera_api::Request& options) {
    Json out = sampling_values(service, options.sampling);
    out["n_predict"] = fields.whole("n_predict", fields.whole("max_tokens", -1));
    out["n_keep"] = options.n_keep;
    out["n_indent"] = options.n_indent;
    out["n_probs"] = options.n_top;
    out["n"] = options.n_completions;
    out["stop"] = options.stop;
    out["stream"] = fields.flag("stream");
    out["ignore_eos"] = fields.flag("ignore_eos");
    return out;
}

class NativeAnswer : public Answer {
  public:
    NativeAnswer(const Service& service, const Fields& fields, const tessera_api::Request& options,
                 size_t n_choices)
        : Answer(fields),
          service_(service),
          stop_(options.stop),
          settings_(settings_of(service, fields, options)),
          members_(read_members(fields)),
          ids_(fields.flag("return_tokens")),
          choices_(n_choices) {}

    void start(std::string&) override {}

    void token(const Event& event, std::string& out) override {
        Choice& choice = choices_[event.choice];
        choice.text += event.text;
        Json shown = chunk(event);
        if (event.id >= 0) {
            shown["tokens"].push_back(event.id);
            choice.tokens.push_back(event.id);
            if (!event.top.empty()) {
                shown["completion_probabilities"] = Json::array({probabilities(event)});
                choice.probabilities.push_back(shown["completion_probabilities"][0]);
            }
        }
        add_extras(event, shown);
        out += sse(shown);
    }

    void end(const Event& event, const Totals&, std::string& out) override {
        (void)finish_reason(event);
        Choice& choice = choices_[event.choice];
        const tsr_outcome& outcome = event.outcome;
        const bool is_word = outcome.finish == TSR_FINISH_STOP_STRING;
        Totals own;
        own.add(outcome, 0);
        choice.report = {{"index", event.choice},
                         {"content", ""},
                         {"tokens", Json::array()},
                         {"id_slot", event.slot},
                         {"stop", true},
                         {"model", service_.name},
                         {"tokens_predicted", outcome.n_generated},
                         {"tokens_evaluated", outcome.n_prompt},
                         {"tokens_cached", outcome.n_cached},
                         {"truncated", outcome.n_shifted > 0},
                         {"stop_type", is_word                            ? "word"
                                       : outcome.finish == TSR_FINISH_END ? "eos"
                                                                          : "limit"},
                         {"stopping_word", is_word ? stop_[static_cast<size_t>(outcome.stop_index)] : ""},
                         {"seed", outcome.seed},
                         {"generation_settings", settings_},
                         {"timings", own.timings()}};
        out += sse(shown_of(choice.report));
    }

    void finish(const Totals&, std::string&) override {}

    Json whole(const Totals&) override {
        Json list = Json::array();
        for (Choice& choice : choices_) {
            choice.report["content"] = choice.text;
            if (ids_) choice.report["tokens"] = choice.tokens;
            if (!choice.probabilities.empty())
                choice.report["completion_probabilities"] = std::move(choice.probabilities);
            list.push_back(shown_of(choice.report));
        }
        return list.size() == 1 ? Json(list[0]) : list;
    }

  protected:
    std::string progress(const Event& event) override {
        Json data = chunk(event);
        add_extras(event, data);
        return sse(data);
    }

  private:
    struct Choice {
        std::string text;
        std::vector<int32_t> tokens;
        Json probabilities = Json::array(), report;
    };

    static Json chunk(const Event& event) {
        return {{"index", event.choice},
                {"content", event.text},
                {"tokens", Json::array()},
                {"stop", false},
                {"id_slot", event.slot},
                {"tokens_predicted", event.outcome.n_generated},
                {"tokens_evaluated", event.outcome.n_prompt}};
    }
    Json shown_of(const Json& report) const {
        return members_.empty() ? report : members_of(report, members_);
    }

    Json row(int32_t id, float log_p) const {
        return {{"id", id},
                {"token", token_text(service_, id)},
                {"bytes", byte_list(token_bytes(service_, id))},
                {"logprob", json_log_p(log_p)}};
    }
    Json probabilities(const Event& event) const {
        Json out = row(event.id, event.log_p);
        out["top_logprobs"] = Json::array();
        for (const tsr_token_prob& top : event.top) out["top_logprobs"].push_back(row(top.id, top.log_p));
        return out;
    }

    const Service& service_;
    const std::vector<std::string> stop_;
    const Json settings_;
    const std::vector<std::string> members_;
    const bool ids_;
    std::vector<Choice> choices_;
};

Response complete(Service& service, Request& request, const Fields& fields,
                  const std::vector<std::vector<int32_t>>& prompts) {
    tessera_api::Request options = read_generation(service, request, fields);
    read_max_tokens(fields, {"n_predict", "max_tokens"}, options);
    options.n_top = static_cast<int32_t>(fields.whole("n_probs", 0));
    if (options.n_top > 0) options.flags |= TSR_LOG_PROBS;
    if (fields.flag("context_shift")) options.flags |= TSR_SHIFT_CONTEXT;
    const int64_t n_keep = fields.whole("n_keep", 0);
    options.n_keep = n_keep < 0 ? static_cast<int64_t>(prompts[0].size()) : n_keep;
    options.n_indent = fields.whole("n_indent", 0);
    options.grammar = read_response_format(fields, nullptr);
    const auto n = static_cast<size_t>(options.n_completions);
    auto answer = std::make_shared<NativeAnswer>(service, fields, options, prompts.size() * n);
    auto generation = std::make_unique<Generation>(service, request, options, prompts);
    return respond(request, std::move(generation), std::move(answer), n, fields.flag("stream"));
}

}  // namespace

const FieldTable kNativeFields = kNativeRows;
const FieldTable kInfillFields = kInfillRows;

Response post_native_completion(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kGenerationFields, kNativeFields});
    if (!fields.has("prompt"))
        throw HttpError(400, "prompt: expected a string or an array, found nothing", "prompt");
    return complete(service, request, fields, read_prompts(service, fields.value("prompt"), "prompt"));
}

Response post_infill(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kGenerationFields, kNativeFields, kInfillFields});
    const std::string prefix = fields.text("input_prefix"), suffix = fields.text("input_suffix");
    if (fields.has("prompt") && !fields.value("prompt").is_string())
        throw HttpError(400, "prompt: expected a string, found an array", "prompt");
    const std::string middle = fields.text("prompt");
    const Json& extra = fields.value("input_extra");
    std::vector<std::pair<std::string, std::string>> texts;
    for (size_t i = 0; i < extra.size(); i++) {
        const std::string path = "input_extra[" + std::to_string(i) + "]";
        if (!extra[i].is_object() || !extra[i].contains("text"))
            throw HttpError(400, path + ".text: expected a string, found nothing", "input_extra");
        texts.emplace_back(
            extra[i].contains("filename") ? terminated(extra[i]["filename"], path + ".filename") : "",
            terminated(extra[i]["text"], path + ".text"));
    }
    std::vector<tsr_infill_file> files;
    for (const auto& [name, text] : texts)
        files.push_back({name.empty() ? nullptr : name.c_str(), text.data(), text.size()});
    tsr_infill infill{};
    infill.prefix = prefix.data();
    infill.n_prefix = prefix.size();
    infill.suffix = suffix.data();
    infill.n_suffix = suffix.size();
    infill.middle = middle.data();
    infill.n_middle = middle.size();
    infill.files = files.data();
    infill.n_files = files.size();
    std::vector<int32_t> tokens;
    try {
        tokens = service.model.infill(infill);
    } catch (const tessera_api::Error& error) {
        rethrow(error);
    }
    check_length(service, tokens.size(), "input_prefix");
    return complete(service, request, fields, {tokens});
}

}  // namespace tessera::server
