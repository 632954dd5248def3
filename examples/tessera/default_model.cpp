// The default model is looked for relative to this executable, so that a build tree and an installed tree
// both work.
#include "examples/tessera/default_model.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/strings.h"
#include "examples/tessera/console.h"

namespace tessera {

namespace {

constexpr const char* kDefaultModel = "tessera-tiny.gguf";

std::string executable_folder() {
    char path[PATH_MAX];
    const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0) return ".";
    return std::filesystem::path(std::string(path, static_cast<size_t>(n))).parent_path().string();
}

/// build/PRESET/examples/tessera below the source tree, or bin beside share.
Result<std::string> find_default_model() {
    std::string tried;
    for (const char* place : {"../../../../models/", "../share/tessera/models/"}) {
        const auto path =
            (std::filesystem::path(executable_folder()) / place / kDefaultModel).lexically_normal();
        std::error_code ignored;
        if (std::filesystem::is_regular_file(path, ignored)) return path.string();
        tried += (tried.empty() ? "" : ", ") + path.string();
    }
    return fail(ErrorCode::NotFound,
                "no MODEL was given, TESSERA_MODEL is not set, and the default model is at none of: %s",
                tried.c_str());
}

}  // namespace

Result<std::string> model_path(const std::string& given) {
    if (!given.empty()) return given;
    std::string path;
    if (const char* named = std::getenv("TESSERA_MODEL"); named && *named) {
        path = named;
    } else {
        TSR_TRY(path, find_default_model());
    }
    console::note("default model: %s", printable(path, 400).c_str());
    return path;
}

}  // namespace tessera
