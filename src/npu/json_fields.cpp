// One wording of field errors for all JSON files.
#include "src/npu/json_fields.h"

#include "common/strings.h"

namespace tessera::npu {

std::string shown(const JsonValue& value) {
    if (value.is(JsonValue::Kind::Number)) return printable(value.text, 40);
    if (value.is(JsonValue::Kind::String)) return "\"" + printable(value.text, 40) + "\"";
    if (value.is(JsonValue::Kind::Boolean)) return value.boolean ? "true" : "false";
    return json_kind_name(value.kind);
}

tl::unexpected<Error> wrong_field(std::string_view field, const std::string& expected,
                                  const JsonValue& found) {
    return fail(ErrorCode::Malformed, "'%s': expected %s, found %s", printable(field).c_str(),
                expected.c_str(), shown(found).c_str());
}

tl::unexpected<Error> missing_field(std::string_view field) {
    return fail(ErrorCode::Malformed, "the field '%s' is missing", printable(field).c_str());
}

tl::unexpected<Error> unknown_field(std::string_view field, std::span<const std::string_view> known) {
    const std::string_view nearest = nearest_name(field, known);
    const std::string hint = nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?";
    return fail(ErrorCode::Malformed, "unknown field '%s'%s", printable(field).c_str(), hint.c_str());
}

Result<void> check_object(const JsonValue& root) {
    if (root.is(JsonValue::Kind::Object)) return {};
    return fail(ErrorCode::Malformed, "expected an object, found %s", shown(root).c_str());
}

}  // namespace tessera::npu
