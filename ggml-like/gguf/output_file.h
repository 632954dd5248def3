#pragma once
// A file that appears under its name only when it is complete.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/expected.h"

namespace tessera::gguf {

/// Collects small writes; hands large ones to the system as they come. Errors name the target path.
class OutputFile {
  public:
    OutputFile() = default;
    OutputFile(OutputFile&&) = delete;
    /// Closes, and removes the temporary file unless commit() succeeded.
    ~OutputFile();

    /// Creates a temporary file beside `path`, in the same folder so that the rename is atomic.
    Result<void> create(const std::string& path);
    Result<void> append(std::span<const std::byte> bytes);
    /// Writes what is pending, syncs, and renames to the path given.
    Result<void> commit();

  private:
    Result<void> flush();
    Result<void> write_all(std::span<const std::byte> bytes);
    tl::unexpected<Error> failure(const char* verb, int error) const;

    std::string path_, temporary_;
    std::vector<std::byte> pending_;
    int fd_ = -1;
};

}  // namespace tessera::gguf
