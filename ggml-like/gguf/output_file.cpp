// System calls of the writer. A rename within one folder is atomic, and the sync before it makes sure that
// the name never points at a file whose bytes did not reach the disk.
#include "ggml-like/gguf/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "common/strings.h"

namespace tessera::gguf {

namespace {

/// What each write but the last ends at a multiple of. Smaller ones leave a page cache of smaller pieces.
constexpr size_t kOutputPieceBytes = kHugePage;
constexpr size_t kMaxWrite = size_t{1} << 30;  // some systems refuse to write 2 GiB at once

/// So that the rename itself survives a crash. Best effort: some file systems cannot sync a folder.
void sync_folder(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int fd = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0) return;
    ::fsync(fd);
    ::close(fd);
}

}  // namespace

OutputFile::~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

tl::unexpected<Error> OutputFile::failure(const char* verb, int error) const {
    return fail(ErrorCode::Io, "cannot %s '%s': %s", verb, printable(path_, 400).c_str(),
                std::generic_category().message(error).c_str());
}

Result<void> OutputFile::create(const std::string& path) {
    static std::atomic<unsigned> counter{0};
    path_ = path;
    if (path.find('\0') != std::string::npos) return failure("create", EINVAL);
    // A name may be left over from a process that was killed, so a few are tried.
    for (int attempt = 0; attempt < 100 && fd_ < 0; attempt++) {
        std::string name = strf("%s.%ld-%u.partial", path.c_str(), static_cast<long>(::getpid()), counter++);
        fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd_ >= 0)
            temporary_ = std::move(name);
        else if (errno != EEXIST)
            return failure("create", errno);
    }
    if (fd_ < 0) return failure("create", EEXIST);
    pending_.reserve(kOutputPieceBytes);
    return {};
}

Result<void> OutputFile::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const size_t whole = bytes.size() / kOutputPieceBytes * kOutputPieceBytes;
        if (pending_.empty() && whole > 0) {
            TSR_TRY_VOID(write_all(bytes.first(whole)));
            bytes = bytes.subspan(whole);
            continue;
        }
        const size_t n = std::min(bytes.size(), kOutputPieceBytes - pending_.size());
        pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
        bytes = bytes.subspan(n);
        if (pending_.size() == kOutputPieceBytes) TSR_TRY_VOID(flush());
    }
    return {};
}

Result<void> OutputFile::flush() {
    auto written = write_all(pending_);
    pending_.clear();
    return written;
}

Result<void> OutputFile::write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failure("write", n < 0 ? errno : ENOSPC);
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
}

Result<void> OutputFile::commit() {
    TSR_TRY_VOID(flush());
    if (::fsync(fd_) != 0) return failure("sync", errno);
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) return failure("close", errno);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("replace", errno);
    temporary_.clear();
    sync_folder(path_);
    return {};
}

}  // namespace tessera::gguf
