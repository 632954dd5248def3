#pragma once
// The backend of a forward pass with segments that a device computes: verbs outside the segments go to the
// CPU backend, verbs inside are counted and skipped.
#include <memory>
#include <span>
#include <vector>

#include "common/arena.h"
#include "ggml-like/cpu/backend.h"
#include "src/npu/partition.h"
#include "src/npu/segment_runner.h"

namespace tessera::npu {

class NpuBackend final : public Backend {
  public:
    /// For passes of up to max_tok tokens with up to max_out output rows. `cpu`, `program` (recorded for all
    /// rows of the same model) and `runner` (with the segments `ranges`) must outlive this object. If a range
    /// contains attention, all passes must be of one sequence. Errors: OutOfMemory.
    static Result<std::unique_ptr<NpuBackend>> create(CpuBackend& cpu, const record::Program& program,
                                                      std::span<const DeviceRange> ranges,
                                                      SegmentRunner& runner, int64_t max_tok,
                                                      int64_t max_out);
    /// Bytes that create() allocates: results of the largest segment, as floats.
    static size_t result_bytes(const record::Program& program, std::span<const DeviceRange> ranges,
                               int64_t max_tok, int64_t max_out);

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
    NpuBackend(CpuBackend& cpu, const record::Program& program, std::span<const DeviceRange> ranges,
               SegmentRunner& runner)
        : cpu_(cpu), program_(program), ranges_(ranges.begin(), ranges.end()), runner_(runner) {}

    template <class Op>
    const Op& next() const;
    void bind(record::ValueId value, ActBuffer& act);
    template <class Verb>
    void step(const Verb& verb);
    void run_segment(const DeviceRange& range);
    void deliver(const DeviceRange& range);

    CpuBackend& cpu_;
    const record::Program& program_;
    std::vector<DeviceRange> ranges_;
    SegmentRunner& runner_;
    std::vector<int32_t> starts_;  // first operation of each segment

    std::vector<ActBuffer*> acts_;  // by the program's slots: buffers of the current pass
    Buffer memory_;                 // results of the current segment
    std::vector<float*> results_;
    std::vector<const float*> chunk_in_;
    std::vector<float*> chunk_out_;

    int32_t at_ = 0;                 // next operation
    size_t segment_ = 0;             // current or next segment
    bool runs_ = false;              // whether `segment_` is the current one
    int64_t n_rows_ = 0;             // rows from the current operation on
    int64_t n_past_ = 0;             // position of the first row
    size_t n_sequences_ = 0;         // sequences in the pass
    std::span<const int32_t> kept_;  // output rows used by later operations; empty: all
};

}  // namespace tessera::npu
