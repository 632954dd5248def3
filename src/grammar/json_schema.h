#pragma once
// The JSON schema front end.
#include <string_view>

#include "common/expected.h"
#include "src/grammar/grammar.h"

namespace tessera::grammar {

/// JSON valid under the schema, as an expression of `program`. Errors: those of Grammar::from_json_schema.
Result<ExprId> add_json_schema(std::string_view schema, const SchemaOptions& options, Program& program);

/// An object valid under the schema, with its members in the notation. Errors: also values that the notation
/// cannot write (Unsupported).
Result<ExprId> add_arguments(std::string_view schema, const SchemaOptions& options,
                             const ArgumentNotation& notation, Program& program);

}  // namespace tessera::grammar
