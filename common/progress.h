#pragma once
// A one-line progress bar on stderr for long operations; silent when stderr is no terminal or when disabled.
#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

/// Called with the progress of a long operation in bytes.
using ByteProgress = std::function<void(uint64_t done, uint64_t total)>;

class ProgressBar {
  public:
    enum class Unit { Bytes, Tokens, Items };

    /// `total` 0 = unknown. Draws at most ten times a second.
    ProgressBar(std::string label, uint64_t total, Unit unit, bool enabled = true);
    /// Clears the line.
    ~ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    void update(uint64_t done);
    /// The same for an operation whose total is known only once it has begun.
    void update(uint64_t done, uint64_t total) {
        total_ = total;
        update(done);
    }

    /// The text that update() draws: the bar at `done` after `seconds`, `width` columns wide. Rate and time
    /// left are shown after 0.1 s.
    static std::string render(const std::string& label, uint64_t done, uint64_t total, Unit unit,
                              double seconds, int width);

  private:
    std::string label_;
    uint64_t total_;
    Unit unit_;
    bool enabled_;
    double start_, last_draw_ = 0;
    bool drawn_ = false;
};

}  // namespace tessera
