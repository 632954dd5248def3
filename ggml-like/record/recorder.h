#pragma once
// RecordBackend: a backend that computes nothing and writes down what it is asked for. An activation buffer's
// address is its identity; what a verb writes there is a new value each time, so the program says which
// result feeds which. Neither activations nor pages need memory.
#include <map>

#include "ggml-like/record/program.h"

namespace tessera::record {

class RecordBackend final : public Backend {
  public:
    /// For one pass of n_tok tokens of one sequence, with a cache of n_planes. `names` has every parameter.
    RecordBackend(int64_t n_tok, int32_t n_planes, const TensorNames& names);
    RecordBackend(const RecordBackend&) = delete;
    RecordBackend& operator=(const RecordBackend&) = delete;

    /// What the pass has to be given: its tokens, and its segments, one for each plane.
    std::span<const int32_t> tokens() const { return tokens_; }
    std::span<const Segment> segments() const { return segments_; }

    /// The program behind the pass; `output` is what it is for, or null. Once.
    Program finish(const Act* output);

    void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Act& x) override;
    void rope_angles(const RopeSpec& rope, std::span<const Segment> segments, Act& angles) override;
    void norm(const Act& x, const Vector& w, float eps, int64_t n_tok, Act& y) override;
    void add_norm(Act& part, const Vector& w, float eps, int64_t n_tok, Act& x) override;
    void copy(const Act& x, int64_t n_tok, Act& y) override;
    void linear(const Act& x, int64_t n_tok, std::span<const LinearOut> outs) override;
    void qkv(const Act& x, int64_t n_tok, const QkvArgs& args, std::span<const Segment> segments,
             Act& q) override;
    void keep_rows(std::span<const int32_t> rows, Act& a) override;
    void attend(const Act& q, int64_t n_tok, const AttendArgs& args, std::span<const Segment> segments,
                Act& y) override;
    void gated(const Act& x, int64_t n_tok, const GatedArgs& args, Act& y) override;
    void moe_route(const Act& x, int64_t n_tok, const RouterArgs& args, MoeRoutes& routes) override;
    void moe_gated(const Act& x, int64_t n_tok, const MoeRoutes& routes, const GatedArgs& args, Act& gathered,
                   Act& y) override;
    void moe_down(const Act& y, int64_t n_tok, const MoeRoutes& routes, const Weight& down,
                  const Vector& bias, float scale, Act& rows, Act& out) override;

  private:
    template <class Verb>
    void append(Verb verb) {
        program_.ops.push_back({.layer = -1, .verb = std::move(verb)});
    }
    /// The value that a buffer holds, or the next one, in a slot of its own or in the same one.
    Read read(const void* buffer) const;
    ValueId write(const void* buffer, Slot slot);
    ValueId write(const Act& act, int64_t rows);
    Update update(const Act& act, int64_t rows);

    WeightId weight(const Weight& w);
    VectorId vector(const Vector& v);
    Rows rows_of(std::span<const Segment> segments) const;

    const TensorNames& names_;
    Program program_;
    std::vector<int32_t> tokens_;
    std::vector<std::byte*> no_pages_;  // [n_planes] whose addresses tell the planes apart
    std::vector<Segment> segments_;
    std::map<const void*, ValueId> held_;  // by each buffer
    std::map<const std::byte*, WeightId> weights_;
    std::map<const float*, VectorId> vectors_;
    CacheId cache_;  // that the latest keys went to
};

}  // namespace tessera::record
