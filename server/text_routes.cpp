// Routes that generate no text: tokens, prompts of dialogues, and embeddings.
#include <cstring>

#include "server/answer.h"
#include "server/dialogue.h"
#include "server/error.h"
#include "server/prompts.h"
#include "server/routes.h"
#include "server/service.h"

namespace tessera::server {

namespace {

constexpr Field kTokenizeRows[] = {
    {"content", kText | kList, 0, 0, "The text, or an array of texts and token ids.", true},
    {"add_special", kFlag, 0, 0, "Add the start and end tokens that the model expects; default false."},
    {"parse_special", kFlag, 0, 0, "Parse special tokens such as <|im_end|> in the text; default true."},
    {"with_pieces", kFlag, 0, 0, "Return objects with id and piece instead of ids; default false."}};
constexpr Field kDetokenizeRows[] = {{"tokens", kList, 0, 1 << 22, "Token ids.", true}};
constexpr int kMaxInputs = 2048;
constexpr Field kEmbeddingRows[] = {
    {"model", kText, 0, 4096, "Ignored: the server has one model."},
    {"input", kText | kList, 0, 0, "A text, an array of texts, token ids, or arrays of them.", true},
    {"encoding_format", kText, 0, 0, "float (default), or base64 of 32-bit little-endian floats."},
    {"dimensions", kWhole, 1, 1 << 20, "Must equal the model's embedding size."},
    {"pooling", kText, 0, 0, "last or mean; default: the model file's, else last."},
    {"user", kText, 0, 256, "The end user; requests of different users are scheduled fairly."}};
constexpr Field kNativeEmbeddingRows[] = {
    {"content", kText | kList, 0, 0, "A text, an array of texts, token ids, or arrays of them.", true},
    {"embd_normalize", kWhole, -1, 2, "2 (default): normalized to length 1; -1: as computed."},
    {"pooling", kText, 0, 0, "last or mean; default: the model file's, else last."}};

std::string base64(const std::vector<float>& values) {
    static const char* const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++)
            group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        for (size_t k = 0; k < 4; k++)
            out += i + k <= bytes.size() ? digits[group >> (18 - 6 * k) & 63] : '=';
    }
    return out;
}

/// A piece as text, or as bytes if it is not complete UTF-8.
Json piece(const Service& service, int32_t id) {
    const Json text = token_bytes(service, id);
    try {
        (void)text.dump();
        return text;
    } catch (const nlohmann::json::exception&) {
        return byte_list(text.get_ref<const std::string&>());
    }
}

tsr_pooling pooling_of(const Fields& fields) {
    const std::string name = fields.text("pooling", "default");
    if (name == "default") return TSR_POOLING_DEFAULT;
    if (name == "last") return TSR_POOLING_LAST;
    if (name == "mean") return TSR_POOLING_MEAN;
    throw HttpError(400, "pooling: expected last or mean, found '" + shown(name) + "'", "pooling");
}

/// The embeddings of all texts, in order.
class EmbeddingAnswer : public Answer {
  public:
    EmbeddingAnswer(const Fields& fields, size_t n) : Answer(fields), vectors_(n) {}
    void start(std::string&) override {}
    void token(const Event&, std::string&) override {}
    void end(const Event& event, const Totals&, std::string&) override {
        (void)finish_reason(event);
        vectors_[event.choice] = event.embedding;
    }
    void finish(const Totals&, std::string&) override {}

  protected:
    std::string progress(const Event&) override { return ""; }
    std::vector<std::vector<float>> vectors_;
};

/// In OpenAI's format.
class EmbeddingList : public EmbeddingAnswer {
  public:
    EmbeddingList(const Service& service, const Fields& fields, size_t n, bool packed)
        : EmbeddingAnswer(fields, n), service_(service), packed_(packed) {}
    Json whole(const Totals& totals) override {
        Json rows = Json::array();
        for (const auto& values : vectors_)
            rows.push_back({{"object", "embedding"},
                            {"index", rows.size()},
                            {"embedding", packed_ ? Json(base64(values)) : Json(values)}});
        return {{"object", "list"},
                {"data", std::move(rows)},
                {"model", service_.name},
                {"usage", {{"prompt_tokens", totals.n_prompt}, {"total_tokens", totals.n_prompt}}}};
    }

