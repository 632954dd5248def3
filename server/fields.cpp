// Validation of request bodies by the rows of tables. Values may be anything that JSON allows. Each route's
// file has its tables.
#include "server/fields.h"

#include <cmath>
#include <cstdio>

#include "server/error.h"

namespace tessera::server {

namespace {

struct KindName {
    Kind kind;
    const char* name;
    const char* schema;
};
constexpr KindName kKinds[] = {{kFlag, "true or false", "boolean"}, {kWhole, "a whole number", "integer"},
                               {kNumber, "a number", "number"},     {kText, "a string", "string"},
                               {kList, "an array", "array"},        {kObject, "an object", "object"}};

std::string expected_kinds(unsigned kinds) {
    std::string out;
    for (const KindName& row : kKinds)
        if (kinds & row.kind) out += (out.empty() ? "" : " or ") + std::string(row.name);
    return out;
}

unsigned kind_of(const Json& value) {
    if (value.is_boolean()) return kFlag;
    if (value.is_string()) return kText;
    if (value.is_array()) return kList;
    if (value.is_object()) return kObject;
    if (value.is_number_integer()) return kWhole | kNumber;
    // Some clients write whole numbers as 3.0.
    const double number = value.get<double>();
    return kNumber | (std::trunc(number) == number && std::abs(number) < 9e15 ? unsigned{kWhole} : 0U);
}

/// 4.0 is written as 4, since most bounds are whole.
std::string number_text(double number) {
    char text[40];
    std::snprintf(text, sizeof text, "%.15g", number);
    return text;
}

}  // namespace

void check_field(const Field& field, const Json& value, const std::string& path) {
    if (!(kind_of(value) & field.kinds))
        throw HttpError(
            400, path + ": expected " + expected_kinds(field.kinds) + ", found " + kind_name(value), path);
    if (field.max <= 0 && field.min >= field.max) return;
    if (value.is_number()) {
        const double number = value.get<double>();
        if (!(number >= field.min && number <= field.max))
            throw HttpError(400,
                            path + ": expected a number from " + number_text(field.min) + " to " +
                                number_text(field.max) + ", found " + shown(value.dump()),
                            path);
    } else if (value.is_string() || value.is_structured()) {
        const size_t n = value.is_string() ? value.get_ref<const std::string&>().size() : value.size();
        if (!(field.kinds & (kWhole | kNumber)) && static_cast<double>(n) > field.max)
            throw HttpError(400,
                            path + ": expected at most " + number_text(field.max) +
                                (value.is_string() ? " bytes" : " elements") + ", found " + std::to_string(n),
                            path);
    }
}

Fields::Fields(Json body, std::initializer_list<FieldTable> tables) : body_(std::move(body)) {
    if (!body_.is_object())
        throw HttpError(400,
                        std::string("the request's body: expected an object, found ") + kind_name(body_));
    for (const FieldTable table : tables)
        for (const Field& field : table) {
            if (const Json* value = find(field.name))
                check_field(field, *value, field.name);
            else if (field.required)
                throw HttpError(
                    400,
                    std::string(field.name) + ": expected " + expected_kinds(field.kinds) + ", found nothing",
                    field.name, "missing_required_parameter");
        }
}

const Json* Fields::find(const char* name) const {
    const auto found = body_.find(name);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::value(const char* name) const {
    static const Json kNull;
    const Json* found = find(name);
    return found ? *found : kNull;
}

bool Fields::flag(const char* name, bool fallback) const {
    const Json* found = find(name);
    return found ? found->get<bool>() : fallback;
}

int64_t Fields::whole(const char* name, int64_t fallback) const {
    const Json* found = find(name);
    return found ? found->get<int64_t>() : fallback;
}

double Fields::number(const char* name, double fallback) const {
    const Json* found = find(name);
    return found ? found->get<double>() : fallback;
}

std::string Fields::text(const char* name, const std::string& fallback) const {
    const Json* found = find(name);
    return found ? terminated(*found, name) : fallback;
}

void add_properties(FieldTable table, Json& properties, Json& required) {
    for (const Field& field : table) {
        Json types = Json::array();
        for (const KindName& row : kKinds)
            if (field.kinds & row.kind) types.push_back(row.schema);
        types.push_back("null");
        Json& property = properties[field.name] = {{"type", types}, {"description", field.help}};
        if (field.kinds & (kWhole | kNumber) && field.max > field.min) {
            property["minimum"] = field.min;
            property["maximum"] = field.max;
        }
        if (field.required) required.push_back(field.name);
    }
}

std::string terminated(const Json& text, const std::string& path) {
    if (!text.is_string()) throw HttpError(400, path + ": expected a string, found " + kind_name(text), path);
    const auto& out = text.get_ref<const std::string&>();
    if (out.find('\0') != std::string::npos)
        throw HttpError(400, path + ": expected a text without the character U+0000", path);
    return out;
}

std::vector<std::string> texts(const Json& value, const std::string& path, size_t limit) {
    if (value.is_null()) return {};
    std::vector<std::string> out;
    const Json list = value.is_array() ? value : Json::array({value});
    if (list.size() > limit)
        throw HttpError(400,
                        path + ": expected at most " + std::to_string(limit) + " texts, found " +
                            std::to_string(list.size()),
                        path);
    for (size_t i = 0; i < list.size(); i++) {
        const std::string name = value.is_array() ? path + "[" + std::to_string(i) + "]" : path;
        out.push_back(terminated(list[i], name));
        if (out.back().empty()) throw HttpError(400, name + ": expected a text, found an empty one", path);
    }
    return out;
}

int32_t token_id(const Json& value, const std::string& path, int32_t n_vocab) {
    if (value.is_number_integer() && value >= 0 && value < n_vocab) return value.get<int32_t>();
    throw HttpError(400,
                    path + ": expected a token id from 0 to " + std::to_string(n_vocab - 1) + ", found " +
                        shown(dump(value)),
                    path);
}

std::vector<int32_t> token_ids(const Json& value, const std::string& path, int32_t n_vocab) {
    std::vector<int32_t> out;
    out.reserve(value.size());
    for (size_t i = 0; i < value.size(); i++)
        out.push_back(token_id(value[i], path + "[" + std::to_string(i) + "]", n_vocab));
    return out;
}

}  // namespace tessera::server
