#pragma once
// A folder of its own for one test, removed at the end.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace tessera::test {

class TempFolder {
  public:
    TempFolder() : path_(testing::TempDir() + "tessera_XXXXXX") {
        if (!mkdtemp(path_.data())) ADD_FAILURE() << "no temporary folder at " << path_;
    }
    ~TempFolder() { std::filesystem::remove_all(path_); }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    std::string at(const std::string& relative) const { return path_ + "/" + relative; }
    const std::string& path() const { return path_; }

    /// Creates the folders above the file as needed; returns the file's path.
    std::string write(const std::string& relative, std::string_view text) const {
        const std::filesystem::path file(at(relative));
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << text;
        return file.string();
    }

    size_t n_files() const {
        size_t n = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++n;
        return n;
    }

  private:
    std::string path_;
};

}  // namespace tessera::test
