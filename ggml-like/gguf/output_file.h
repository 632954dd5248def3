#pragma once
// A file that appears under its name only when it is complete.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/expected.h"
#include "common/pages.h"

namespace tessera::gguf {

/// Until it is published the file has no name (O_TMPFILE), so that nothing is left behind when the process
/// ends early, even by kill -9. Where the file system has no such files (NFS, FAT), the temporary name is
/// PATH.PID-N.partial, which the destructor removes.
///
/// Bytes are written in huge pages of the file: a system whose page cache has such pages keeps each piece in
/// one, and a mapping of the file takes it with one fault. Errors name the target path.
class OutputFile {
  public:
    enum class Temporary { Nameless, Named };

    OutputFile() = default;
    OutputFile(OutputFile&&) = delete;
    /// Closes the file, and discards it unless publish() succeeded.
    ~OutputFile();

    /// Creates a temporary file in the folder of `path`. `kind`: Named for tests of the second kind.
    Result<void> create(const std::string& path, Temporary kind = Temporary::Nameless);
    Result<void> append(std::span<const std::byte> bytes);
    /// Writes pending bytes and syncs them. Without `keep_open`, no descriptor is held from here on, but the
    /// file has a temporary name.
    Result<void> complete(bool keep_open = true);
    /// After complete(): gives the file its name, in place of an earlier one. Without `sync`, the name may
    /// not survive a crash of the system until another file in the folder is published with it.
    Result<void> publish(bool sync = true);
    /// Both.
    Result<void> commit();

  private:
    Result<void> create_named();
    Result<void> link_temporary();
    Result<void> flush();
    Result<void> write_all(std::span<const std::byte> bytes);
    tl::unexpected<Error> failure(const char* verb, int error) const;

    std::string path_, temporary_;   // temporary_: empty while the file has no name
    PageVector<std::byte> pending_;  // of the huge page that is not yet full
    int fd_ = -1;
};

}  // namespace tessera::gguf
