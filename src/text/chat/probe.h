#pragma once
// Detects the abilities of a template; used by ChatTemplate when it loads.
#include <optional>

#include "src/text/chat/template.h"

namespace tessera::chat {

class Prober {
  public:
    explicit Prober(const ChatTemplate& chat_template) : template_(chat_template) {}

    /// Call in this order: each probe uses the forms that the earlier ones found to work.
    void absent_tools();
    void content_forms();
    void system();
    void tools_and_calls();
    void thinking();

    const Abilities& abilities() const { return abilities_; }
    /// The marker after an answer.
    std::string turn_end() const;

    /// The forms of a call that templates differ in.
    struct CallShape {
        bool object_arguments = true, null_content = false, short_ids = false;
    };

  private:
    /// Nothing if the template fails.
    std::optional<std::string> render(std::vector<Value> messages, bool with_tools, bool opens) const;
    std::optional<std::string> render(const Dialogue& dialogue) const;
    Value user() const;
    static Value result(const CallShape& form);

    const ChatTemplate& template_;
    Abilities abilities_;
};

}  // namespace tessera::chat
