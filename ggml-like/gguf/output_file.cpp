// System calls of the writer. A nameless file is linked to its name through /proc/self/fd; a link cannot
// replace a file, so in place of an earlier one it gets a temporary name first, which is renamed at once. A
// rename within one folder is atomic, and the sync before it makes sure that the name never points at a file
// whose bytes did not reach the disk.
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

/// Every write but the last ends at a multiple of this. Smaller writes would leave small pages in the page
/// cache.
constexpr size_t kOutputPieceBytes = kHugePage;
constexpr size_t kMaxWrite = size_t{1} << 30;  // some systems refuse to write 2 GiB at once

constexpr int kAttempts = 100;

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string descriptor_path(int fd) { return strf("/proc/self/fd/%d", fd); }

std::string temporary_name(const std::string& path) {
    static std::atomic<unsigned> counter{0};
    return strf("%s.%ld-%u.partial", path.c_str(), static_cast<long>(::getpid()), counter++);
}

/// Makes the new name survive a crash. Best effort: some file systems cannot sync a folder.
void sync_folder(const std::string& path) {
    const int fd = ::open(folder_of(path).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
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

Result<void> OutputFile::create(const std::string& path, Temporary kind) {
    path_ = path;
    if (path.find('\0') != std::string::npos) return failure("create", EINVAL);
    if (kind == Temporary::Nameless) {
        fd_ = ::open(folder_of(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
        // Without /proc the file could not be linked later.
        if (fd_ >= 0 && ::access(descriptor_path(fd_).c_str(), F_OK) != 0) ::close(std::exchange(fd_, -1));
    }
    if (fd_ < 0) TSR_TRY_VOID(create_named());
    pending_.reserve(kOutputPieceBytes);
    return {};
}

Result<void> OutputFile::create_named() {
    // A name may be left over from a process that was killed, so several are tried.
    for (int attempt = 0; attempt < kAttempts && fd_ < 0; attempt++) {
        std::string name = temporary_name(path_);
        fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd_ >= 0)
            temporary_ = std::move(name);
        else if (errno != EEXIST)
            return failure("create", errno);
    }
    return fd_ < 0 ? failure("create", EEXIST) : Result<void>();
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

Result<void> OutputFile::complete(bool keep_open) {
    TSR_TRY_VOID(flush());
    pending_ = PageVector<std::byte>();
    if (::fsync(fd_) != 0) return failure("sync", errno);
    const bool is_named = !temporary_.empty();
    if (keep_open && !is_named) return {};
    if (!is_named) TSR_TRY_VOID(link_temporary());
    if (::close(std::exchange(fd_, -1)) != 0) return failure("close", errno);
    return {};
}

Result<void> OutputFile::link_temporary() {
    for (int attempt = 0; attempt < kAttempts; attempt++) {
        std::string name = temporary_name(path_);
        if (::linkat(AT_FDCWD, descriptor_path(fd_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) ==
            0) {
            temporary_ = std::move(name);
            return {};
        }
        if (errno != EEXIST) break;
    }
    return failure("create", errno);
}

Result<void> OutputFile::publish(bool sync) {
    const bool is_linked = temporary_.empty() && ::linkat(AT_FDCWD, descriptor_path(fd_).c_str(), AT_FDCWD,
                                                          path_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    if (!is_linked) {
        if (temporary_.empty()) TSR_TRY_VOID(link_temporary());
        if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("replace", errno);
        temporary_.clear();
    }
    if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) return failure("close", errno);
    if (sync) sync_folder(path_);
    return {};
}

Result<void> OutputFile::commit() {
    TSR_TRY_VOID(complete());
    return publish();
}

}  // namespace tessera::gguf
