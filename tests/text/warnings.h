#pragma once
// Captures the log of a test.
#include <string>
#include <string_view>

#include "common/log.h"

namespace tessera::test {

/// Collects warnings during its lifetime.
class Warnings {
  public:
    Warnings() {
        log::set_sink([this](log::Level level, std::string_view message) {
            if (level == log::Level::Warn) (text_ += message) += '\n';
        });
    }
    ~Warnings() { log::set_sink({}); }
    Warnings(const Warnings&) = delete;
    Warnings& operator=(const Warnings&) = delete;
    bool mention(std::string_view what) const { return text_.find(what) != std::string::npos; }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

}  // namespace tessera::test
