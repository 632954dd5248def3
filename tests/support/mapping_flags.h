#pragma once
// The flags of a mapping, as the system reports them.
#include <fstream>
#include <string>

namespace tessera::test {

/// VmFlags in /proc/self/smaps of the first mapping of a file, with a space at both ends: they contain " hg "
/// if huge pages were requested. Empty if the system does not report them.
inline std::string mapping_flags(const std::string& path) {
    std::ifstream maps("/proc/self/smaps");
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
        found = found || line.ends_with(path);
        if (found && line.starts_with("VmFlags:")) return line.substr(8) + " ";
    }
    return "";
}

}  // namespace tessera::test
