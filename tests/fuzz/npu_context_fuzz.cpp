// Files of compiled models, their checksums made right: any bytes, or a sound file with any changes. Refused,
// or executed within the memory that they were checked against.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "common/bytes.h"
#include "src/npu/context_file.h"
#include "src/npu/device_run.h"
#include "tests/npu/context_support.h"

namespace {

using namespace tessera::npu;

const std::vector<std::byte>& sound_file() {
    static const std::vector<std::byte> bytes = [] {
        const test::CompiledLinears c("toy", {1, 70}, 64, 40, 2);
        const std::string path =
            std::filesystem::temp_directory_path() / ("npu_context_fuzz." + std::to_string(getpid()));
        if (!write_context(path, c.model, c.device)) __builtin_trap();
        const auto file = tessera::MappedFile::open(path);
        unlink(path.c_str());
        return std::vector<std::byte>(file->bytes().begin(), file->bytes().end());
    }();
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    tessera::ByteReader in(std::as_bytes(std::span(data, size)));
    std::vector<std::byte> file;
    if (in.get<uint8_t>() & 1) {
        file = sound_file();
        while (in.remaining() >= 3) {
            const size_t at = in.get<uint16_t>() % file.size();
            file[at] = in.get<std::byte>();
        }
    } else {
        const auto rest = in.view(in.remaining());
        const auto bytes = std::as_bytes(std::span(rest));
        file.assign(bytes.begin(), bytes.end());
    }
    test::seal(file);
    const auto context = ContextFile::parse(file, "fuzz", {});
    if (!context) return 0;
    const DeviceModel& model = context->model();
    if (model.arena_bytes > 1 << 20 || model.cache_bytes > 1 << 20) return 0;
    static tessera::ThreadPool pool(1);
    auto emulator = Emulator::create(model.vtcm_bytes, kTilesScalar, pool);
    if (!emulator) return 0;
    std::vector<std::byte> constants(model.constants.begin(), model.constants.end()),
        arena(static_cast<size_t>(model.arena_bytes)), cache(static_cast<size_t>(model.cache_bytes));
    for (const DeviceSegment& segment : model.segments)
        for (const DeviceGraph& graph : segment.graphs)
            emulator->run(graph.stream, memory_of(model.sessions[static_cast<size_t>(segment.session)],
                                                  {constants, arena, cache}));
    return 0;
}
