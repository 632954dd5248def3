// Files are named "2026-08-22T10-20-30.PID.N.json" by the time of their conversation's beginning; one that is
// being written is named ".PID.new" behind that, so that a process that was killed leaves nothing for good.
#include "examples/tessera/chat/autosave.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "common/strings.h"
#include "examples/tessera/console.h"

namespace tessera::repl {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNew = ".new", kKept = ".json";

struct Kept {
    std::string path;
    fs::file_time_type written;
};

/// The newest first.
std::vector<Kept> kept_files(const std::string& folder) {
    std::vector<Kept> out;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        std::error_code gone;
        const fs::file_time_type written = at->last_write_time(gone);
        if (!gone && at->path().extension() == kKept) out.push_back({at->path().string(), written});
    }
    std::sort(out.begin(), out.end(), [](const Kept& a, const Kept& b) {
        return a.written != b.written ? a.written > b.written : a.path > b.path;
    });
    return out;
}

/// Files that a process which is gone was writing.
void remove_unfinished(const std::string& folder) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        if (at->path().extension() != kNew) continue;
        const std::string pid = at->path().stem().extension().string();  // ".PID"
        const auto number = parse_int(pid.empty() ? "" : pid.substr(1));
        std::error_code ignored;
        if (number && *number > 0 && ::kill(static_cast<pid_t>(*number), 0) != 0 && errno == ESRCH)
            fs::remove(at->path(), ignored);
    }
}

std::string shown(const std::string& path) { return "'" + printable(path, 400) + "'"; }

tl::unexpected<Error> failure(const std::string& path) {
    return fail(ErrorCode::Io, "cannot keep the conversation in %s: %s", shown(path).c_str(),
                std::generic_category().message(errno).c_str());
}

}  // namespace

std::string Autosave::default_folder() { return console::state_path("chats"); }

void Autosave::begin(std::string from) {
    path_.clear();
    from_ = std::move(from);
}

Result<void> Autosave::make_file(const Conversation& conversation) {
    std::error_code error;
    fs::create_directories(fs::path(folder_).parent_path(), error);
    if (!error && fs::create_directory(folder_, error)) fs::permissions(folder_, fs::perms::owner_all, error);
    if (error)
        return fail(ErrorCode::Io, "cannot make the folder %s: %s", shown(folder_).c_str(),
                    error.message().c_str());
    remove_unfinished(folder_);
    std::string time;
    for (const char c : conversation.started.substr(0, 19)) {
        const bool is_plain = (c >= '0' && c <= '9') || c == 'T';
        time += is_plain ? c : '-';
    }
    static int number = 0;
    path_ = strf("%s/%s.%d.%d.json", folder_.c_str(), time.c_str(), static_cast<int>(::getpid()), ++number);
    return {};
}

Result<void> Autosave::replace(const std::string& text) const {
    const std::string fresh = strf("%s.%d.new", path_.c_str(), static_cast<int>(::getpid()));
    const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return failure(path_);
    Result<void> written = console::write_all(fd, std::as_bytes(std::span(text)), shown(path_));
    if (written && ::fsync(fd) != 0) written = failure(path_);
    if (::close(fd) != 0 && written) written = failure(path_);
    if (written && ::rename(fresh.c_str(), path_.c_str()) != 0) written = failure(path_);
    if (!written) ::unlink(fresh.c_str());
    return written;
}

Result<void> Autosave::keep(const Conversation& conversation) {
    if (!is_on()) return {};
    const bool is_first = path_.empty();
    if (is_first) TSR_TRY_VOID(make_file(conversation));
    if (auto replaced = replace(conversation.to_json()); !replaced) {
        if (is_first) path_.clear();
        return replaced;
    }
    std::error_code ignored;
    if (!from_.empty()) fs::remove(from_, ignored);
    from_.clear();
    if (!is_first) return {};
    const std::vector<Kept> all = kept_files(folder_);
    for (size_t i = kMost; i < all.size(); i++) fs::remove(all[i].path, ignored);
    return {};
}

std::optional<std::string> Autosave::newest() const {
    if (!is_on()) return std::nullopt;
    for (const Kept& file : kept_files(folder_))
        if (file.path != path_ && file.path != from_) return file.path;
    return std::nullopt;
}

}  // namespace tessera::repl
