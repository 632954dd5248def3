#pragma once
// A disk that fills up.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

namespace tessera::test {

/// Limits the files that this process writes to `limit` bytes during its lifetime, like a full disk.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t limit) : handler_(signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit now{limit, before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;
    ~FileSizeLimit() {
        setrlimit(RLIMIT_FSIZE, &before_);
        signal(SIGXFSZ, handler_);
    }

  private:
    rlimit before_{};
    void (*handler_)(int);
};

}  // namespace tessera::test
