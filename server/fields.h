#pragma once
// The fields of request bodies are tables: validation, the documents and /openapi.json use the same rows.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/json.h"

namespace tessera::server {

enum Kind : unsigned { kFlag = 1, kWhole = 2, kNumber = 4, kText = 8, kList = 16, kObject = 32 };

struct Field {
    const char* name;
    unsigned kinds;   ///< the kinds of value that it takes
    double min, max;  ///< of numbers; for others, if max > 0, of the number of bytes or elements
    const char* help;
    bool required = false;
};

using FieldTable = std::span<const Field>;

/// A request's body, checked against tables: each field of a table has a value of its kind and range, or is
/// absent; null counts as absent. Fields in no table are ignored, since clients send many. Throws HttpError
/// 400 naming the field.
class Fields {
  public:
    Fields(Json body, std::initializer_list<FieldTable> tables);

    bool has(const char* name) const { return find(name) != nullptr; }
    bool flag(const char* name, bool fallback = false) const;
    int64_t whole(const char* name, int64_t fallback) const;
    double number(const char* name, double fallback) const;
    std::string text(const char* name, const std::string& fallback = "") const;
    /// The value as received, or null.
    const Json& value(const char* name) const;
    const Json& body() const { return body_; }

  private:
    const Json* find(const char* name) const;
    Json body_;
};

/// Checks one value against a row; messages name it by `path`. Throws HttpError 400.
void check_field(const Field& field, const Json& value, const std::string& path);

/// The rows as the properties of a JSON schema.
void add_properties(FieldTable table, Json& properties, Json& required);

/// A text for the C interface, which takes terminated strings. Throws HttpError 400 if it contains a NUL.
std::string terminated(const Json& text, const std::string& path);

/// At most `limit` texts, none of them empty, given as one text or as an array.
std::vector<std::string> texts(const Json& value, const std::string& path, size_t limit);

/// A token id below n_vocab, and a list of them.
int32_t token_id(const Json& value, const std::string& path, int32_t n_vocab);
std::vector<int32_t> token_ids(const Json& value, const std::string& path, int32_t n_vocab);

}  // namespace tessera::server
