#pragma once
// Chat templates: a dialogue to the text of a prompt. Wraps a Jinja template with what is known of its model:
// which variables it gets, which forms of messages it takes, and what stands in for it if it does not work.
// docs/guide/templates.md tells users of it.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/chat/dialogue.h"
#include "src/text/jinja/template.h"

namespace tessera::chat {

/// What a template was seen to take, by rendering a few dialogues of our own (probe.cpp).
struct Abilities {
    bool system = true;         ///< system messages; else their text goes in front of the first user message
    bool parts = false;         ///< content as a list of parts
    bool text = true;           ///< content as text
    bool tools = false;         ///< prints the list of tools
    bool tool_calls = false;    ///< prints the calls of earlier turns
    bool tool_results = false;  ///< prints messages of the role "tool"
    bool object_arguments = true;   ///< arguments of calls as an object; else as JSON text
    bool short_ids = false;         ///< ids of calls must have nine letters and digits
    bool null_content = false;      ///< a message with calls has no content; else it has an empty one
    bool no_tools_as_list = false;  ///< where there are no tools it wants an empty list
    bool thinking = false;          ///< enable_thinking changes the prompt
};

/// Texts of the vocabulary; empty where there is no such token.
struct SpecialTexts {
    std::string bos, eos;
};

/// A prompt ready to be tokenized with `parse_special`.
struct Prompt {
    std::string text;
    /// The text begins with the model's bos token, once: the tokenizer must not add another.
    bool has_bos = false;
    /// The end of the text that belongs to the assistant's turn already, e.g.
    /// "<|im_start|>assistant\n<think>\n": where parsing of the answer begins. Empty without
    /// add_generation_prompt.
    std::string opening;
    /// What was done to the dialogue so that the template takes it; empty in most cases.
    std::vector<std::string> notes;
};

/// The present moment, for templates that print dates.
using Clock = std::function<jinja::DateTime()>;

/// Immutable; const members may be called from many threads.
class ChatTemplate {
  public:
    /// Never fails: a template that does not parse or does not render a plain dialogue is replaced by ChatML,
    /// and warnings() and the log say so with its error.
    static ChatTemplate load(std::string_view source, SpecialTexts special = {}, Clock clock = {});
    /// The same, but the fault is an error.
    static Result<ChatTemplate> load_strictly(std::string_view source, SpecialTexts special = {},
                                              Clock clock = {});

    ChatTemplate(ChatTemplate&&) noexcept = default;
    ChatTemplate& operator=(ChatTemplate&&) noexcept = default;

    /// Errors: what the template raises (in its words, with line and column), dialogues it cannot print in
    /// any form known here, and continue_last where the last message is not the assistant's.
    Result<Prompt> render(const Dialogue& dialogue) const;
    /// Exactly what the template makes of the dialogue as it stands: no adapting, no repair.
    Result<std::string> render_raw(const Dialogue& dialogue) const;

    const Abilities& abilities() const { return abilities_; }
    const std::vector<std::string>& warnings() const { return warnings_; }
    /// The template in use.
    const std::string& source() const { return template_.source(); }
    /// What ends a turn of the assistant, e.g. "<|im_end|>"; empty where it could not be told.
    const std::string& turn_end() const { return turn_end_; }

  private:
    ChatTemplate(jinja::Template parsed, SpecialTexts special, Clock clock)
        : template_(std::move(parsed)), special_(std::move(special)), clock_(std::move(clock)) {}

    Result<void> probe();
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

    friend class Prober;
};

/// A template of our own by its name, e.g. "chatml"; null if there is none.
const char* find_builtin(std::string_view name);
/// Their names, in order.
std::vector<std::string_view> builtin_names();

}  // namespace tessera::chat
