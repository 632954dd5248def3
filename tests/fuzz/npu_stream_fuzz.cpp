// Instructions of any bytes: refused, or executed within the memory that they were checked against.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/bytes.h"
#include "src/npu/emulator.h"

namespace {

using namespace tessera::npu;

constexpr int64_t kVtcmBytes = 32 << 10, kRegionBytes = 4096;

/// Small numbers mostly: large ones are refused at once.
uint32_t number(tessera::ByteReader& in) {
    const auto value = in.get<uint16_t>();
    return value < 0xff00 ? value : in.get<uint32_t>();
}

Instruction instruction(tessera::ByteReader& in) {
    Instruction out;
    const auto kind = in.get<uint8_t>();
    out.op = static_cast<Opcode>(kind & 7);
    out.frees_operands = kind & 8;
    out.frees_activations = kind & 16;
    for (uint32_t& wait : out.waits) wait = in.get<uint8_t>();
    if (out.op == Opcode::Expand) {
        out.expand = {number(in), number(in), number(in), number(in), number(in), number(in)};
    } else if (out.op == Opcode::Multiply) {
        Multiply& m = out.multiply;
        m = {};
        for (uint32_t* field : {&m.act, &m.weights, &m.records, &m.out, &m.sums, &m.rows, &m.n_tiles,
                                &m.k_tiles, &m.packet_k_tiles})
            *field = number(in);
        m.zero_out = in.get<int32_t>();
        m.planes_in = in.get<uint8_t>();
        m.planes_out = in.get<uint8_t>();
        m.first = kind & 32;
        m.last = kind & 64;
    } else {
        out.transfer = {in.get<uint64_t>(),
                        in.get<uint64_t>(),
                        number(in),
                        number(in),
                        number(in),
                        number(in),
                        static_cast<Region>(in.get<uint8_t>())};
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    tessera::ByteReader in(std::as_bytes(std::span(data, size)));
    Stream stream;
    while (in.remaining() > 0 && stream.size() < 64) stream.push_back(instruction(in));
    static tessera::ThreadPool pool(1);
    auto emulator = Emulator::create(kVtcmBytes, kTilesScalar, pool);
    if (!emulator || !check_stream(stream, {kVtcmBytes, 8192, {kRegionBytes, kRegionBytes, kRegionBytes}}))
        return 0;
    std::vector<std::byte> regions[kRegions];
    Memory memory;
    for (size_t i = 0; i < kRegions; ++i) {
        regions[i].resize(kRegionBytes);
        memory[i] = regions[i];
    }
    find_hazard(stream);
    emulator->run(stream, memory);
    if (!emulator->run_reordered(stream, memory, {})) __builtin_trap();
    return 0;
}
