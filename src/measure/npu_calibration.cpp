// Observes all operations that any device could compute, so that one file of ranges serves every device,
// recipe and selection.
#include "src/measure/npu_calibration.h"

#include <algorithm>

#include "src/forward/record.h"

namespace tessera::measure {

Result<std::unique_ptr<NpuCalibration>> NpuCalibration::create(engine::Session& session, int64_t n_batch) {
    std::unique_ptr<NpuCalibration> out(new NpuCalibration(session));
    const Model& model = session.model();
    const int64_t n_rows = std::min(n_batch, session.n_ctx());
    out->program_ = record_forward(
        model, session.layout(), {.n_tok = n_rows, .n_ctx = session.n_ctx(), .logits = RecordedLogits::All});
    npu::HtpDevice device;
    device.lpbq = true;
    TSR_TRY(out->parts_, npu::partition(out->program_, {}, device, {}));
    if (out->parts_.segments.empty())
        return fail(ErrorCode::Unsupported, "expected operations that a device can compute, found none:\n%s",
                    npu::left_out_text(out->program_, out->parts_).c_str());
    TSR_TRY(out->products_, engine::create_backend(model, session.backend().pool(), n_rows));
    TSR_TRY(out->runner_,
            npu::FloatRunner::create(out->program_, out->parts_.segments, session.n_ctx(), *out->products_));
    for (size_t i = 0; i < out->parts_.segments.size(); ++i)
        out->collectors_.emplace_back(out->runner_->graph(i));
    out->runner_->observe(
        [all = &out->collectors_](size_t segment, npu::GraphValueId id, std::span<const float> x) {
            (*all)[segment].add(id, x);
        });
    TSR_TRY(out->backend_, npu::NpuBackend::create(session.backend(), out->program_, out->parts_.segments,
                                                   *out->runner_, n_batch, n_batch));
    session.compute_through(out->backend_.get());
    return out;
}

NpuCalibration::~NpuCalibration() { session_.compute_through(nullptr); }

Result<void> NpuCalibration::add(std::span<const int32_t> tokens) {
    session_.truncate(0);
    TSR_TRY_VOID(session_.eval_all(tokens, [](int64_t, int64_t, const float*) { return true; }));
    n_tok_ += std::ssize(tokens);
    return {};
}

Result<npu::Ranges> NpuCalibration::take(uint64_t model_digest) const {
    npu::Ranges all{.model = model_digest, .n_tok = n_tok_, .of = {}};
    for (const npu::RangeCollector& collector : collectors_) {
        TSR_TRY(const npu::Ranges found, collector.take(model_digest, n_tok_));
        for (const auto& [name, range] : found.of) {
            npu::Range& to = all.of.emplace(name, range).first->second;
            to = {std::min(to.min, range.min), std::max(to.max, range.max)};
        }
    }
    return all;
}

}  // namespace tessera::measure
