#pragma once
// The built-in files of src/npu/devices and src/npu/recipes; CMake writes the arrays.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/mapped_file.h"
#include "common/strings.h"

namespace tessera::npu {

struct ShippedFile {
    std::string_view name, json;
};

std::span<const ShippedFile> shipped_device_files();
std::span<const ShippedFile> shipped_recipe_files();

inline std::vector<std::string_view> names_of(std::span<const ShippedFile> files) {
    std::vector<std::string_view> names;
    for (const ShippedFile& file : files) names.push_back(file.name);
    return names;
}

/// Parses the built-in file of that name, or else the file at that path. NotFound lists the built-in names;
/// `kind` names the kind of file in the message.
template <class T>
Result<T> open_shipped(const char* kind, std::span<const ShippedFile> files, const std::string& name_or_path,
                       Result<T> (*parse)(std::string_view)) {
    std::string names;
    for (const ShippedFile& file : files) {
        if (file.name == name_or_path) return parse(file.json);
        names += (names.empty() ? "" : ", ") + std::string(file.name);
    }
    auto file = MappedFile::open(name_or_path);
    if (!file && file.error().code == ErrorCode::NotFound)
        return fail(ErrorCode::NotFound, "%s '%s': expected a file or one of %s", kind,
                    printable(name_or_path, 400).c_str(), names.c_str());
    if (!file) return tl::unexpected<Error>(std::move(file.error()));
    const auto bytes = file->bytes();
    auto parsed = parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!parsed) return fail_in(printable(name_or_path, 400), std::move(parsed.error()));
    return parsed;
}

}  // namespace tessera::npu
