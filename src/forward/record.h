#pragma once
// The forward pass of a model as a program.
#include "ggml-like/record/program.h"
#include "src/kv/page_pool.h"
#include "src/model/model.h"

namespace tessera {

/// Whose logits a recorded pass gives.
enum class RecordedLogits : uint8_t { None, Last, All };

struct RecordOptions {
    int64_t n_tok = 1;  ///< of a pass, at least 1
    int64_t n_ctx = 1;  ///< positions that its sequences may reach, as in Batch
    RecordedLogits logits = RecordedLogits::Last;
};

/// What forward() does for passes of options.n_tok tokens of one sequence, with caches of this layout. The
/// model outlives the program. A program of a model that is bound and not loaded (Model::bind) says the same,
/// but cannot run.
record::Program record_forward(const Model& model, const kv::Layout& kv, const RecordOptions& options);

/// The same with the logits of all rows: what is compiled for a device, which has caches of its own.
record::Program record_all_rows(const Model& model, int64_t n_tok, int64_t n_ctx);

}  // namespace tessera
