// Wraps the C library's regular expressions.
#include "common/pattern.h"

#include <regex.h>

#include "common/strings.h"

namespace tessera {

struct Pattern::Compiled {
    regex_t expression;
    int status;

    explicit Compiled(const std::string& text)
        : status(regcomp(&expression, text.c_str(), REG_EXTENDED | REG_NOSUB)) {}
    ~Compiled() {
        if (status == 0) regfree(&expression);
    }
    Compiled(const Compiled&) = delete;
    Compiled& operator=(const Compiled&) = delete;
};

Result<Pattern> Pattern::compile(const std::string& text) {
    const auto compiled = std::make_shared<const Compiled>(text);
    if (compiled->status == 0) return Pattern(compiled);
    char reason[100];
    regerror(compiled->status, &compiled->expression, reason, sizeof reason);
    return fail(ErrorCode::InvalidArgument, "pattern '%s': expected a regular expression: %s",
                printable(text).c_str(), reason);
}

bool Pattern::found_in(const std::string& name) const {
    return regexec(&compiled_->expression, name.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace tessera
