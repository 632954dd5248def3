#pragma once
// A POSIX extended regular expression that names are searched with.
#include <memory>
#include <string>

#include "common/expected.h"

namespace tessera {

class Pattern {
  public:
    /// InvalidArgument, with the reason, for what is no regular expression. Takes memory that may grow
    /// exponentially with the text: for texts that a user gives for himself.
    static Result<Pattern> compile(const std::string& text);

    /// Whether it matches anywhere in the name. From any thread.
    bool found_in(const std::string& name) const;

  private:
    struct Compiled;
    explicit Pattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace tessera
