#pragma once
// A loaded model: its file, hyperparameters and bound weights. Immutable after loading, shared by all
// sessions; independent of text.
#include <memory>
#include <vector>

#include "common/arena.h"
#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/cpu/float_products.h"
#include "ggml-like/gguf/file.h"
#include "quants/kernels/table.h"
#include "src/model/arch_spec.h"
#include "src/model/hparams.h"
#include "src/model/weights.h"

namespace tessera {

class Model {
  public:
    struct Options {
        /// Pack weights for the kernels (a copy in memory; pages of the file are released after packing).
        /// Weights of a packed container stay in its mapping. Off: all products are in float on the mapped
        /// weights, and packed containers are refused.
        bool pack = true;
        /// Called with the bytes done and the total while weights are packed; may be empty.
        ByteProgress progress;
        /// Instead of the architecture that the file names; outlives the model.
        const ArchSpec* arch = nullptr;
    };

    /// Takes ownership of the file. Errors name the key or tensor, the expected and the found value.
    static Result<std::shared_ptr<const Model>> load(gguf::File file, ThreadPool& pool,
                                                     const kernels::KernelTable& kernels,
                                                     const Options& options);

    /// load() in two steps. After bind() the memory that the model needs is known (plan_memory) and weights
    /// have their final layouts, but those to be packed have no data yet. `unused`: see Packer::plan_all();
    /// `arch`: see Options.
    static Result<std::unique_ptr<Model>> bind(gguf::File file, const kernels::KernelTable& kernels,
                                               bool pack, const std::vector<bool>& unused = {},
                                               const ArchSpec* arch = nullptr);
    /// Allocates and fills the packed weights.
    static Result<std::shared_ptr<const Model>> pack(std::unique_ptr<Model> bound, ThreadPool& pool,
                                                     const ByteProgress& progress);

    const gguf::File& file() const { return file_; }
    const ArchSpec& arch() const { return *arch_; }
    const Hparams& hparams() const { return hparams_; }
    const Weights& weights() const { return weights_; }
    /// The kernels that weights are packed for.
    const kernels::KernelTable& kernels() const { return *kernels_; }

    /// Lets other products take the place of the float kernels in all passes.
    void compute_with(const cpu::FloatProducts& products) { float_products_ = products; }
    const cpu::FloatProducts& float_products() const { return float_products_; }

    /// RoPE frequencies and magnitude for sequences of up to n_ctx positions. LongRoPE models choose one of
    /// two sets of divisors by n_ctx, which therefore is the same in all passes of a sequence.
    RopeSpec rope(int64_t n_ctx) const;
    /// RoPE of layers with LayerRope::Local; n_rot is 0 if there are none.
    RopeSpec local_rope() const;

    int64_t n_params() const { return n_params_; }
    /// Bytes of weights read for one decoded token.
    uint64_t bytes_per_token() const { return bytes_per_token_; }
    /// Multiply-accumulates per token in the layers' matrices (without attention), and in the head.
    int64_t macs_per_token() const { return macs_per_token_; }
    int64_t head_macs() const { return weights_.output.n_out * weights_.output.n_in; }
    /// The type with the most bytes of matrices, for reports.
    Type main_type() const { return main_type_; }
    /// Memory of weights that are packed at load; 0 for a packed container.
    uint64_t packed_bytes() const { return packed_bytes_; }
    /// Tensor data that is used in the file's mapping.
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
        size_t matrix_bytes;  // stride of experts in the packed buffer
    };
    explicit Model(gguf::File file) : file_(std::move(file)) {}
    void count();
    RopeSpec spec_of(const Frequencies& frequencies) const;

    gguf::File file_;
    const ArchSpec* arch_ = nullptr;
    const kernels::KernelTable* kernels_ = nullptr;
    cpu::FloatProducts float_products_;
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
