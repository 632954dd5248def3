// Loading: hyperparameters, binding (bind.cpp), packing (pack.cpp). Everything a session needs is checked
// here once, so that the forward pass cannot fail.
#include "src/model/model.h"

#include <map>

#include "src/model/bind.h"
#include "src/model/pack.h"

namespace tessera {

Result<std::unique_ptr<Model>> Model::bind(gguf::File file, const kernels::KernelTable& kernels, bool pack,
                                           const std::vector<bool>& unused, const ArchSpec* arch) {
    std::unique_ptr<Model> model(new Model(std::move(file)));
    const std::string path = model->file_.path();
    const auto bind_all = [&]() -> Result<void> {
        if (model->file_.is_packed() && !pack)
            return fail(ErrorCode::InvalidArgument,
                        "the file is packed, and computing in float straight from the file needs the stock "
                        "order; unpack it first");
        if (!arch) {
            TSR_TRY(const std::string_view name, model->file_.get_string("general.architecture"));
            TSR_TRY(arch, find_architecture(name));
        }
        model->arch_ = arch;
        model->kernels_ = &kernels;
        TSR_TRY(model->hparams_, Hparams::load(model->file_, *model->arch_));
        TSR_TRY_VOID(Binder(*model).bind_all());
        model->count();
        const Hparams& h = model->hparams_;
        const Weights& w = model->weights_;
        model->rope_ = rope_frequencies(h.rope, w.rope_short ? w.rope_short.data : w.rope_freqs.data);
        if (w.rope_long) model->long_rope_ = rope_frequencies(h.rope, w.rope_long.data);
        model->local_rope_ = rope_frequencies(h.local_rope, nullptr);
        Packer(*model).plan_all(pack, unused);
        return {};
    };
    if (auto result = bind_all(); !result) {
        // Errors of the file's getters name it already.
        if (result.error().message.starts_with(path)) return tl::unexpected<Error>(std::move(result.error()));
        return fail_in(path, std::move(result.error()));
    }
    return model;
}

Result<std::shared_ptr<const Model>> Model::pack(std::unique_ptr<Model> bound, ThreadPool& pool,
                                                 const ByteProgress& progress) {
    if (auto packed = Packer(*bound).pack_all(pool, progress); !packed)
        return fail_in(bound->file_.path(), std::move(packed.error()));
    return std::shared_ptr<const Model>(std::move(bound));
}

Result<std::shared_ptr<const Model>> Model::load(gguf::File file, ThreadPool& pool,
                                                 const kernels::KernelTable& kernels,
                                                 const Options& options) {
    TSR_TRY(auto bound, bind(std::move(file), kernels, options.pack, {}, options.arch));
    return pack(std::move(bound), pool, options.progress);
}

RopeSpec Model::spec_of(const Frequencies& frequencies) const {
    return {arch_->rope, 2 * static_cast<int64_t>(frequencies.freq.size()), frequencies.freq.data(),
            frequencies.magnitude};
}

RopeSpec Model::rope(int64_t n_ctx) const {
    const bool is_long = weights_.rope_long && n_ctx > hparams_.rope.original_ctx;
    return spec_of(is_long ? long_rope_ : rope_);
}

RopeSpec Model::local_rope() const { return spec_of(local_rope_); }

void Model::count() {
    std::map<Type, uint64_t> bytes_of_type;
    const auto add = [&](const Weight& w, int64_t n_read) {
        if (!w) return;
        const int64_t n_matrices = w.n_expert > 0 ? w.n_expert : 1;
        const uint64_t matrix_bytes = w.row_bytes * static_cast<uint64_t>(w.n_out);
        bytes_of_type[w.type] += matrix_bytes * static_cast<uint64_t>(n_matrices);
        bytes_per_token_ += matrix_bytes * static_cast<uint64_t>(n_read);
        macs_per_token_ += w.n_out * w.n_in * n_read;
    };
    for (const LayerWeights& w : weights_.layers)
        LayerWeights::each_matrix(
            w, [&](const Weight& matrix) { add(matrix, matrix.n_expert > 0 ? hparams_.moe.n_used : 1); });
    const int64_t layer_macs = macs_per_token_;
    add(weights_.output, 1);
    macs_per_token_ = layer_macs;
    uint64_t most = 0;
    for (const auto& [type, bytes] : bytes_of_type)
        if (bytes > most) {
            most = bytes;
            main_type_ = type;
        }
    for (const gguf::TensorInfo& tensor : file_.tensors()) n_params_ += tensor.n_elements();
}

}  // namespace tessera
