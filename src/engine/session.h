#pragma once
// One timeline of a model: tokens go in, logits come out. The sampled token comes back in through eval() and
// nowhere else. Owns its cache, activations and backend; shares the model and borrows the pool. One thread at
// a time.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/threads.h"
#include "ggml-like/cpu/backend.h"
#include "src/engine/embedding.h"
#include "src/engine/npu_phase.h"
#include "src/forward/forward.h"
#include "src/kv/sequence.h"
#include "src/model/model.h"

namespace tessera::engine {

// npu_model.h
class NpuModel;
class NpuSession;

struct SessionOptions {
    int64_t n_ctx = 0;      ///< positions; 0 = the model's training context, at most kDefaultCtx
    int64_t n_batch = 512;  ///< tokens of one pass, 1..4096; sets speed and scratch, never results
    int64_t max_out = 1;    ///< rows whose logits one pass may return, 1..n_batch
    Type k_type = Type::F16, v_type = Type::F16;  ///< of kKvTypes
    std::shared_ptr<NpuModel> npu = nullptr;      ///< what computes parts of the passes

    static constexpr int64_t kDefaultCtx = 4096;
};

/// What the cache of one context takes.
struct CachePlan {
    int64_t n_ctx = 0, n_pages = 0;
    kv::Layout layout;
};
/// From n_ctx and the cache types of the options. Errors: those out of range, or not fit for the model.
Result<CachePlan> plan_cache(const Model& model, const SessionOptions& options);
/// The same of a completion of the engine, which is not cut back at will: of layers that see a window it
/// keeps no more than that, and what a pass of n_batch tokens writes.
Result<CachePlan> plan_completion_cache(const Model& model, const SessionOptions& options);

/// An error that names the value and the range, unless min <= value <= max.
Result<void> check_range(const char* name, int64_t value, int64_t min, int64_t max);

/// "f32, f16, ...": the types a cache may have, for help and errors.
std::string kv_type_names();
/// A type that a cache may have, by its name.
Result<Type> kv_type_from_name(std::string_view name);

/// A backend with scratch for passes of this model of up to n_batch tokens, and what it has to hold.
CpuBackend::Limits backend_limits(const Model& model, int64_t n_batch);
Result<std::unique_ptr<CpuBackend>> create_backend(const Model& model, ThreadPool& pool, int64_t n_batch);

class Session {
  public:
    /// `pool` outlives the session. Errors: options out of range, or no memory for a named buffer.
    static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, ThreadPool& pool,
                                                   const SessionOptions& options);
    ~Session();

    /// Appends tokens and computes the logits of the last one. Errors: an id outside the vocabulary, more
    /// tokens than the context holds (nothing is changed), Cancelled when the pool's abort flag was seen (the
    /// session is cut back to where it was). Tokens that are handed over are a prompt's, however they come;
    /// what was written may be said to be so, which matters to an NPU that computes one phase alone.
    Result<void> eval(std::span<const int32_t> tokens, Phase phase = Phase::Prefill);

    /// The same, and hands over the logits of every token: rows [n, n_vocab] from token index `first` on,
    /// several calls in order. A false return stops early.
    using RowsFn = std::function<bool(int64_t first, int64_t n, const float* rows)>;
    Result<void> eval_all(std::span<const int32_t> tokens, const RowsFn& rows);

    /// Makes the text these tokens, and returns how many at the front were there already; the last is
    /// computed in any case. Errors as eval(), after which only the common beginning is left.
    Result<int64_t> sync(std::span<const int32_t> tokens);

    /// Logits after the last token, [n_vocab]; valid until the next eval. Not after truncate() or restore().
    std::span<const float> logits() const;
    bool has_logits() const { return last_out_ >= 0; }

    /// The embedding of a text: the normed hidden state of its last token, or the mean of all, n_embd floats
    /// in `out`. The session is empty afterwards. Errors as eval().
    Result<void> embed(std::span<const int32_t> tokens, Pooling pooling, std::span<float> out);

    /// The text and its cache into a file, which appears when it is complete. Neither this nor restore()
    /// where keys and values are a device's.
    Result<void> save(const std::string& path) const;
    /// Takes them from there; what the session held is gone. Errors, with the session empty: a file that is
    /// torn or changed, another model's or another cache type's, or a text that does not fit the context.
    Result<void> restore(const std::string& path);

    std::span<const int32_t> tokens() const { return tokens_; }
    int64_t n_tok() const { return sequence_->n_tok(); }
    int64_t n_ctx() const { return n_ctx_; }
    const Model& model() const { return *model_; }

    /// What computes the passes. Where another backend is put in front of it, each verb goes there, which
    /// hands it on; null takes that away again.
    CpuBackend& backend() { return *backend_; }
    const kv::Layout& layout() const { return pages_->layout(); }
    void compute_through(Backend* front) { front_ = front; }

    /// What computes parts of the passes; null without an NPU.
    const NpuSession* npu() const { return npu_.get(); }

    /// Bytes of cache pages for the whole context.
    uint64_t kv_bytes() const;

    /// Forgets all tokens from position n on.
    void truncate(int64_t n);

  private:
    Session();
    Result<void> check(std::span<const int32_t> tokens) const;
    Result<void> check_pages() const;
    uint64_t fingerprint() const;
    Result<void> step(std::span<const int32_t> tokens, std::span<const int32_t> outputs,
                      ActBuffer* hidden = nullptr, Phase phase = Phase::Prefill);

    std::shared_ptr<const Model> model_;
    ThreadPool* pool_ = nullptr;
    std::unique_ptr<CpuBackend> backend_;
    Backend* front_ = nullptr;
    std::unique_ptr<NpuSession> npu_;
    std::unique_ptr<kv::PagePool> pages_;
    std::unique_ptr<kv::Sequence> sequence_;
    Activations activations_;
    std::vector<int32_t> tokens_;   // in the cache
    std::vector<int32_t> outputs_;  // rows wanted of the current pass
    int64_t n_ctx_ = 0, last_out_ = -1;
    mutable std::optional<uint64_t> fingerprint_;  // of the model, for saved sessions
    std::vector<float> hidden_;                    // [max_tok, n_embd] for embed()
};

}  // namespace tessera::engine
