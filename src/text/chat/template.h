#pragma once
// Chat templates: convert a dialogue to the text of a prompt. Wraps a Jinja template with its variables, the
// forms of messages that it takes, and a fallback if it does not work. docs/guide/templates.md is the user's
// guide.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/chat/dialogue.h"
#include "src/text/jinja/template.h"

namespace tessera::chat {

/// The abilities of a template, detected by rendering a few small dialogues (probe.cpp).
struct Abilities {
    bool system = true;         ///< system messages; else their text goes in front of the first user message
    bool parts = false;         ///< content as a list of parts
    bool text = true;           ///< content as text
    bool tools = false;         ///< prints the list of tools
    bool tool_calls = false;    ///< prints the calls of earlier turns
    bool tool_results = false;  ///< prints messages of the role "tool"
    bool object_arguments = true;   ///< arguments of calls as an object; else as JSON text
    bool short_ids = false;         ///< ids of calls must have nine letters and digits
    bool null_content = false;      ///< the content of a message with calls is null; else it is empty
    bool no_tools_as_list = false;  ///< `tools` must be an empty list if there are none
    bool thinking = false;          ///< enable_thinking changes the prompt
};

/// Spellings in the vocabulary; empty if there is no such token.
struct SpecialTexts {
    std::string bos, eos;
};

/// A prompt ready to be tokenized with `parse_special`.
struct Prompt {
    std::string text;
    /// The text begins with the model's bos token: the tokenizer must not add another.
    bool has_bos = false;
    /// The end of the text that already belongs to the assistant's turn, e.g.
    /// "<|im_start|>assistant\n<think>\n". Parsing of the answer starts with it. Empty without
    /// add_generation_prompt.
    std::string opening;
    /// Changes made to the dialogue so that the template accepts it; empty in most cases.
    std::vector<std::string> notes;
};

/// The current time, for templates that print dates.
using Clock = std::function<jinja::DateTime()>;

/// Immutable; const members may be called from many threads.
class ChatTemplate {
  public:
    /// Never fails: a template that does not parse or renders no plain dialogue is replaced by ChatML. One
    /// that renders some of them is kept, and only the dialogues that it cannot render become ChatML.
    /// warnings() and the log report either with the template's error.
    static ChatTemplate load(std::string_view source, SpecialTexts special = {}, Clock clock = {});
    /// Without ChatML: a template that does not parse or renders no plain dialogue is an error, and so is
    /// each dialogue that it cannot render.
    static Result<ChatTemplate> load_strictly(std::string_view source, SpecialTexts special = {},
                                              Clock clock = {});
    /// Parses the template and renders nothing, for render_raw() alone: abilities() and turn_end() are
    /// unknown.
    static Result<ChatTemplate> parse(std::string_view source, SpecialTexts special = {}, Clock clock = {});

    ChatTemplate(ChatTemplate&&) noexcept = default;
    ChatTemplate& operator=(ChatTemplate&&) noexcept = default;

    /// Errors: errors raised by the template (with its message, line and column), dialogues that it refuses
    /// in every form tried, and continue_last if the last message is not the assistant's.
    Result<Prompt> render(const Dialogue& dialogue) const;
    /// The template's own output for the dialogue as it is: nothing is adapted or repaired.
    Result<std::string> render_raw(const Dialogue& dialogue) const;

    const Abilities& abilities() const { return abilities_; }
    const std::vector<std::string>& warnings() const { return warnings_; }
    /// The template in use.
    const std::string& source() const { return template_.source(); }
    /// The marker that ends a turn of the assistant, e.g. "<|im_end|>"; empty if unknown.
    const std::string& turn_end() const { return turn_end_; }

  private:
    ChatTemplate(jinja::Template parsed, SpecialTexts special, Clock clock)
        : template_(std::move(parsed)), special_(std::move(special)), clock_(std::move(clock)) {}

    /// Detects the abilities. Returns the error of the first plain dialogue that the template does not
    /// render, empty if it renders all of them. Fails if it renders none.
    Result<std::string> probe();
    Result<Prompt> render_own(const Dialogue& dialogue) const;
    Value context(const Dialogue& dialogue, const jinja::DateTime& now, bool with_extras) const;
    /// `with_extras`: variables that few templates expect and Hugging Face transformers does not set.
    tl::expected<std::string, jinja::Failure> run(const Dialogue& dialogue, bool with_extras = true) const;
    Result<std::string> render_adapted(const Dialogue& dialogue, std::vector<std::string>& notes) const;
    Result<std::string> render_open(Dialogue dialogue, std::vector<std::string>& notes) const;

    jinja::Template template_;
    SpecialTexts special_;
    Clock clock_;
    Abilities abilities_;
    std::vector<std::string> warnings_;
    std::string turn_end_;
    std::shared_ptr<const ChatTemplate>
        fallback_;  ///< for dialogues that template_ cannot render; may be null

    friend class Prober;
};

/// A built-in template by its name, e.g. "chatml"; null if there is none.
const char* find_builtin(std::string_view name);
/// Their names, in order.
std::vector<std::string_view> builtin_names();

}  // namespace tessera::chat
