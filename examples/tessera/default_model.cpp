// The default model is looked for relative to this executable, so that both a build tree and an installed
// tree work.
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
                "no MODEL was given, TESSERA_MODEL is not set, and the default model is not installed "
                "(looked for %s)",
                tried.c_str());
}

/// A hint for a path without a file.
std::string missing_model_hint(const std::string& given) {
    if (given.find(' ') != std::string::npos)
        return "; MODEL stands before the prompt; for the default model: tessera run -p \"TEXT\"";
    if (given.ends_with(".gguf") || given.starts_with('/') || given.starts_with('.')) return "";
    return "; MODEL is the path of a GGUF file (tessera downloads no models)";
}

/// Errors with hints for two common mistakes: no such file, a directory.
Result<void> check_model_path(const std::string& given) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const std::string shown = printable(given, 400);
    const fs::file_status status = fs::status(given, ignored);
    if (status.type() == fs::file_type::not_found)
        return fail(ErrorCode::Io, "cannot open '%s': No such file or directory%s", shown.c_str(),
                    missing_model_hint(given).c_str());
    if (!fs::is_directory(status)) return {};
    const bool is_checkpoint = fs::exists(fs::path(given) / "config.json", ignored);
    return fail(ErrorCode::InvalidArgument, "'%s' is a directory, expected a GGUF file%s%s%s", shown.c_str(),
                is_checkpoint ? "; convert it: tessera convert " : "", is_checkpoint ? shown.c_str() : "",
                is_checkpoint ? " -o MODEL.gguf" : "");
}

}  // namespace

Result<std::string> model_path(const std::string& given) {
    if (!given.empty()) {
        TSR_TRY_VOID(check_model_path(given));
        return given;
    }
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
