#pragma once
// A loaded model: its file, hyperparameters and bound weights. Immutable after load, shared by every session;
// knows nothing of text.
#include <memory>
#include <vector>

#include "common/arena.h"
#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "quants/kernels/table.h"
#include "src/model/arch_spec.h"
#include "src/model/hparams.h"
#include "src/model/weights.h"

namespace tessera {

class Model {
  public:
    struct Options {
        /// Reorder weights into the kernels' packed layout (a copy in memory; the file's pages are released
        /// behind it), but for those of a packed container, which stay in its mapping.
        /// Off: every product runs in float straight from the mapping, and a packed container is refused.
        bool pack = true;
        /// Called with the bytes done and in all while weights are packed; may be empty.
        ByteProgress progress;
    };

    /// Takes the file. Errors name the key or tensor, what was expected and what was found.
    static Result<std::shared_ptr<const Model>> load(gguf::File file, ThreadPool& pool,
                                                     const kernels::KernelTable& kernels,
                                                     const Options& options);

    /// load() in two steps. Behind the first one all that the model takes is known (plan_memory), and its
    /// weights have the layouts that they will be computed in; the data of those to be packed is not so yet.
    /// `unused`: as Packer::plan_all() takes them.
    static Result<std::unique_ptr<Model>> bind(gguf::File file, const kernels::KernelTable& kernels,
                                               bool pack, const std::vector<bool>& unused = {});
    /// Takes the memory of the packed weights, and fills it.
    static Result<std::shared_ptr<const Model>> pack(std::unique_ptr<Model> bound, ThreadPool& pool,
                                                     const ByteProgress& progress);

    const gguf::File& file() const { return file_; }
    const ArchSpec& arch() const { return *arch_; }
    const Hparams& hparams() const { return hparams_; }
    const Weights& weights() const { return weights_; }
    /// Kernels that the packed layout belongs to.
    const kernels::KernelTable& kernels() const { return *kernels_; }

    /// Rotary angles per position and their magnitude, in sequences of up to n_ctx positions (models with two
    /// sets of divisors choose by it, for all passes of a sequence alike).
    RopeSpec rope(int64_t n_ctx) const;
    /// The same in layers of LayerRope::Local; n_rot is 0 where the model has none.
    RopeSpec local_rope() const;

    int64_t n_params() const { return n_params_; }
    /// Bytes of weights that one decoded token reads.
    uint64_t bytes_per_token() const { return bytes_per_token_; }
    /// Multiply-accumulates in the layers' matrices for one token (without head and attention), and in the
    /// head.
    int64_t macs_per_token() const { return macs_per_token_; }
    int64_t head_macs() const { return weights_.output.n_out * weights_.output.n_in; }
    /// Most common type of the matrices by bytes, for reports.
    Type main_type() const { return main_type_; }
    /// Memory of weights that are packed at load; 0 for a packed container.
    uint64_t packed_bytes() const { return packed_bytes_; }
    /// Tensor data that is computed with, or looked up, where it lies in the file's mapping.
    uint64_t mapped_bytes() const { return mapped_bytes_; }

  private:
    friend class Binder;
    friend class Packer;
    /// A matrix to be packed.
    struct PackJob {
        Weight* weight;
        const std::byte* from;
        size_t from_expert_bytes;
        size_t offset;        // in the packed buffer
        size_t matrix_bytes;  // there, from one expert to the next
    };
    explicit Model(gguf::File file) : file_(std::move(file)) {}
    void count();
    RopeSpec spec_of(const Frequencies& frequencies) const;

    gguf::File file_;
    const ArchSpec* arch_ = nullptr;
    const kernels::KernelTable* kernels_ = nullptr;
    Hparams hparams_;
    Weights weights_;
    Buffer packed_;                   // packed weights
    std::vector<PackJob> pack_jobs_;  // between bind() and pack()
    uint64_t packed_bytes_ = 0, mapped_bytes_ = 0;
    std::vector<std::vector<float>> floats_;  // vectors converted to f32
    Frequencies rope_, long_rope_, local_rope_;
    int64_t n_params_ = 0, macs_per_token_ = 0;
    uint64_t bytes_per_token_ = 0;
    Type main_type_ = Type::F32;
};

}  // namespace tessera
