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

    /// Copies the bytes from `offset` on out of the file, not through the mapping: for what is wanted once,
    /// in order. That takes no page faults, none of the mapping becomes resident, and a file that was
    /// shortened is an error (Io, as is what the system cannot read) where the mapping would be a signal. Any
    /// thread; the range lies within bytes().
    Result<void> read(size_t offset, std::span<std::byte> to) const;

    /// Hint: all of the file is read through the mapping. What does not lie in memory then comes in huge
    /// pages, where the system has them for files (seen with ext4 of Linux 6.18): each is one page fault, and
    /// stays one for who maps the file next. Some bytes here and there would each read megabytes so.
    void want_huge_pages() const;
    /// Hint: the range is not read again; its pages leave our resident set.
    void release(size_t offset, size_t n) const;
    /// Makes the range resident, if the file lies in memory, so that its first use waits for no page faults;
    /// else reads some of it.
    void touch(size_t offset, size_t n) const;

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
    int fd_ = -1;
    std::string path_;
};

}  // namespace tessera
