// Completions rank by priority, then by age; when pages run short, the completion of the lowest rank is
// preempted. The first in rank can always continue, since the pages of all others can be taken, so every
// request ends. A preempted completion returns to its place in the queue and is recomputed, mostly from the
// prefix cache. Scheduling does not change a bit of any logits.
#include "src/engine/scheduler.h"

#include <algorithm>
#include <numeric>

#include "common/cpu.h"
#include "src/engine/npu_model.h"
#include "src/engine/plan.h"

namespace tessera::engine {

namespace {

/// Passes of at most this many tokens are not aborted: they end about as soon as an abort would be noticed.
constexpr int64_t kShortPass = 32;
constexpr int32_t kMaxCompletions = 64, kMaxTop = 64;
constexpr size_t kMaxStops = 64, kMaxStopBytes = 4096;

bool ranks_before(const Completion& a, const Completion& b) {
    if (a.job().request.priority != b.job().request.priority)
        return a.job().request.priority > b.job().request.priority;
    if (a.job().number != b.job().number) return a.job().number < b.job().number;
    return a.index() < b.index();
}

void insert_by_rank(std::deque<std::unique_ptr<Completion>>& queue, std::unique_ptr<Completion> one) {
    const auto at = std::upper_bound(queue.begin(), queue.end(), one,
                                     [](const auto& a, const auto& b) { return ranks_before(*a, *b); });
    queue.insert(at, std::move(one));
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const text::Tokenizer> tokenizer,
                                                     ThreadPool& pool, const EngineOptions& options) {
    TSR_TRY_VOID(check_range("running completions", options.max_running, 1, kMaxRunning));
    TSR_TRY_VOID(check_range("batch size", options.n_batch, options.max_running, 4096));
    std::unique_ptr<Scheduler> out(new Scheduler());
    if (options.npu && options.npu->owns_kv_cache() && options.max_running != 1)
        return fail(
            ErrorCode::InvalidArgument,
            "running completions: expected 1, since the NPU has the KV cache of one sequence, found %lld",
            static_cast<long long>(options.max_running));
    const SessionOptions one{.n_ctx = options.n_ctx,
                             .n_batch = options.n_batch,
                             .k_type = options.k_type,
                             .v_type = options.v_type};
    TSR_TRY(CachePlan plan, plan_completion_cache(*model, one));
    out->n_ctx_ = plan.n_ctx;
    out->max_running_ = options.max_running;
    out->n_batch_ = options.n_batch;
    TSR_TRY(out->backend_, create_backend(*model, pool, options.n_batch));
    TSR_TRY(out->activations_, Activations::create(*model, options.n_batch, options.max_running));
    TSR_TRY(const int64_t n_pages, plan_pages(plan, options, available_memory_bytes()));
    const auto n_layer_groups = static_cast<size_t>(plan.layout.n_layer_groups);
    TSR_TRY(kv::PagePool pages, kv::PagePool::create(std::move(plan.layout), n_pages));
    out->pages_ = std::make_unique<kv::PagePool>(std::move(pages));
    out->tree_ = std::make_unique<kv::PrefixTree>(*out->pages_);
    const auto n_running = static_cast<size_t>(options.max_running);
    out->rows_.reserve(n_running);
    out->segments_.reserve(n_running * n_layer_groups);
    out->outputs_.reserve(n_running);
    out->sampling_rows_.reserve(n_running);
    out->tokens_.reserve(static_cast<size_t>(options.n_batch));
    if (options.npu) {
        TSR_TRY(out->npu_, options.npu->start(*model, *out->backend_, out->n_ctx_, options.n_batch,
                                              options.max_running));
    }
    out->hidden_.dim = model->hparams().n_embd;
    out->model_ = std::move(model);
    out->tokenizer_ = std::move(tokenizer);
    out->pool_ = &pool;
    return out;
}

Scheduler::Scheduler() = default;

Scheduler::~Scheduler() {
    for (Queue* queue : {&running_, &waiting_})
        for (auto& completion : *queue) completion->finish(Finish::Cancelled);
}

Result<void> Scheduler::check(const Request& request) const {
    const auto n_prompt = static_cast<int64_t>(request.prompt.size());
    if (n_prompt == 0)
        return fail(ErrorCode::InvalidArgument, "prompt: expected at least one token, found none");
    if (n_prompt > n_ctx_)
        return fail(ErrorCode::InvalidArgument,
                    "prompt: %lld tokens do not fit the context of %lld (a longer context: --ctx N)",
                    static_cast<long long>(n_prompt), static_cast<long long>(n_ctx_));
    if (request.on_full == ContextPolicy::Error) {
        // The last generated token needs no position.
        const int64_t most = n_ctx_ - n_prompt + 1;
        if (request.max_tokens < 0)
            return fail(ErrorCode::InvalidArgument,
                        "max_tokens: expected 0 to %lld, since the context may not overflow, found no limit",
                        static_cast<long long>(most));
        TSR_TRY_VOID(check_range("max_tokens that fit the context", request.max_tokens, 0, most));
    }
    const int64_t n_vocab = model_->hparams().n_vocab;
    for (const int32_t id : request.prompt) TSR_TRY_VOID(check_range("prompt token", id, 0, n_vocab - 1));
    TSR_TRY_VOID(check_range("n", request.n, 1, kMaxCompletions));
    TSR_TRY_VOID(check_range("log probabilities", request.n_top, -1, kMaxTop));
    TSR_TRY_VOID(check_range("stop strings", static_cast<int64_t>(request.stop.size()), 0, kMaxStops));
    if (request.embedding && (request.n != 1 || request.grammar))
        return fail(ErrorCode::InvalidArgument,
                    "embedding: expected one completion without a grammar, found %s",
                    request.grammar ? "a grammar" : strf("%d", request.n).c_str());
    for (const std::string& stop : request.stop)
        TSR_TRY_VOID(
            check_range("bytes of a stop string", static_cast<int64_t>(stop.size()), 1, kMaxStopBytes));
    return {};
}

void Scheduler::add(std::shared_ptr<Job> job) {
    for (int32_t i = 0; i < job->request.n; ++i) {
        auto completion = Completion::create(job, i, *tokenizer_, *pages_, n_ctx_, model_->hparams().n_embd);
        if (completion) {
            insert_by_rank(waiting_, std::move(*completion));
        } else {
            Outcome failed;
            failed.completion = i;
            failed.error = completion.error();
            if (job->listener.on_finish) job->listener.on_finish(failed);
            job->n_open.fetch_sub(1);
            job->n_open.notify_all();
        }
    }
}

/// Finishes cancelled requests and those past their deadline.
void Scheduler::remove_cancelled(Queue& queue, bool are_running) {
    const double now = now_seconds();
    for (size_t i = 0; i < queue.size();) {
        const Job& job = queue[i]->job();
        if (!job.cancelled.load() && !job.past_deadline(now)) {
            ++i;
            continue;
        }
        const Finish why = job.cancelled.load() ? Finish::Cancelled : Finish::Deadline;
        if (are_running) {
            finish(i, why);
        } else {
            queue[i]->finish(why);
            queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
}

/// Whether prefill and decode use different arithmetic, because an NPU computes only one of them.
bool Scheduler::splits_phases() const { return npu_ && npu_->phase_split(); }

/// The part of the first n_tok tokens that may be published to the prefix cache. If phases are split,
/// generated tokens are excluded: in another request's prompt they would be computed by the other arithmetic.
std::span<const int32_t> Scheduler::publishable_prefix(const Completion& one, int64_t n_tok) const {
    if (splits_phases()) n_tok = std::min(n_tok, one.n_prompt());
    return one.tokens().first(static_cast<size_t>(n_tok));
}

/// The part of a text that may be taken from the prefix cache. A device's KV cache limits it to the prefix in
/// common with the last text there.
std::span<const int32_t> Scheduler::cached_prefix(const Completion& one) const {
    if (!one.uses_prefix_cache()) return {};
    std::span<const int32_t> front = one.skippable();
    if (splits_phases()) front = front.first(std::min(front.size(), static_cast<size_t>(one.n_prompt())));
    if (!npu_ || !npu_->owns_kv_cache()) return front;
    const auto ends = std::mismatch(front.begin(), front.end(), device_tokens_.begin(), device_tokens_.end());
    return front.first(static_cast<size_t>(ends.first - front.begin()));
}

/// Shares the cached prefix of the next completion, and evicts pages for the rest of its prompt. False, with
/// nothing changed, if there are too few pages yet.
bool Scheduler::admit_one(std::unique_ptr<Completion>& next) {
    kv::Sequence& sequence = next->sequence();
    const kv::PrefixTree::Match match = tree_->match(cached_prefix(*next));
    sequence.share_prefix(match.pages, match.n_tok);
    const auto n_left = static_cast<int64_t>(next->pending().size());
    if (!tree_->evict(sequence.pages_for(n_left))) {
        sequence.truncate(0);
        return false;
    }
    next->admitted(match.n_tok);
    stats_.n_cached_tokens += match.n_tok;
    stats_.n_prompt_tokens += n_left;
    return true;
}

void Scheduler::admit() {
    const auto n_running_of = [this](const std::string& client) {
        return std::count_if(running_.begin(), running_.end(),
                             [&](const auto& c) { return c->job().request.client == client; });
    };
    while (!waiting_.empty() && static_cast<int64_t>(running_.size()) < max_running_) {
        // At the highest priority, the client with the fewest running completions is next. Completions 1 .. n
        // - 1 of a request wait until its prompt is cached.
        auto best = waiting_.end();
        int64_t least = 0;
        for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
            const Job& job = (*at)->job();
            if (best != waiting_.end() && job.request.priority < (*best)->job().request.priority) break;
            if ((*at)->index() > 0 && !job.prompt_cached) continue;
            const int64_t n = n_running_of(job.request.client);
            if (best != waiting_.end() && n >= least) continue;
            best = at;
            least = n;
        }
        if (best == waiting_.end()) return;
        if (!admit_one(*best)) {
            if (!running_.empty()) return;
            tree_->clear();
            TSR_CHECK(admit_one(*best));
        }
        auto admitted = std::move(*best);
        waiting_.erase(best);
        insert_by_rank(running_, std::move(admitted));
    }
}

/// Publishes the pages to the prefix cache, so that recomputation is cheap while there is room for them.
void Scheduler::preempt(size_t index) {
    auto one = std::move(running_[index]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    kv::Sequence& sequence = one->sequence();
    tree_->insert(publishable_prefix(*one, sequence.n_tok()), sequence.page_tables());
    sequence.truncate(0);
    one->preempted();
    ++stats_.n_preemptions;
    insert_by_rank(waiting_, std::move(one));
}

/// Frees pages for n_tok tokens of one completion: evicts unused pages, then the cached leaf that shares the
/// completion's last page, and then preempts completions of lower rank. A completion that runs alone always
/// gets its pages, if need be by emptying the prefix cache.
bool Scheduler::free_pages_for(Completion& one, int64_t n_tok) {
    while (!tree_->evict(one.sequence().pages_for(n_tok))) {
        if (tree_->evict_leaf(one.sequence().open_page())) continue;
        if (running_.back().get() != &one)
            preempt(running_.size() - 1);
        else if (running_.size() == 1 && tree_->n_pages() > 0)
            tree_->clear();
        else
            return false;
    }
    return true;
}

/// Alternates prefill and decode passes, as long as there are tokens of both.
Phase Scheduler::next_phase() const {
    const Phase other = phase_ == Phase::Prefill ? Phase::Decode : Phase::Prefill;
    const bool has_other =
        std::any_of(running_.begin(), running_.end(), [&](const auto& one) { return one->phase() == other; });
    return has_other ? other : phase_;
}

void Scheduler::plan() {
    rows_.clear();
    if (splits_phases()) phase_ = next_phase();
    const int64_t n_decoding =
        std::count_if(running_.begin(), running_.end(), [](const auto& c) { return c->decoding(); });
    int64_t n_prompt = prefill_budget_.prompt_tokens(n_decoding, n_batch_);
    // Short passes are not aborted, so that prefill progresses however often requests are cancelled.
    if (was_interrupted_) n_prompt = std::min(n_prompt, kShortPass);
    // free_pages_for() preempts from the back only, so rows that are planned stay.
    for (size_t i = 0; i < running_.size(); ++i) {
        Completion& one = *running_[i];
        auto n = static_cast<int64_t>(one.pending().size());
        if (!one.decoding()) n = std::min(n, n_prompt);
        if (splits_phases()) {
            if (one.phase() != phase_) continue;
            if (phase_ == Phase::Prefill) n = std::min(n, one.n_prompt() - one.sequence().n_tok());
        }
        if (n == 0) continue;
        if (!free_pages_for(one, n)) {
            // It has the lowest rank of several, and waits.
            preempt(i);
            break;
        }
        TSR_CHECK(one.sequence().reserve(n));
        if (!one.decoding()) n_prompt -= n;
        rows_.push_back({&one, n});
    }
    // Rows that get logits come first (Batch::n_hidden).
    std::partition(rows_.begin(), rows_.end(), [](const Row& row) { return !row.completion->embedding(); });
}

/// Updates the list of tokens in the device's KV cache: those in the sequence and n_more. An aborted pass may
/// have overwritten later positions.
void Scheduler::update_device_tokens(int64_t n_more) {
    if (!npu_->owns_kv_cache()) return;
    Completion& one = *rows_.front().completion;
    const auto tokens = one.tokens().first(static_cast<size_t>(one.sequence().n_tok() + n_more));
    device_tokens_.assign(tokens.begin(), tokens.end());
}

/// Fills tokens_, segments_, outputs_ and sampling_rows_ from the planned rows.
void Scheduler::gather_batch() {
    tokens_.clear();
    segments_.clear();
    outputs_.clear();
    sampling_rows_.clear();
    for (const Row& row : rows_) {
        const auto pending = row.completion->pending();
        const auto row0 = static_cast<int64_t>(tokens_.size());
        kv::Sequence& sequence = row.completion->sequence();
        tokens_.insert(tokens_.end(), pending.begin(), pending.begin() + row.n_tok);
        segments_.push_back({nullptr, row0, row.n_tok, sequence.n_tok()});
        if (const EmbeddingSum* sum = row.completion->embedding()) {
            sum->want(sequence.n_tok(), row.n_tok, row0, outputs_);
            continue;
        }
        if (row.n_tok < static_cast<int64_t>(pending.size())) continue;
        outputs_.push_back(static_cast<int32_t>(row0 + row.n_tok - 1));
        sampling_rows_.push_back(row.completion);
    }
    // The same segments for each layer group, with the pages of the group.
    const kv::Layout& layout = pages_->layout();
    for (int32_t group = 0; group < layout.n_layer_groups; ++group)
        for (size_t i = 0; i < rows_.size(); ++i) {
            if (group > 0) segments_.push_back(segments_[i]);
            segments_[static_cast<size_t>(group) * rows_.size() + i].pages =
                rows_[i].completion->sequence().pages(group);
        }
}

/// Appends a computed row to its sequence, and publishes full pages and finished prompts to the prefix cache.
/// Texts of embeddings are not continued and would only displace others.
void Scheduler::advance(const Row& row) {
    Completion& one = *row.completion;
    kv::Sequence& sequence = one.sequence();
    const int64_t n_before = sequence.n_tok();
    const bool was_decoding = one.decoding();
    sequence.advance(row.n_tok);
    if (!was_decoding) one.report_prefill_progress();
    const bool prefilled = row.n_tok > 1 && one.pending().empty();
    const int64_t n_whole = sequence.n_tok() / kKvPage * kKvPage;
    const auto prefix = publishable_prefix(one, prefilled ? sequence.n_tok() : n_whole);
    if ((prefilled || n_whole > n_before) && std::ssize(prefix) > n_before && !one.embedding())
        tree_->insert(prefix, sequence.page_tables(), prefilled);
    sequence.evict_out_of_window();
}

/// Computes the planned rows. False, with nothing changed, if the pass was aborted.
bool Scheduler::compute() {
    gather_batch();
    const auto n_decoding =
        std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.completion->decoding(); });
    const auto n_tok = static_cast<int64_t>(tokens_.size());
    const int64_t n_hidden = std::ssize(outputs_) - std::ssize(sampling_rows_);
    hidden_rows_.resize(static_cast<size_t>(n_hidden * hidden_.dim));
    hidden_.f32 = hidden_rows_.data();
    const bool may_end = n_tok > kShortPass && !was_interrupted_;
    pool_->set_abort_flag(may_end ? &control_->abort : nullptr);
    const double start = now_seconds();
    if (npu_) update_device_tokens(0);
    const bool on_device = npu_ && npu_->computes(phase_);
    Backend& backend = on_device ? npu_->backend() : *backend_;
    forward(backend, *model_, pages_->layout(), {tokens_, segments_, outputs_, n_ctx_, &hidden_, n_hidden},
            activations_);
    const double seconds = now_seconds() - start;
    pool_->set_abort_flag(nullptr);
    stats_.forward_s += seconds;
    was_interrupted_ = may_end && control_->abort.load();
    if (was_interrupted_) {
        ++stats_.n_aborted_passes;
        return false;
    }
    ++stats_.n_passes;
    if (npu_) update_device_tokens(rows_.front().n_tok);
    prefill_budget_.measured(n_decoding, n_tok - n_decoding, seconds);
    for (const Row& row : rows_) advance(row);
    return true;
}

/// Finishes a running completion and publishes its pages to the prefix cache.
void Scheduler::finish(size_t index, Finish why) {
    auto one = std::move(running_[index]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    kv::Sequence& sequence = one->sequence();
    if (!one->embedding()) tree_->insert(publishable_prefix(*one, sequence.n_tok()), sequence.page_tables());
    sequence.truncate(0);
    one->finish(why);
}

/// Adds the hidden states of the pass to the embeddings that they belong to.
void Scheduler::add_hidden_states() {
    int64_t row = 0;
    for (const Row& planned : rows_) {
        Completion* one = planned.completion;
        EmbeddingSum* sum = one->embedding();
        if (!sum) continue;
        while (sum->n_done() < one->sequence().n_tok()) sum->add({hidden_.row(row++), sum->n_embd()});
        if (one->pending().empty()) finish(index_of(one), Finish::EndOfGeneration);
    }
}

size_t Scheduler::index_of(const Completion* running) const {
    const auto at = std::find_if(running_.begin(), running_.end(),
                                 [running](const auto& one) { return one.get() == running; });
    return static_cast<size_t>(at - running_.begin());
}

void Scheduler::sample_and_commit() {
    const auto n_vocab = static_cast<size_t>(model_->hparams().n_vocab);
    const double start = now_seconds();
    pool_->run(static_cast<int64_t>(sampling_rows_.size()), [&](int64_t i, int) {
        sampling_rows_[static_cast<size_t>(i)]->sample({activations_.logits.row(i), n_vocab});
    });
    stats_.sample_s += now_seconds() - start;
    for (Completion* one : sampling_rows_) {
        one->mark_prompt_cached();
        const int64_t n_before = one->n_generated();
        const bool goes_on = one->commit_token();
        stats_.n_generated_tokens += one->n_generated() - n_before;
        if (goes_on) continue;
        finish(index_of(one), one->ended_by());
    }
}

void Scheduler::step() {
    const double start = now_seconds();
    const double before = stats_.forward_s + stats_.sample_s;
    // Clear the flag before looking for cancelled requests: a request that is cancelled later aborts this
    // pass.
    control_->abort.store(false);
    remove_cancelled(waiting_, false);
    remove_cancelled(running_, true);
    admit();
    plan();
    if (!rows_.empty() && compute()) {
        add_hidden_states();
        sample_and_commit();
    }
    stats_.other_s += now_seconds() - start - (stats_.forward_s + stats_.sample_s - before);
}

int64_t Scheduler::n_waiting_jobs() const {
    return std::count_if(waiting_.begin(), waiting_.end(), [](const auto& c) { return c->index() == 0; });
}

EngineStats Scheduler::stats() const {
    EngineStats out = stats_;
    out.n_running = static_cast<int64_t>(running_.size());
    out.n_waiting = static_cast<int64_t>(waiting_.size());
    out.n_pages = pages_->n_pages();
    out.n_pages_free = pages_->n_free();
    out.n_pages_cached = tree_->n_pages();
    return out;
}

}  // namespace tessera::engine
