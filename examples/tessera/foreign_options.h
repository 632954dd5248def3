#pragma once
// Options of llama.cpp's programs (and some of ollama's) that people type from habit: accepted where tessera
// has an equivalent, else answered with advice.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ForeignOption {
    enum class Value {
        None,
        One,
        Maybe,  ///< the next argument if it is on, off or auto
    };

    const char* names;  ///< "-ngl,--gpu-layers"
    Value value = Value::None;
    const char* needs = nullptr;    ///< counts only for commands with this option
    const char* same_as = nullptr;  ///< our option of the same meaning; counts only for commands that have it
    const char* prefix = "";        ///< put before the value for that option
    /// Values that request the default behaviour, separated by commas; "*": all.
    const char* implied = nullptr;
    const char* answer = nullptr;  ///< advice
};

/// The row with this spelling for a command that has_option() describes, or null; all spellings.
const ForeignOption* find_foreign(std::string_view name,
                                  const std::function<bool(std::string_view own)>& has_option);
std::vector<std::string_view> foreign_names();

/// The meaning of one such option for a command.
struct ForeignUse {
    enum class Kind { Unknown, Refused, Nothing, Same, KType, VType } kind = Kind::Unknown;
    std::string own, text;         ///< Same: our option and its value; Refused: the answer
    bool takes_following = false;  ///< the argument behind it is its value
};
ForeignUse use_foreign(const std::string& name, const std::optional<std::string>& value,
                       std::optional<std::string_view> following,
                       const std::function<bool(std::string_view own)>& has_option);

/// -ctk and -ctv, which are --kv K,V.
struct CacheTypes {
    std::string k, v;
    std::string joined() const { return (k.empty() ? "f16" : k) + "," + (v.empty() ? "f16" : v); }
};

/// "; ..." for a word in the place of a command that other programs know, or empty.
std::string foreign_command_hint(std::string_view word);

}  // namespace tessera
