// The model and the objects made from it once; conversion of JSON to sampling parameters, which the library
// lists.
#include "server/service.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "server/error.h"

namespace tessera::server {

namespace {

tsr_chat_options chat_options(const Config& config) {
    tsr_chat_options out{};
    if (!config.chat_template.empty()) out.template_text = config.chat_template.c_str();
    return out;
}

std::string name_of(const Config& config) {
    if (!config.model_name.empty()) return config.model_name;
    std::string name = config.model_path.substr(config.model_path.rfind('/') + 1);
    if (name.ends_with(".gguf")) name.resize(name.size() - 5);
    return name;
}

std::vector<tsr_param_info> list_sampling(const tessera_api::Model& model) {
    std::vector<tsr_param_info> out;
    tsr_param_info info{};
    info.size = sizeof info;
    while (tsr_model_sampling_param(model.get(), out.size(), &info, nullptr) == TSR_OK) out.push_back(info);
    return out;
}

/// The text of a list parameter: texts with escapes, separated by commas.
std::string joined(const Json& list, const std::string& name) {
    std::string out;
    for (size_t i = 0; i < list.size(); i++) {
        if (i > 0) out += name == "samplers" ? ';' : ',';
        for (const char c : terminated(list[i], name + "[" + std::to_string(i) + "]")) {
            if (c == ',' || c == '\\') out += '\\';
            if (c == '\n' || c == '\r' || c == '\t') out += '\\';
            out += c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c;
        }
    }
    return out;
}

/// The library's text of a logit_bias given as {"15043": 1.5, "13": false}, [[15043, 1.5]] or that text.
std::string bias_text(const Json& value, int32_t n_vocab) {
    if (value.is_string()) return terminated(value, "logit_bias");
    std::string out;
    const auto add = [&](const std::string& id, const Json& bias) {
        const bool ban = bias.is_boolean() && !bias.get<bool>();
        const bool digits =
            !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || std::stol(id) >= n_vocab)
            throw HttpError(400,
                            "logit_bias: expected a token id from 0 to " + std::to_string(n_vocab - 1) +
                                ", found '" + shown(id) + "'",
                            "logit_bias");
        if (!ban && !bias.is_number())
            throw HttpError(
                400, "logit_bias: expected a number or false for token " + id + ", found " + kind_name(bias),
                "logit_bias");
        char number[64];
        // OpenAI documents -100 as a ban; with a model's usual logits it is one.
        std::snprintf(number, sizeof number, "%+.9g", ban ? 0.0 : bias.get<double>());
        out += (out.empty() ? "" : ",") + id + (ban ? "-inf" : number);
    };
    if (value.is_object()) {
        for (const auto& [id, bias] : value.items()) add(id, bias);
    } else if (value.is_array()) {
        for (const Json& pair : value) {
            if (!pair.is_array() || pair.size() != 2)
                throw HttpError(400, "logit_bias: expected pairs of a token id and a number", "logit_bias");
            add(pair[0].is_number_integer() ? pair[0].dump() : "", pair[1]);
        }
    } else {
        throw HttpError(400, std::string("logit_bias: expected an object, found ") + kind_name(value),
                        "logit_bias");
    }
    return out;
}

std::string number_value(const Json& value) {
    if (value.is_number_integer()) return value.dump();
    char text[64];
    const double number = value.get<double>();
    const bool whole = std::trunc(number) == number && std::abs(number) < 9e15;
    std::snprintf(text, sizeof text, whole ? "%.0f" : "%.9g", number);
    return text;
}

}  // namespace

Service::Service(const Config& settings)
    : config(settings),
      model(config.model_path, config.model),
      info(model.info()),
      engine(model, config.engine),
      chat(model, chat_options(config)),
      chat_info(chat.info()),
      sampling(list_sampling(model)),
      name(name_of(config)),
      n_ctx(engine.stats().n_ctx),
      created(std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count()) {}

tessera_api::Sampling read_sampling(const Service& service, const Json& body) {
    tessera_api::Sampling out;
    for (const tsr_param_info& row : service.sampling) {
        const auto found = body.find(row.name);
        if (found == body.end() || found->is_null()) continue;
        const std::string name = row.name;
        if (name == "logit_bias") {
            out.emplace_back(name, bias_text(*found, service.info.n_vocab));
        } else if (row.is_text) {
            check_field({row.name, kText | kList, 0, 0, ""}, *found, name);
            out.emplace_back(name, found->is_array() ? joined(*found, name) : terminated(*found, name));
        } else {
            // Some clients write true for 1.
            const Json value = found->is_boolean() ? Json(found->get<bool>() ? 1 : 0) : *found;
            check_field({row.name, kNumber, row.min, row.max, ""}, value, name);
            out.emplace_back(name, number_value(value));
        }
    }
    return out;
}

Json sampling_values(const Service& service, const tessera_api::Sampling& given) {
    Json out = Json::object();
    for (const tsr_param_info& row : service.sampling) {
        if (row.is_text)
            out[row.name] = row.default_text ? row.default_text : "";
        else
            out[row.name] = row.default_value;
    }
    for (const auto& [name, value] : given) {
        Json& shown = out[name];
        shown = shown.is_string() ? Json(value) : Json::parse(value);
    }
    return out;
}

Json sampling_properties(const Service& service) {
    Json out = Json::object();
    for (const tsr_param_info& row : service.sampling) {
        Json& property = out[row.name];
        property["description"] = row.help;
        if (row.is_text) {
            property["type"] = std::string(row.name) == "logit_bias"
                                   ? Json({"object", "array", "string", "null"})
                                   : Json({"array", "string", "null"});
        } else {
            property["type"] = {"number", "null"};
            property["default"] = row.default_value;
            property["minimum"] = row.min;
            property["maximum"] = row.max;
        }
    }
    return out;
}

void rethrow(const tessera_api::Error& error, const std::string& param) {
    const std::string message = error.what();
    switch (error.status()) {
        case TSR_INVALID_ARGUMENT:
        case TSR_NOT_FOUND:
        case TSR_MALFORMED:
        case TSR_UNSUPPORTED: {
            // The message may begin with the place: "messages[2].content: ...".
            const size_t colon = message.find(": ");
            const bool is_place =
                colon != std::string::npos && message.substr(0, colon).find(' ') == std::string::npos;
            throw HttpError(400, message, !param.empty() ? param : is_place ? message.substr(0, colon) : "");
        }
        case TSR_BUSY: {
            HttpError busy(429, "the queue is full; try again later", "", "queue_full");
            busy.retry_after_s = 1;
            throw busy;
        }
        default:
            throw error;
    }
}

}  // namespace tessera::server
