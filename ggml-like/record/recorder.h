#pragma once
// RecordBackend: a backend that computes nothing and records the operations of a forward pass. It identifies
// an activation buffer by its address; each write to a buffer creates a new value, so the program has the
// data flow in static single-assignment form. Neither activations nor pages need memory.
#include <map>

#include "ggml-like/record/program.h"

namespace tessera::record {

class RecordBackend final : public Backend {
  public:
    /// Records one pass of n_tok tokens of one sequence, with a KV cache of n_layer_groups. `names` must have
    /// the tensor of every parameter.
    RecordBackend(int64_t n_tok, int32_t n_layer_groups, const TensorNames& names);
    RecordBackend(const RecordBackend&) = delete;
    RecordBackend& operator=(const RecordBackend&) = delete;

    /// Input for the recorded pass: [n_tok] tokens, and [n_layer_groups] segments (Batch::group_segments).
    std::span<const int32_t> tokens() const { return tokens_; }
    std::span<const Segment> segments() const { return segments_; }

    /// The recorded program. `output` is the buffer with its result, or null. May be called once.
    Program finish(const ActBuffer* output);

    void embed(const Weight& table, std::span<const int32_t> tokens, float scale, ActBuffer& x) override;
    void rope_angles(const RopeSpec& rope, std::span<const Segment> segments, ActBuffer& angles) override;
    void norm(const ActBuffer& x, const Vector& w, float eps, int64_t n_tok, ActBuffer& y) override;
    void add_norm(ActBuffer& delta, const Vector& w, float eps, int64_t n_tok, ActBuffer& x) override;
    void copy(const ActBuffer& x, int64_t n_tok, ActBuffer& y) override;
    void linear(const ActBuffer& x, int64_t n_tok, std::span<const LinearOut> outs) override;
    void qkv(const ActBuffer& x, int64_t n_tok, const QkvArgs& args, std::span<const Segment> segments,
             ActBuffer& q) override;
    void gather_rows(std::span<const int32_t> rows, ActBuffer& a) override;
    void attend(const ActBuffer& q, int64_t n_tok, const AttendArgs& args, std::span<const Segment> segments,
                ActBuffer& y) override;
    void ffn_gate_up(const ActBuffer& x, int64_t n_tok, const FfnGateUpArgs& args, ActBuffer& y) override;
    void moe_route(const ActBuffer& x, int64_t n_tok, const RouterArgs& args, MoeRoutes& routes) override;
    void moe_gate_up(const ActBuffer& x, int64_t n_tok, const MoeRoutes& routes, const FfnGateUpArgs& args,
                     ActBuffer& gathered, ActBuffer& y) override;
    void moe_down(const ActBuffer& y, int64_t n_tok, const MoeRoutes& routes, const Weight& down,
                  const Vector& bias, float scale, ActBuffer& rows, ActBuffer& out) override;

  private:
    template <class Verb>
    void append(Verb verb) {
        program_.ops.push_back({.layer = -1, .verb = std::move(verb)});
    }
    /// read(): the current value of a buffer. write(): a new value in a new slot. update(): a new value in
    /// the slot of the current one.
    Read read(const void* buffer) const;
    ValueId write(const void* buffer, Slot slot);
    ValueId write(const ActBuffer& act, int64_t rows);
    Update update(const ActBuffer& act, int64_t rows);

    WeightId weight(const Weight& w);
    VectorId vector(const Vector& v);
    Rows rows_of(std::span<const Segment> segments) const;

    const TensorNames& names_;
    Program program_;
    std::vector<int32_t> tokens_;
    std::vector<std::byte*> no_pages_;  // [n_layer_groups] null; their addresses identify the layer groups
    std::vector<Segment> segments_;
    std::map<const void*, ValueId> held_;  // current value of each buffer
    std::map<const std::byte*, WeightId> weights_;
    std::map<const float*, VectorId> vectors_;
    CacheId cache_;  // of the latest qkv
};

}  // namespace tessera::record
