#pragma once
// A regular expression in Perl's syntax, for searching names.
#include <memory>
#include <string>

#include "common/expected.h"

namespace tessera {

class Pattern {
  public:
    /// Errors: InvalidArgument, with position and reason, for an invalid expression, more than 1024 bytes, or
    /// 250 nested parentheses. Safe for untrusted text: time and memory are bounded.
    static Result<Pattern> compile(const std::string& text);

    /// Whether it matches anywhere in the name, bytewise. Any thread. A search of more than 50,000 steps
    /// counts as no match, with a warning once.
    bool found_in(const std::string& name) const;

  private:
    struct Compiled;
    explicit Pattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace tessera
