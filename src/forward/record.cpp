// Runs forward() on the backend that records operations.
#include "src/forward/record.h"

#include <numeric>

#include "ggml-like/record/recorder.h"
#include "src/forward/forward.h"
#include "src/model/tensor_names.h"

namespace tessera {

record::Program record_forward(const Model& model, const kv::Layout& kv, const RecordOptions& options) {
    std::vector<int32_t> outputs(options.logits == RecordedLogits::All    ? static_cast<size_t>(options.n_tok)
                                 : options.logits == RecordedLogits::Last ? 1
                                                                          : 0);
    std::iota(outputs.begin(), outputs.end(), static_cast<int32_t>(options.n_tok - std::ssize(outputs)));
    const TensorNames names = tensor_names(model);
    record::RecordBackend recorder(options.n_tok, kv.n_layer_groups, names, options.all_floats);
    Activations activations = Activations::describe(model);
    activations.output_segments.reserve(1);
    forward(recorder, model, kv, {recorder.tokens(), recorder.segments(), outputs, options.n_ctx},
            activations);
    return recorder.finish(outputs.empty() ? nullptr : &activations.logits);
}

record::Program record_all_rows(const Model& model, int64_t n_tok, int64_t n_ctx, bool all_floats) {
    const auto layout = kv::Layout::create(model.hparams().layers, Type::F16, Type::F16);
    return record_forward(
        model, layout,
        {.n_tok = n_tok, .n_ctx = n_ctx, .logits = RecordedLogits::All, .all_floats = all_floats});
}

}  // namespace tessera
