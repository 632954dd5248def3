#pragma once
// The last conversations of all chats, kept on disk without the user's doing.
#include <optional>
#include <string>

#include "common/expected.h"
#include "examples/tessera/chat/conversation.h"

namespace tessera::repl {

/// A folder of conversations, each in a file of its own with mode 0600. A file is replaced as a whole, so
/// that neither a crash nor a full disk harms its last version. The newest kMost files are kept. Several
/// chats may use one folder at once. One thread at a time.
class Autosave {
  public:
    /// An empty folder keeps nothing.
    explicit Autosave(std::string folder) : folder_(std::move(folder)) {}

    bool is_on() const { return !folder_.empty(); }
    const std::string& folder() const { return folder_; }

    /// Writes the conversation to its file, which is made at the first call. Errors: Io, naming the file; its
    /// earlier version is still there then.
    Result<void> keep(const Conversation& conversation);
    /// The conversation from here on is another one, and gets a file of its own. `from`: the kept file that
    /// it continues, which goes away once its continuation is kept; empty: none.
    void begin(std::string from = "");

    /// The newest kept conversation but the present one; nothing where there is none.
    std::optional<std::string> newest() const;

    static constexpr size_t kMost = 20;
    /// $XDG_STATE_HOME/tessera/chats, or ~/.local/state/tessera/chats; empty where neither is set.
    static std::string default_folder();

  private:
    Result<void> make_file(const Conversation& conversation);
    Result<void> replace(const std::string& text) const;

    std::string folder_, path_, from_;
};

}  // namespace tessera::repl
