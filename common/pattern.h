#pragma once
// A regular expression, in Perl's form, that names are searched with.
#include <memory>
#include <string>

#include "common/expected.h"

namespace tessera {

class Pattern {
  public:
    /// InvalidArgument, with the place and the reason, for what is no regular expression and for more than
    /// 1024 bytes or 250 parentheses in each other. From any source: it takes little time and memory.
    static Result<Pattern> compile(const std::string& text);

    /// Whether it matches anywhere in the name, whose bytes are its characters. From any thread. What takes
    /// more than 50,000 steps is not found, and a warning says so once.
    bool found_in(const std::string& name) const;

  private:
    struct Compiled;
    explicit Pattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace tessera
