#pragma once
// The backend of a forward pass with segments that a device computes: operations outside the segments go to
// the CPU backend, operations inside are counted and skipped.
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
    /// contains attention, all passes must be of one sequence. Segments read floats, so the activations of
    /// the passes have all floats (Activations::create). Errors: OutOfMemory.
    static Result<std::unique_ptr<NpuBackend>> create(CpuBackend& cpu, const record::Program& program,
                                                      std::span<const DeviceRange> ranges,
                                                      SegmentRunner& runner, int64_t max_tok,
                                                      int64_t max_out);
    /// Bytes that create() allocates: results of the largest segment, as floats.
    static size_t result_bytes(const record::Program& program, std::span<const DeviceRange> ranges,
                               int64_t max_tok, int64_t max_out);

    void run(const Op& op) override;

  private:
    NpuBackend(CpuBackend& cpu, const record::Program& program, std::span<const DeviceRange> ranges,
               SegmentRunner& runner)
        : cpu_(cpu), program_(program), ranges_(ranges.begin(), ranges.end()), runner_(runner) {}

    struct BindWritten;
    void before(const EmbedOp<Direct>& op);
    void before(const RopeAnglesOp<Direct>& op);
    template <class Other>
    void before(const Other& op);
    void gather(const GatherRowsOp<Direct>& op);
    template <template <class> class Name>
    void step(const Name<Direct>& op);
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
