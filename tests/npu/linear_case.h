#pragma once
// A Linear with random weights, encodings and inputs, and its tiled form in the memory of an emulated device.
#include <algorithm>
#include <memory>

#include "src/npu/emulator.h"
#include "src/npu/layout.h"
#include "src/npu/linear_stream.h"
#include "tests/npu/orders.h"
#include "tests/npu/support.h"
#include "tests/npu/usable_kernels.h"

namespace tessera::npu::test {

struct LinearCase {
    LinearShape shape;
    std::unique_ptr<QuantizedWeights> weights;
    Linear op;
    WeightBlob blob;
    std::vector<uint16_t> x, expected;
    ActLayout in, out;
    std::vector<std::byte> arena;  // the input, then the output

    LinearCase(Draw& draw, int64_t rows, int64_t n_in, int64_t n_out, const WeightRecipe& recipe, int bits_in,
               int bits_out, OutputMode mode = OutputMode::Exact)
        : weights(std::make_unique<QuantizedWeights>()),
          in{rows, n_in, bits_in / 8},
          out{rows, n_out, bits_out / 8} {
        const auto w = draw.gauss(n_in * n_out);
        *weights = *quantize_weights(recipe, w.data(), n_out, n_in);
        const auto bias = draw.gauss(n_out);
        const Encoding encoding = draw.encoding(bits_in);
        const float spread =
            encoding.scale * static_cast<float>(encoding.max()) * std::sqrt(static_cast<float>(n_in));
        op = *make_linear(*weights, bias.data(), encoding,
                          *encoding_of_range(-spread, 0.9f * spread, bits_out), mode);
        blob = *make_weight_blob(op);
        shape = {rows, n_in, n_out, blob.block, in.planes, out.planes};
        x = draw.codes(encoding, rows * n_in);
        expected.resize(static_cast<size_t>(rows * n_out));
        linear_reference(op, x.data(), rows, expected.data());
        arena.resize(static_cast<size_t>(in.bytes() + out.bytes()));
        pack_activations(in, x.data(), arena);
    }

    Stream stream(const TilePlan& plan) const {
        return linear_stream(
            shape, plan,
            {.weights = 0,
             .input = {},
             .output = {.at = static_cast<uint64_t>(in.bytes()), .channels = 0, .first_tile = 0},
             .mult_offset = blob.mult_offset,
             .record_offset = blob.record_offset,
             .zero_out = op.output.zero,
             .factor = {},
             .mode = op.mode});
    }

    Bounds bounds(const HtpDevice& device) const {
        return {device.vtcm_bytes,
                device.vtcm_span_bytes,
                {static_cast<int64_t>(blob.bytes.size()), in.bytes() + out.bytes(), 0}};
    }

    /// The same stream as written and without copies.
    std::vector<uint16_t> run_direct(const Stream& stream, Emulator& emulator) {
        const auto output = std::span(arena).subspan(static_cast<size_t>(in.bytes()));
        std::fill(output.begin(), output.end(), std::byte{0x77});
        emulator.run(direct_stream(stream, blob.bytes), {std::span(blob.bytes), std::span(arena), {}});
        std::vector<uint16_t> y(expected.size());
        unpack_activations(out, output, y.data());
        return y;
    }

    /// The result of the stream in an order of the units; empty if it deadlocks.
    std::vector<uint16_t> run(const Stream& stream, Emulator& emulator, const Order& order) {
        const auto output = std::span(arena).subspan(static_cast<size_t>(in.bytes()));
        std::fill(output.begin(), output.end(), std::byte{0x77});
        const Memory memory = {std::span(blob.bytes), std::span(arena), {}};
        if (!emulator.run_reordered(stream, memory, order)) return {};
        std::vector<uint16_t> y(expected.size());
        unpack_activations(out, output, y.data());
        return y;
    }
};

inline ThreadPool& one_thread() {
    static ThreadPool pool(1);
    return pool;
}

}  // namespace tessera::npu::test
