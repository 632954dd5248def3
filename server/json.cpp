// Requests are parsed by nlohmann-json, which copies deep values recursively, so nesting is limited before.
// Duplicate members are refused, since two readers of a request could otherwise use different ones.
#include "server/json.h"

#include <set>
#include <vector>

#include "server/error.h"

namespace tessera::server {

namespace {

/// Counts brackets outside of strings. The parser checks that they match.
void check_depth(std::string_view text) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') i++;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > kMaxJsonDepth)
                throw HttpError(400, "the request's JSON is nested deeper than " +
                                         std::to_string(kMaxJsonDepth) + " levels, at byte " +
                                         std::to_string(i));
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
}

}  // namespace

Json parse_json(std::string_view text) {
    check_depth(text);
    std::vector<std::set<std::string>> names;
    const auto watch = [&names](int, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) names.emplace_back();
        if (event == Json::parse_event_t::object_end) names.pop_back();
        if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
            throw HttpError(
                400, "the request's JSON has the member '" + shown(value.get<std::string>()) + "' twice",
                shown(value.get<std::string>()));
        return true;
    };
    try {
        return Json::parse(text, watch);
    } catch (const nlohmann::json::parse_error& e) {
        // The parser's message quotes the text, which may be a prompt.
        throw HttpError(400,
                        "the request's body is not valid JSON in UTF-8, at byte " + std::to_string(e.byte));
    } catch (const nlohmann::json::exception&) {
        throw HttpError(400, "the request's JSON has a number that is out of range");
    }
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

const char* kind_name(const Json& value) {
    switch (value.type()) {
        case Json::value_t::null:
            return "null";
        case Json::value_t::boolean:
            return value.get<bool>() ? "true" : "false";
        case Json::value_t::string:
            return "a string";
        case Json::value_t::array:
            return "an array";
        case Json::value_t::object:
            return "an object";
        case Json::value_t::number_float:
            return "a number that is not whole";
        default:
            return "a number";
    }
}

std::string shown(std::string_view text, size_t limit) {
    std::string out;
    for (const char c : text) {
        // Cut between characters only.
        if (out.size() >= limit && (c & 0xC0) != 0x80) return out + "...";
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    }
    return out;
}

std::string error_body(int status, const std::string& message, const std::string& param,
                       const std::string& code) {
    const char* type = status == 401   ? "authentication_error"
                       : status == 429 ? "rate_limit_error"
                       : status >= 500 ? "server_error"
                                       : "invalid_request_error";
    Json error = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
    if (!param.empty()) error["param"] = param;
    if (!code.empty()) error["code"] = code;
    return dump({{"error", std::move(error)}});
}

}  // namespace tessera::server
