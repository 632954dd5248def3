// A child answers through a pipe: a status byte, then the answer, or the error's code and message. It ends
// without running exit handlers, which belong to its parent.
#include "examples/tessera/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "examples/tessera/console.h"

namespace tessera {

namespace {

constexpr std::byte kWorkDone{1}, kWorkFailed{0};

std::vector<std::byte> read_all(int fd) {
    std::vector<std::byte> all;
    std::byte chunk[4096];
    for (;;) {
        const ssize_t n = read(fd, chunk, sizeof chunk);
        if (n > 0) all.insert(all.end(), chunk, chunk + n);
        if (n == 0 || (n < 0 && errno != EINTR)) return all;
    }
}

/// The result of work(); exceptions become errors.
Result<void> run_guarded(const std::function<Result<void>()>& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return fail(ErrorCode::OutOfMemory, "the system has no more memory");
    } catch (const std::exception& error) {
        return fail(ErrorCode::Internal, "unexpected failure: %s", error.what());
    }
}

[[noreturn]] void answer_and_end(int fd, std::span<const std::byte> answer, const Result<void>& done) {
    std::vector<std::byte> all(1, done ? kWorkDone : kWorkFailed);
    if (done) {
        all.insert(all.end(), answer.begin(), answer.end());
    } else {
        const auto code = std::as_bytes(std::span(&done.error().code, 1));
        const auto message = std::as_bytes(std::span(done.error().message));
        all.insert(all.end(), code.begin(), code.end());
        all.insert(all.end(), message.begin(), message.end());
    }
    const auto written = console::write_all(fd, all, "the measuring process");
    _exit(written ? 0 : 1);
}

}  // namespace

Result<void> run_in_child(const char* what, std::span<std::byte> answer,
                          const std::function<Result<void>()>& work) {
    int ends[2];
    if (pipe(ends) != 0) return fail(ErrorCode::Io, "%s: no pipe: %s", what, std::strerror(errno));
    const pid_t child = fork();
    if (child < 0) {
        const int reason = errno;
        close(ends[0]);
        close(ends[1]);
        return fail(ErrorCode::Io, "%s: no process: %s", what, std::strerror(reason));
    }
    if (child == 0) {
        close(ends[0]);
        console::set_verbosity(console::Verbosity::Quiet);
        answer_and_end(ends[1], answer, run_guarded(work));
    }
    close(ends[1]);
    const std::vector<std::byte> said = read_all(ends[0]);
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (said.size() == 1 + answer.size() && said[0] == kWorkDone) {
        std::memcpy(answer.data(), said.data() + 1, answer.size());
        return {};
    }
    ErrorCode code = ErrorCode::Internal;
    if (said.size() >= 1 + sizeof code && said[0] == kWorkFailed) {
        std::memcpy(&code, said.data() + 1, sizeof code);
        const auto* text = reinterpret_cast<const char*>(said.data()) + 1 + sizeof code;
        return tl::unexpected(Error{code, {text, said.size() - 1 - sizeof code}});
    }
    if (WIFSIGNALED(status))
        return fail(code, "%s: the measuring process was ended by signal %d%s", what, WTERMSIG(status),
                    WTERMSIG(status) == SIGKILL ? " (the system is out of memory)" : "");
    return fail(code, "%s: the measuring process ended without an answer", what);
}

}  // namespace tessera
