#pragma once
// RecordBackend: a backend that computes nothing and records the operations of a forward pass. It identifies
// an activation buffer by its address; each write to a buffer creates a new value, so the program has the
// data flow in static single-assignment form. Neither activations nor pages need memory.
#include <map>

#include "ggml-like/backend.h"
#include "ggml-like/record/program.h"

namespace tessera::record {

class RecordBackend final : public Backend {
  public:
    /// Records one pass of n_tok tokens of one sequence, with a KV cache of n_layer_groups. `names` must have
    /// the tensor of every parameter. all_floats: see complete().
    RecordBackend(int64_t n_tok, int32_t n_layer_groups, const TensorNames& names, bool all_floats = false);
    RecordBackend(const RecordBackend&) = delete;
    RecordBackend& operator=(const RecordBackend&) = delete;

    /// Input for the recorded pass: [n_tok] tokens, and [n_layer_groups] segments (Batch::group_segments).
    std::span<const int32_t> tokens() const { return tokens_; }
    std::span<const Segment> segments() const { return segments_; }

    /// The recorded program. `output` is the buffer with its result, or null. May be called once.
    Program finish(const ActBuffer* output);

    /// Appends the operation, and sets `dim` of each buffer that it writes.
    void run(const tessera::Op& op) override;

  private:
    struct Shape {
        int64_t rows = 0, dim = 0;
        Floats floats = Floats::Always;
    };
    struct Shapes;
    struct Inputs;
    struct Outputs;

    template <template <class> class Name>
    void append(const Name<Direct>& op);
    /// The current value of a buffer; none for a null one.
    ValueId held(const void* buffer) const;
    /// A new value in a new slot, or in the slot of the current one.
    ValueId write(const void* buffer, Slot slot);
    ValueId write(ActBuffer& act);
    Update update(ActBuffer& act);

    WeightId weight(const Weight& w);
    VectorId vector(const Vector& v);
    CacheId cache(const KvLayer& kv, std::span<const Segment> segments);
    Rows rows_of(std::span<const Segment> segments) const;

    const TensorNames& names_;
    Program program_;
    std::vector<int32_t> tokens_;
    std::vector<std::byte*> no_pages_;  // [n_layer_groups] null; their addresses identify the layer groups
    std::vector<Segment> segments_;
    std::map<const void*, ValueId> held_;  // current value of each buffer
    std::map<const std::byte*, WeightId> weights_;
    std::map<const float*, VectorId> vectors_;
    std::map<const void*, Shape> shapes_;  // of the buffers that the current operation writes
    bool all_floats_;
};

}  // namespace tessera::record