  private:
    const Service& service_;
    const bool packed_;
};

/// In llama.cpp's format, where a text can have one vector per token.
class NativeEmbeddings : public EmbeddingAnswer {
  public:
    using EmbeddingAnswer::EmbeddingAnswer;
    Json whole(const Totals&) override {
        Json rows = Json::array();
        for (const auto& values : vectors_)
            rows.push_back({{"index", rows.size()}, {"embedding", Json::array({values})}});
        return rows;
    }
};

}  // namespace

const FieldTable kTokenizeFields = kTokenizeRows;
const FieldTable kDetokenizeFields = kDetokenizeRows;
const FieldTable kEmbeddingFields = kEmbeddingRows;
const FieldTable kNativeEmbeddingFields = kNativeEmbeddingRows;

Response post_tokenize(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kTokenizeFields});
    const auto flags = (fields.flag("add_special") ? unsigned{TSR_ADD_SPECIAL} : 0U) |
                       (fields.flag("parse_special", true) ? unsigned{TSR_PARSE_SPECIAL} : 0U);
    const Json& content = fields.value("content");
    const auto ids =
        mixed_tokens(service, content.is_array() ? content : Json::array({content}), "content", flags);
    if (!fields.flag("with_pieces")) return json_response({{"tokens", ids}});
    Json tokens = Json::array();
    for (const int32_t id : ids) tokens.push_back({{"id", id}, {"piece", piece(service, id)}});
    return json_response({{"tokens", std::move(tokens)}});
}

Response post_detokenize(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kDetokenizeFields});
    const auto ids = token_ids(fields.value("tokens"), "tokens", service.info.n_vocab);
    return json_response({{"content", service.model.detokenize(ids, TSR_SHOW_SPECIAL)}});
}

Response post_apply_template(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kTemplateFields});
    const Dialogue dialogue(service, fields);
    const tsr_prompt_info& info = dialogue.prompt().info();
    return json_response({{"prompt", std::string(info.text, info.n_text)}, {"n_tokens", info.n_tokens}});
}

Response post_input_tokens(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kTemplateFields});
    const Dialogue dialogue(service, fields);
    return json_response(
        {{"object", "response.input_tokens"}, {"input_tokens", dialogue.prompt().info().n_tokens}});
}

Response post_embeddings(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kEmbeddingFields});
    const std::string format = fields.text("encoding_format", "float");
    if (format != "float" && format != "base64")
        throw HttpError(400, "encoding_format: expected float or base64, found '" + shown(format) + "'",
                        "encoding_format");
    if (const int64_t n = fields.whole("dimensions", service.info.n_embd); n != service.info.n_embd)
        throw HttpError(400,
                        "dimensions: expected " + std::to_string(service.info.n_embd) +
                            ", the model's size, found " + std::to_string(n),
                        "dimensions");
    const auto inputs = read_prompts(service, fields.value("input"), "input", kMaxInputs);
    tessera_api::Request options;
    options.embed.emplace().pooling = pooling_of(fields);
    options.client = read_client(request, fields);
    auto answer = std::make_shared<EmbeddingList>(service, fields, inputs.size(), format == "base64");
    auto generation = std::make_unique<Generation>(service, request, options, inputs);
    return respond(request, std::move(generation), std::move(answer), 1, false);
}

Response post_native_embedding(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kNativeEmbeddingFields});
    const int64_t norm = fields.whole("embd_normalize", 2);
    if (norm != 2 && norm != -1)
        throw HttpError(400, "embd_normalize: expected 2 or -1, found " + std::to_string(norm),
                        "embd_normalize");
    const auto inputs = read_prompts(service, fields.value("content"), "content", kMaxInputs);
    tessera_api::Request options;
    options.embed.emplace().pooling = pooling_of(fields);
    options.embed->raw = norm == -1;
    options.client = read_client(request, fields);
    auto answer = std::make_shared<NativeEmbeddings>(fields, inputs.size());
    auto generation = std::make_unique<Generation>(service, request, options, inputs);
    return respond(request, std::move(generation), std::move(answer), 1, false);
}

}  // namespace tessera::server
