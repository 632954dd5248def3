// Keeps a command from overwriting its input, and anything but a regular file.
#include "ggml-like/gguf/output_path.h"

#include <filesystem>
#include <system_error>

#include "common/strings.h"

namespace tessera::gguf {

namespace fs = std::filesystem;

Result<std::string> resolve_output(const std::string& out, const File& in) {
    const std::string shown = printable(out, 400);
    std::error_code ignored;
    const auto status = fs::status(out, ignored);
    if (out == "-" || (fs::exists(status) && !fs::is_regular_file(status)))
        return fail(ErrorCode::InvalidArgument, "OUT: expected the name of a file, found '%s'",
                    shown.c_str());
    for (int i = 0; i < in.n_files(); i++)
        if (fs::equivalent(in.mapping(i).path(), out, ignored))
            return fail(ErrorCode::InvalidArgument, "OUT: '%s' is the input; expected another file",
                        shown.c_str());
    const fs::path target = fs::canonical(out, ignored);
    return ignored ? out : target.string();
}

}  // namespace tessera::gguf
