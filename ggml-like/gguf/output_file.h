#pragma once
// A file that appears under its name only when it is complete.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/expected.h"
#include "common/pages.h"

namespace tessera::gguf {

/// Hands bytes to the system in huge pages of the file: a system whose page cache has such pages keeps each
/// piece in one, and a mapping of the file takes it with one fault. Errors name the target path.
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
    PageVector<std::byte> pending_;  // of the huge page that is not yet full
    int fd_ = -1;
};

}  // namespace tessera::gguf
