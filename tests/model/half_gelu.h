#pragma once
// A backend as the processor's, except that GELU gates go through half precision, in and out: the program
// that made the reference logits looks them up in a table of halves.
#include <cmath>

#include "common/f16.h"
#include "ggml-like/cpu/backend.h"

namespace tessera::test {

class HalfGeluBackend final : public Backend {
  public:
    /// For passes of up to max_tok tokens with float weights of up to n_ff rows.
    HalfGeluBackend(CpuBackend& cpu, int64_t max_tok, int64_t n_ff)
        : cpu_(cpu), gate_(static_cast<size_t>(max_tok * n_ff)), up_(gate_.size()), n_ff_(n_ff) {}

    void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Act& x) override {
        cpu_.embed(table, tokens, scale, x);
    }
    void rope_angles(const RopeSpec& rope, std::span<const Segment> segments, Act& angles) override {
        cpu_.rope_angles(rope, segments, angles);
    }
    void norm(const Act& x, const Vector& w, float eps, int64_t n_tok, Act& y) override {
        cpu_.norm(x, w, eps, n_tok, y);
    }
    void add_norm(Act& part, const Vector& w, float eps, int64_t n_tok, Act& x) override {
        cpu_.add_norm(part, w, eps, n_tok, x);
    }
    void copy(const Act& x, int64_t n_tok, Act& y) override { cpu_.copy(x, n_tok, y); }
    void linear(const Act& x, int64_t n_tok, std::span<const LinearOut> outs) override {
        cpu_.linear(x, n_tok, outs);
    }
    void qkv(const Act& x, int64_t n_tok, const QkvArgs& args, std::span<const Segment> segments,
             Act& q) override {
        cpu_.qkv(x, n_tok, args, segments, q);
    }
    void keep_rows(std::span<const int32_t> rows, Act& a) override { cpu_.keep_rows(rows, a); }
    void attend(const Act& q, int64_t n_tok, const AttendArgs& args, std::span<const Segment> segments,
                Act& y) override {
        cpu_.attend(q, n_tok, args, segments, y);
    }
    void moe_route(const Act& x, int64_t n_tok, const RouterArgs& args, MoeRoutes& routes) override {
        cpu_.moe_route(x, n_tok, args, routes);
    }
    void moe_gated(const Act& x, int64_t n_tok, const MoeRoutes& routes, const GatedArgs& args, Act& gathered,
                   Act& y) override {
        cpu_.moe_gated(x, n_tok, routes, args, gathered, y);
    }
    void moe_down(const Act& y, int64_t n_tok, const MoeRoutes& routes, const Weight& down,
                  const Vector& bias, float scale, Act& rows, Act& out) override {
        cpu_.moe_down(y, n_tok, routes, down, bias, scale, rows, out);
    }

    void gated(const Act& x, int64_t n_tok, const GatedArgs& args, Act& y) override {
        if (args.activation != Activation::Gelu) return cpu_.gated(x, n_tok, args, y);
        Act gate{.dim = n_ff_, .f32 = gate_.data()}, up{.dim = n_ff_, .f32 = up_.data()};
        const LinearOut products[] = {{.w = args.gate, .bias = args.gate_bias, .y = &gate},
                                      {.w = args.up, .bias = args.up_bias, .y = &up}};
        cpu_.linear(x, n_tok, products);
        for (size_t i = 0; i < static_cast<size_t>(n_tok * n_ff_); ++i) {
            const double g = static_cast<double>(f16_to_f32(f32_to_f16(gate_[i])));
            const double gelu =
                0.5 * g * (1 + std::tanh(0.79788456080286535588 * (g + 0.044715 * g * g * g)));
            y.f32[i] = f16_to_f32(f32_to_f16(static_cast<float>(gelu))) * up_[i];
        }
    }

  private:
    CpuBackend& cpu_;
    std::vector<float> gate_, up_;
    int64_t n_ff_;
};

}  // namespace tessera::test
