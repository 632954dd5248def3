#pragma once
// JSON schemas parsed into fields, with references resolved. Internal to src/grammar.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/expected.h"
#include "common/json.h"
#include "src/grammar/program.h"
#include "src/grammar/scalars.h"

namespace tessera::grammar {

using SchemaId = uint32_t;
constexpr SchemaId kNoSchema = 0xFFFFFFFF;

/// The types that `type` allows, as bits.
enum TypeBits : uint8_t {
    kNullBit = 1,
    kBooleanBit = 2,
    kIntegerBit = 4,
    kNumberBit = 8,
    kStringBit = 16,
    kArrayBit = 32,
    kObjectBit = 64,
    kAllTypes = 127,
};

struct Schema {
    std::string pointer;  ///< JSON pointer to it (to the first of equal schemas)
    std::optional<bool> boolean;
    uint8_t types = kAllTypes;
    /// From `enum` and `const`: every list must contain the value.
    std::vector<std::vector<const JsonValue*>> values;

    std::optional<Decimal> minimum, maximum, exclusive_minimum, exclusive_maximum, multiple_of;

    uint32_t min_length = 0, max_length = kUnbounded;
    std::optional<std::string> pattern, format;

    std::vector<SchemaId> prefix_items;
    SchemaId items = kNoSchema, contains = kNoSchema, unevaluated_items = kNoSchema;
    uint32_t min_items = 0, max_items = kUnbounded, min_contains = 1, max_contains = kUnbounded;
    bool unique_items = false;

    std::vector<std::pair<std::string, SchemaId>> properties, pattern_properties, dependent_schemas;
    SchemaId additional_properties = kNoSchema, property_names = kNoSchema,
             unevaluated_properties = kNoSchema;
    std::vector<std::string> required;
    std::vector<std::pair<std::string, std::vector<std::string>>> dependent_required;
    uint32_t min_properties = 0, max_properties = kUnbounded;
    bool ordered = true;  ///< whether `properties` gives an order

    std::vector<SchemaId> all_of, any_of, one_of;
    SchemaId negated = kNoSchema, condition = kNoSchema, then_branch = kNoSchema, else_branch = kNoSchema;
    SchemaId reference = kNoSchema;

    bool has_unevaluated() const {
        return unevaluated_items != kNoSchema || unevaluated_properties != kNoSchema;
    }
};

/// How a keyword is treated.
struct SchemaKeyword {
    enum class Use : uint8_t { Enforced, Annotation };
    std::string_view name;
    Use use;
};
std::span<const SchemaKeyword> schema_keywords();

/// Owns a document and all schemas reachable in it.
class SchemaSet {
  public:
    /// Errors name the pointer of the keyword: Malformed for a value of the wrong kind, a reference to
    /// nothing, an invalid pattern; Unsupported for a keyword or format that is not enforced.
    static Result<std::unique_ptr<SchemaSet>> parse(std::string_view text);

    const Schema& operator[](SchemaId id) const { return schemas_[id]; }
    SchemaId root() const { return root_; }
    size_t size() const { return schemas_.size(); }

    /// Schemas that are not part of a document.
    SchemaId constant(const JsonValue* value);
    SchemaId boolean(bool value) const { return value ? 1 : 0; }
    SchemaId any_of(std::vector<SchemaId> ways, const std::string& pointer);

    Formulas formulas;
    StringLanguage strings{formulas};
    NumberLanguage numbers{formulas};

  private:
    friend class SchemaReader;
    SchemaSet() = default;

    JsonValue document_;
    std::deque<Schema> schemas_;
    std::map<const JsonValue*, SchemaId> constants_;
    SchemaId root_ = 0;
};

}  // namespace tessera::grammar
