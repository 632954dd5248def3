#pragma once
// Options for constrained output: a grammar, a regular expression, a JSON schema.
#include <memory>
#include <string>

#include "examples/tessera/options.h"
#include "src/grammar/grammar.h"

namespace tessera {

struct ConstraintFlags {
    std::string grammar, regex, schema;
    bool json_object = false, compact = false;

    void declare(Options& options);
    bool is_given() const { return !grammar.empty() || !regex.empty() || !schema.empty() || json_object; }
    /// Errors: more than one of them.
    Result<void> check() const;
    /// Null when none was given. Errors name the option and the position in its text.
    Result<std::shared_ptr<const grammar::Grammar>> create() const;
};

}  // namespace tessera
