#pragma once
// A compiled model in a file: instructions, places, weights in the order in which they are multiplied. The
// file is mapped, and what the device reads is read from there. It holds for one device, one model and one
// way of quantizing it; for anything else the model is compiled again.
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "common/mapped_file.h"
#include "src/npu/device.h"
#include "src/npu/device_model.h"

namespace tessera::npu {

class ContextFile {
  public:
    struct Options {
        /// Reads all of the constants once, to find changed bytes among them; anything else is checked
        /// anyway. Without it opening takes the same time however large the model is.
        bool check_constants = true;
    };

    /// Where a part lies: [offset, offset + bytes) of the file.
    struct Section {
        const char* name;
        uint64_t offset = 0, bytes = 0;
    };

    /// Errors name the file: Malformed for what is no such file, or damaged; Unsupported for one of another
    /// version.
    static Result<ContextFile> open(const std::string& path, const Options& options);

    /// The same over bytes in memory that outlive it; for tests and fuzzing.
    static Result<ContextFile> parse(std::span<const std::byte> bytes, const std::string& name,
                                     const Options& options);

    /// Checked (check_described_model); its constants are the file's.
    const DeviceModel& model() const { return model_; }
    const HtpDevice& device() const { return device_; }
    std::span<const Section> sections() const { return sections_; }
    uint64_t file_bytes() const { return file_bytes_; }

    /// InvalidArgument if it was compiled from another file than that with this digest.
    Result<void> expect_model(uint64_t model_hash) const;
    /// InvalidArgument if it was compiled for another device; says in what they differ.
    Result<void> expect_device(const HtpDevice& device) const;

  private:
    static Result<ContextFile> read(std::span<const std::byte> bytes, const Options& options);

    MappedFile mapping_;
    std::string name_;
    DeviceModel model_;
    HtpDevice device_;
    std::array<Section, 5> sections_;
    uint64_t file_bytes_ = 0;
};

/// Writes what was compiled for that device. The same model gives the same bytes, and the file appears under
/// its name when it is complete. Errors are those of check_described_model(), and what the system says.
Result<void> write_context(const std::string& path, const DeviceModel& model, const HtpDevice& device);

}  // namespace tessera::npu
