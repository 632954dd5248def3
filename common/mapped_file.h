#pragma once
// Read-only memory mapping of a whole file. Owns the mapping and the open file; views into bytes() live as
// long as this object.
#include <cstddef>
#include <span>
#include <string>

#include "common/expected.h"

namespace tessera {

class MappedFile {
  public:
    /// Maps `path`. Errors name the path: missing, unreadable, a directory, not a regular file, empty.
    static Result<MappedFile> open(const std::string& path);

    MappedFile() = default;
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    const std::string& path() const { return path_; }

    /// Copies bytes from `offset` on with pread(), not through the mapping: for data that is read once, in
    /// order. It causes no page faults and leaves none of the mapping resident. Errors: Io, also for a file
    /// that was truncated, where the mapping would raise a signal. Any thread; the range lies within bytes().
    Result<void> read(size_t offset, std::span<std::byte> to) const;

    /// Hint: the whole file will be read through the mapping. Pages that are not in the page cache are then
    /// read as huge pages, where the file system has them (seen with ext4 of Linux 6.18): one page fault
    /// each, also for later mappings. Do not use it for scattered reads, which would each read megabytes.
    void want_huge_pages() const;
    /// Hint: the range is not read again; its pages leave the resident set.
    void release(size_t offset, size_t n) const;
    /// Makes the range resident if it is in the page cache, so that its first use causes no page faults; else
    /// reads part of it.
    void touch(size_t offset, size_t n) const;

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
    int fd_ = -1;
    std::string path_;
};

}  // namespace tessera
