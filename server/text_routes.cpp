// Routes that compute no answer: text to tokens and back, dialogues to prompts, texts to embeddings.
#include <cstring>

#include "server/dialogue.h"
#include "server/error.h"
#include "server/prompts.h"
#include "server/routes.h"
#include "server/service.h"

namespace tessera::server {

namespace {

constexpr Field kTokenizeRows[] = {
    {"content", kText, 0, 0, "The text.", true},
    {"add_special", kFlag, 0, 0,
     "Start and end tokens around it, where the model wants them; default false."},
    {"parse_special", kFlag, 0, 0, "The spelling of a control token becomes that token; default true."},
    {"with_pieces", kFlag, 0, 0, "Objects with id and piece instead of ids; default false."}};
constexpr Field kDetokenizeRows[] = {{"tokens", kList, 0, 1 << 22, "Token ids.", true}};
constexpr Field kEmbeddingRows[] = {
    {"input", kText | kList, 0, 2048, "A text, an array of texts, token ids, or arrays of them.", true},
    {"encoding_format", kText, 0, 0, "float (default) or base64: floats of 32 bits, little endian."},
    {"dimensions", kWhole, 1, 1 << 20, "Only the model's own number is taken."},
    {"pooling", kText, 0, 0, "last or mean; default: as the model's file says, else last."}};

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

/// A piece as text, or as bytes where it is not whole UTF-8.
Json piece(const Service& service, int32_t id) {
    const char* bytes = nullptr;
    size_t n = 0;
    tessera_api::detail::call(tsr_token_bytes, service.model.get(), id, &bytes, &n);
    const Json text = std::string(bytes, n);
    try {
        (void)text.dump();
        return text;
    } catch (const nlohmann::json::exception&) {
        Json out = Json::array();
        for (size_t i = 0; i < n; i++) out.push_back(static_cast<unsigned char>(bytes[i]));
        return out;
    }
}

tsr_pooling pooling_of(const Fields& fields) {
    const std::string name = fields.text("pooling", "default");
    if (name == "default") return TSR_POOLING_DEFAULT;
    if (name == "last") return TSR_POOLING_LAST;
    if (name == "mean") return TSR_POOLING_MEAN;
    throw HttpError(400, "pooling: expected last or mean, found '" + shown(name) + "'", "pooling");
}

}  // namespace

const FieldTable kTokenizeFields = kTokenizeRows;
const FieldTable kDetokenizeFields = kDetokenizeRows;
const FieldTable kEmbeddingFields = kEmbeddingRows;

Response post_tokenize(Service& service, Request& request) {
    const Fields fields(parse_json(request.body), {kTokenizeFields});
    const auto flags = (fields.flag("add_special") ? unsigned{TSR_ADD_SPECIAL} : 0U) |
                       (fields.flag("parse_special", true) ? unsigned{TSR_PARSE_SPECIAL} : 0U);
    const auto ids = service.model.tokenize(fields.value("content").get_ref<const std::string&>(), flags);
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
                            ", which the model has, found " + std::to_string(n),
                        "dimensions");
    const tsr_pooling pooling = pooling_of(fields);
    const auto inputs = read_prompts(service, fields.value("input"), "input");
    Json data = Json::array();
    size_t n_tokens = 0;
    for (size_t i = 0; i < inputs.size(); i++) {
        const auto values = service.embed(inputs[i], pooling, *request.peer);
        n_tokens += inputs[i].size();
        data.push_back({{"object", "embedding"},
                        {"index", i},
                        {"embedding", format == "float" ? Json(values) : Json(base64(values))}});
    }
    return json_response({{"object", "list"},
                          {"data", std::move(data)},
                          {"model", service.name},
                          {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
}

}  // namespace tessera::server
