#pragma once
// The fields of request bodies are tables: validation, the documents and /openapi.json are made from the same
// rows.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/json.h"

namespace tessera::server {

enum Kind : unsigned { kFlag = 1, kWhole = 2, kNumber = 4, kText = 8, kList = 16, kObject = 32 };

struct Field {
    const char* name;
    unsigned kinds;   ///< which kinds of value it takes
    double min, max;  ///< of numbers; of the number of bytes or elements with others, where max > 0
    const char* help;
    bool required = false;
};

using FieldTable = std::span<const Field>;

/// A request's body, checked against tables: what a table lists has a value of its kind and range, or is
/// absent; null counts as absent. Fields in no table are ignored, as clients send many. Throws HttpError 400
/// naming the field.
class Fields {
  public:
    Fields(Json body, std::initializer_list<FieldTable> tables);

    bool has(const char* name) const { return find(name) != nullptr; }
    bool flag(const char* name, bool fallback = false) const;
    int64_t whole(const char* name, int64_t fallback) const;
    double number(const char* name, double fallback) const;
    std::string text(const char* name, const std::string& fallback = "") const;
    /// The value as it came, or null.
    const Json& value(const char* name) const;
    const Json& body() const { return body_; }

  private:
    const Json* find(const char* name) const;
    Json body_;
};

/// Checks one value against a row; `path` is how messages name it. Throws HttpError 400.
void check_field(const Field& field, const Json& value, const std::string& path);

/// The rows as the properties of a JSON schema.
void add_properties(FieldTable table, Json& properties, Json& required);

/// A text that the C interface takes as a terminated string. Throws HttpError 400 where it holds a NUL.
std::string terminated(const Json& text, const std::string& path);

/// A list of texts, of which none is empty, given as one text or an array; at most `limit`.
std::vector<std::string> texts(const Json& value, const std::string& path, size_t limit);

/// A token id below n_vocab, and a list of them.
int32_t token_id(const Json& value, const std::string& path, int32_t n_vocab);
std::vector<int32_t> token_ids(const Json& value, const std::string& path, int32_t n_vocab);

}  // namespace tessera::server
