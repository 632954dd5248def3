#pragma once
// A compiled model in a file: instructions, offsets, and weights in the order in which they are multiplied.
// The file is mapped, and the device's constants are read from the mapping. It is valid for one device, one
// model and one quantization recipe; any other combination is compiled again.
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
        /// Verify the checksum of the constants, which reads all of them. Everything else is always checked.
        /// Without it, the time to open a file does not depend on the model's size.
        bool check_constants = true;
    };

    /// A part of the file: [offset, offset + bytes).
    struct Section {
        const char* name;
        uint64_t offset = 0, bytes = 0;
    };

    /// Errors name the file: Malformed if it is damaged or not a context file; Unsupported for another
    /// version.
    static Result<ContextFile> open(const std::string& path, const Options& options);

    /// The same from bytes in memory, which must outlive the result; for tests and fuzzing.
    static Result<ContextFile> parse(std::span<const std::byte> bytes, const std::string& name,
                                     const Options& options);

    /// Checked by check_described_model(); its constants are views of the file.
    const DeviceModel& model() const { return model_; }
    const HtpDevice& device() const { return device_; }
    std::span<const Section> sections() const { return sections_; }
    uint64_t file_bytes() const { return file_bytes_; }

    /// InvalidArgument if it was compiled from a model with another digest.
    Result<void> expect_model(uint64_t model_hash) const;
    /// InvalidArgument if it was compiled for another device; the message names the differing fields.
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

/// Writes a model compiled for that device. The same model gives the same bytes. The file appears under its
/// name when it is complete. Errors are those of check_described_model() and of the system.
Result<void> write_context(const std::string& path, const DeviceModel& model, const HtpDevice& device);

}  // namespace tessera::npu
