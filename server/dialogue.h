#pragma once
// A request's messages and tools as a prompt.
#include <optional>
#include <string>

#include "server/prompts.h"

namespace tessera::server {

/// From kTemplateFields. Throws HttpError 400.
class Dialogue {
  public:
    Dialogue(const Service& service, const Fields& fields);

    const tessera_api::Prompt& prompt() const { return *prompt_; }
    /// tool_choice is none: no text of the answer is parsed as a call.
    bool forbids_calls() const { return choice_ == Choice::None; }
    /// The grammar that tools and tool_choice constrain the answer to, if any.
    std::optional<tessera_api::Grammar> calls(const Fields& fields) const;

  private:
    enum class Choice { Free, None, Auto, Required };
    void read_choice(const Fields& fields);

    const Service& service_;
    Choice choice_ = Choice::Free;  ///< no tools, no tool_choice
    bool has_tools_ = false;
    std::string function_;  ///< the one that tool_choice names
    std::optional<tessera_api::Prompt> prompt_;
};

}  // namespace tessera::server
