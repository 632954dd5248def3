#pragma once
// One sequence of a model: tokens go in, logits come out. Sampled tokens return through eval(). Owns its KV
// cache, activations and backend; shares the model and uses the caller's thread pool. One thread at a time.
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
    int64_t n_batch = 512;  ///< tokens of one pass, 1..4096; affects speed and memory, never results
    int64_t max_out = 1;    ///< the most rows with logits in one pass, 1..n_batch
    Type k_type = Type::F16, v_type = Type::F16;  ///< of kKvTypes
    std::shared_ptr<NpuModel> npu = nullptr;      ///< NPU that computes parts of the passes
    bool all_floats = false;  ///< activations have all floats, for backends that compute_through() interposes

    static constexpr int64_t kDefaultCtx = 4096;
};

/// Size and layout of the KV cache of one context, and of the state of recurrent layers.
struct CachePlan {
    int64_t n_ctx = 0, n_pages = 0;
    kv::Layout layout;
    int64_t n_states = 0;  // slots: two for the passes, the others for checkpoints; 0 = no recurrent layers
    kv::StateLayout states;

    uint64_t state_bytes(int64_t n_contexts) const {
        return kv::StatePool::bytes(states, n_states * n_contexts);
    }
};
/// Plans by n_ctx and the cache types of the options. Errors: values out of range or unsuitable for the
/// model.
Result<CachePlan> plan_cache(const Model& model, const SessionOptions& options);
/// The plan for a completion of the engine. Completions are only rolled back a little, so layers with a
/// sliding window keep the window and the tokens of one pass.
Result<CachePlan> plan_completion_cache(const Model& model, const SessionOptions& options);

/// Error with the name, the range and the value, unless min <= value <= max.
Result<void> check_range(const char* name, int64_t value, int64_t min, int64_t max);

/// "f32, f16, ...": the names of kKvTypes, for help and errors.
std::string kv_type_names();
/// The type of kKvTypes with this name. Errors list the names.
Result<Type> kv_type_from_name(std::string_view name);

/// Limits of, and a CPU backend for, passes of up to n_batch tokens of this model.
CpuBackend::Limits backend_limits(const Model& model, int64_t n_batch);
Result<std::unique_ptr<CpuBackend>> create_backend(const Model& model, ThreadPool& pool, int64_t n_batch);

class Session {
  public:
    /// `pool` must outlive the session. Errors: options out of range, out of memory for a named buffer.
    static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, ThreadPool& pool,
                                                   const SessionOptions& options);
    ~Session();

    /// Appends tokens and computes the logits of the last one. Errors: an id outside the vocabulary or more
    /// tokens than the context has room for (nothing is changed); Cancelled if the pool's abort flag was set
    /// (the session has its former text, and no logits). `phase` tells prompt tokens from generated tokens;
    /// it matters only with an NPU that computes one phase.
    Result<void> eval(std::span<const int32_t> tokens, Phase phase = Phase::Prefill);

    /// Appends tokens and passes the logits of every token to `rows`, as [n, n_vocab] from token index
    /// `first`, in several calls in order. Stops early if `rows` returns false. Errors as eval().
    using RowsFn = std::function<bool(int64_t first, int64_t n, const float* rows)>;
    Result<void> eval_all(std::span<const int32_t> tokens, const RowsFn& rows);

    /// Replaces the text by these tokens, and returns the number of tokens in the common prefix that are not
    /// recomputed; the last token always is. Errors as eval(), after which only the common prefix is left.
    Result<int64_t> sync(std::span<const int32_t> tokens);

    /// Logits after the last token, [n_vocab]; valid until the next eval. Must not be called after truncate()
    /// or restore().
    std::span<const float> logits() const;
    bool has_logits() const { return last_out_ >= 0; }

    /// Computes the embedding of a text, the normed hidden state of its last token or the mean of all, into
    /// `out` [n_embd]. The session is empty afterwards. Errors as eval().
    Result<void> embed(std::span<const int32_t> tokens, Pooling pooling, std::span<float> out);

    /// Saves the text, its KV cache and its states to a file, which appears when it is complete. Unsupported,
    /// as is restore(), if a device has the KV cache.
    Result<void> save(const std::string& path) const;
    /// Replaces the session by a saved one. Errors, after which the session is empty: a truncated or corrupt
    /// file, another model or cache type, a text that does not fit the context.
    Result<void> restore(const std::string& path);

    std::span<const int32_t> tokens() const { return tokens_; }
    int64_t n_tok() const { return std::ssize(tokens_); }
    int64_t n_ctx() const { return n_ctx_; }
    const Model& model() const { return *model_; }

    /// The backend of the passes. compute_through() interposes another backend, which forwards operations to
    /// this one; null removes it. If it reads activations, the session has the option all_floats.
    CpuBackend& backend() { return *backend_; }
    const kv::Layout& layout() const { return pages_->layout(); }
    const kv::StateLayout& state_layout() const { return states_->layout(); }
    void compute_through(Backend* front) { front_ = front; }

    /// The NPU that computes parts of the passes; null if there is none.
    const NpuSession* npu() const { return npu_.get(); }

    /// Bytes of KV cache pages and states for the whole context.
    uint64_t kv_bytes() const;

    /// Removes all tokens at positions n and above. With recurrent layers, the tokens after the last
    /// checkpoint before n are recomputed by the next eval.
    void truncate(int64_t n);

  private:
    Session();
    Result<void> check(std::span<const int32_t> tokens) const;
    Result<void> check_pages() const;
    uint64_t fingerprint() const;
    std::span<const int32_t> pending() const {
        return std::span(tokens_).subspan(static_cast<size_t>(sequence_->n_tok()));
    }
    void append(std::span<const int32_t> tokens);
    void roll_back(int64_t n_tok);
    Result<void> compute_pending(Phase phase);
    Result<void> step(int64_t n_tok, std::span<const int32_t> outputs, ActBuffer* hidden = nullptr,
                      Phase phase = Phase::Prefill);

    std::shared_ptr<const Model> model_;
    ThreadPool* pool_ = nullptr;
    std::unique_ptr<CpuBackend> backend_;
    Backend* front_ = nullptr;
    std::unique_ptr<NpuSession> npu_;
    std::unique_ptr<kv::PagePool> pages_;
    std::unique_ptr<kv::StatePool> states_;
    std::unique_ptr<kv::Sequence> sequence_;
    Activations activations_;
    std::vector<int32_t> tokens_;   // the first sequence_->n_tok() are in the KV cache, the others pending
    std::vector<int32_t> outputs_;  // output rows of the current pass
    int64_t n_ctx_ = 0, last_out_ = -1;
    mutable std::optional<uint64_t> fingerprint_;  // of the model, for saved sessions
    std::vector<float> hidden_;                    // [max_tok, n_embd] for embed()
};

}  // namespace tessera::engine
