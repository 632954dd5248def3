// Owns one read-only mapping of one regular file. Assumes that the file is not truncated while it is mapped:
// reading the mapping would then raise SIGBUS, while read() returns an error. ggml-like/gguf parses the
// bytes.
#include "common/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "common/pages.h"
#include "common/strings.h"

namespace tessera {

namespace {

tl::unexpected<Error> system_failure(const char* verb, const std::string& path, int error) {
    const bool missing = error == ENOENT || error == ENOTDIR;
    return fail(missing ? ErrorCode::NotFound : ErrorCode::Io, "cannot %s '%s': %s", verb,
                printable(path, 400).c_str(), std::generic_category().message(error).c_str());
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
    const std::string shown = printable(path, 400);
    if (path.find('\0') != std::string::npos)
        return fail(ErrorCode::InvalidArgument, "file name '%s' holds a zero byte", shown.c_str());
    // O_NONBLOCK: opening a FIFO without a writer would otherwise block forever.
    MappedFile mapped;
    mapped.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (mapped.fd_ < 0) return system_failure("open", path, errno);
    struct stat status {};
    if (fstat(mapped.fd_, &status) != 0) return system_failure("examine", path, errno);
    if (S_ISDIR(status.st_mode))
        return fail(ErrorCode::InvalidArgument, "'%s' is a directory, expected a file", shown.c_str());
    if (!S_ISREG(status.st_mode))
        return fail(ErrorCode::InvalidArgument, "'%s' is not a regular file (a pipe, socket or device)",
                    shown.c_str());
    if (status.st_size <= 0) return fail(ErrorCode::Malformed, "'%s' is empty (0 bytes)", shown.c_str());

    const size_t size = static_cast<size_t>(status.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, mapped.fd_, 0);
    if (data == MAP_FAILED) return system_failure("map", path, errno);
    mapped.data_ = static_cast<std::byte*>(data);
    mapped.size_ = size;
    mapped.path_ = path;
    return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    // The old mapping leaves with `moved`.
    MappedFile moved(std::move(other));
    std::swap(data_, moved.data_);
    std::swap(size_, moved.size_);
    std::swap(fd_, moved.fd_);
    path_.swap(moved.path_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_) munmap(data_, size_);
    if (fd_ >= 0) ::close(fd_);
}

Result<void> MappedFile::read(size_t offset, std::span<std::byte> to) const {
    TSR_CHECK(offset <= size_ && to.size() <= size_ - offset);
    for (size_t done = 0; done < to.size();) {
        const ssize_t n = pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return fail(ErrorCode::Io, "cannot read %zu bytes from byte %zu of '%s' on: %s", to.size() - done,
                        offset + done, printable(path_, 400).c_str(),
                        n < 0 ? std::generic_category().message(errno).c_str()
                              : "it ends there, and did not when it was opened");
        done += static_cast<size_t>(n);
    }
    return {};
}

void MappedFile::want_huge_pages() const {
    if (size_ > 0) madvise(data_, size_, MADV_HUGEPAGE);
}

void MappedFile::release(size_t offset, size_t n) const {
    if (offset >= size_ || n == 0) return;
    // Whole pages inside the range only: the pages at its ends also belong to neighbouring ranges, except for
    // the file's last page.
    const size_t page = page_size();
    const size_t end = offset + std::min(n, size_ - offset);
    const size_t first = (offset + page - 1) / page * page;
    const size_t last = end == size_ ? end : end / page * page;
    if (first < last) madvise(data_ + first, last - first, MADV_DONTNEED);
}

void MappedFile::touch(size_t offset, size_t n) const {
    if (offset >= size_ || n == 0) return;
    // Linux maps this much of the page cache, aligned, at one fault (fault_around_bytes). 800 MB take 40 ms;
    // MADV_POPULATE_READ took 65 ms and made loading a model slower.
    constexpr size_t kFaultAround = 64 << 10;
    const size_t step = std::max(kFaultAround, page_size());
    const size_t end = offset + std::min(n, size_ - offset);
    for (size_t at = offset; at < end; at = at / step * step + step)
        static_cast<void>(*static_cast<const volatile std::byte*>(data_ + at));
}

}  // namespace tessera
