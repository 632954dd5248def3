#pragma once
// Records the forward pass of a model as a program.
#include "ggml-like/record/program.h"
#include "src/kv/page_pool.h"
#include "src/model/model.h"

namespace tessera {

/// Rows whose logits a recorded pass computes.
enum class RecordedLogits : uint8_t { None, Last, All };

struct RecordOptions {
    int64_t n_tok = 1;  ///< tokens of a pass, at least 1
    int64_t n_ctx = 1;  ///< as Batch::n_ctx
    RecordedLogits logits = RecordedLogits::Last;
    bool all_floats = false;  ///< every value has floats (record::complete)
};

/// Records forward() for passes of options.n_tok tokens of one sequence, with a KV cache of this layout. The
/// model must outlive the program. The program of a model that is bound but not loaded (Model::bind) is the
/// same, but cannot run.
record::Program record_forward(const Model& model, const kv::Layout& kv, const RecordOptions& options);

/// Records a pass that computes the logits of all rows. Compilers for devices, which have KV caches of their
/// own, start from it.
record::Program record_all_rows(const Model& model, int64_t n_tok, int64_t n_ctx, bool all_floats = false);

}  // namespace tessera
