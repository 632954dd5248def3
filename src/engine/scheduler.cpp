// Completions rank by priority, then by age; when pages run short, the completion of the lowest rank is
// preempted. The first in rank can always continue, since the pages of all others can be taken, so every
// request ends. A preempted completion returns to its place in the queue and is recomputed, mostly from the
// prefix cache. Scheduling does not change a bit of any logits.
#include "src/engine/scheduler.h"

#include <algorithm>

#include "common/cpu.h"
#include "src/engine/plan.h"

namespace tessera::engine {

namespace {

/// Passes of at most this many tokens are not aborted: they end about as soon as an abort would be noticed.
constexpr int64_t kShortPass = 32;

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
    const SessionOptions one{.n_ctx = options.n_ctx,
                             .n_batch = options.n_batch,
                             .k_type = options.k_type,
                             .v_type = options.v_type};
    TSR_TRY(CachePlan plan, plan_completion_cache(*model, one));
    out->n_ctx_ = plan.n_ctx;
    out->max_running_ = options.max_running;
    out->n_batch_ = options.n_batch;
    TSR_TRY(out->backend_, create_backend(*model, pool, options.n_batch));
    TSR_TRY(out->pass_, Pass::create(*model, plan.layout,
                                     {.n_ctx = plan.n_ctx,
                                      .max_tok = options.n_batch,
                                      .max_chunks = options.max_running,
                                      .max_logits = options.max_running,
                                      .all_floats = options.npu != nullptr}));
    TSR_TRY(const CacheSize size, plan_cache_size(plan, options, available_memory_bytes()));
    TSR_TRY(kv::PagePool pages, kv::PagePool::create(std::move(plan.layout), size.n_pages));
    out->pages_ = std::make_unique<kv::PagePool>(std::move(pages));
    TSR_TRY(kv::StatePool states, kv::StatePool::create(std::move(plan.states), size.n_slots));
    out->states_ = std::make_unique<kv::StatePool>(std::move(states));
    out->tree_ = std::make_unique<kv::PrefixTree>(*out->pages_, out->states_.get());
    TSR_TRY(out->npu_, NpuPolicy::start(options.npu.get(), *model, *out->backend_, plan.n_ctx,
                                        options.n_batch, options.max_running));
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

void Scheduler::add(std::shared_ptr<Job> job) {
    for (int32_t i = 0; i < job->request.n; ++i) {
        auto completion = Completion::create(job, i, *tokenizer_, {*pages_, states_.get()}, n_ctx_,
                                             model_->hparams().n_embd);
        if (completion) {
            insert_by_rank(waiting_, std::move(*completion));
        } else {
            Outcome failed;
            failed.completion = i;
            failed.error = completion.error();
            job->report_end(failed);
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

/// Shares the cached prefix of a waiting completion, and evicts pages for the rest of its prompt. False, with
/// nothing changed, if there are too few pages yet.
bool Scheduler::admit_one(Completion& one) {
    kv::Sequence& sequence = one.sequence();
    std::span<const int32_t> reusable;
    if (one.uses_prefix_cache()) reusable = npu_.reusable_prefix(one);
    const kv::PrefixTree::Match match = tree_->match(reusable);
    sequence.share_prefix(match.pages, match.n_tok, match.state);
    const auto n_left = static_cast<int64_t>(one.pending().size());
    // Two passes in succession take a slot of state each.
    if (!tree_->evict(sequence.pages_for(n_left), 2 * sequence.slots_for(n_left))) {
        sequence.rewind(0);
        return false;
    }
    one.admitted(match.n_tok);
    stats_.n_cached_tokens += match.n_tok;
    stats_.n_prompt_tokens += n_left;
    return true;
}

/// The next waiting completion: at the highest priority, of the client with the fewest running ones.
/// Completions 1 .. n - 1 of a request wait until its prompt is cached.
Scheduler::Queue::iterator Scheduler::next_waiting() {
    const auto n_running_of = [this](const std::string& client) {
        return std::count_if(running_.begin(), running_.end(),
                             [&](const auto& c) { return c->job().request.client == client; });
    };
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
    return best;
}

void Scheduler::admit() {
    while (static_cast<int64_t>(running_.size()) < max_running_) {
        const auto next = next_waiting();
        if (next == waiting_.end()) return;
        if (!admit_one(**next)) {
            if (!running_.empty()) return;
            tree_->clear();
            TSR_CHECK(admit_one(**next));
        }
        auto admitted = std::move(*next);
        waiting_.erase(next);
        insert_by_rank(running_, std::move(admitted));
    }
}

/// Publishes tokens at the front of a completion to the prefix cache. `is_prompt`: PrefixTree::insert.
void Scheduler::publish(Completion& one, std::span<const int32_t> prefix, bool is_prompt) {
    kv::Sequence& sequence = one.sequence();
    tree_->insert(prefix, sequence.page_tables(), is_prompt, sequence.checkpoints());
}

/// Removes a completion from the running ones and releases its pages, after publishing them to the prefix
/// cache if `publishes`.
std::unique_ptr<Completion> Scheduler::remove_running(size_t index, bool publishes) {
    auto one = std::move(running_[index]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    kv::Sequence& sequence = one->sequence();
    if (publishes) {
        sequence.checkpoint();
        publish(*one, npu_.publishable_prefix(*one, sequence.n_tok()));
    }
    sequence.rewind(0);
    return one;
}

/// Returns a completion to the queue. Its pages are published, so that recomputation is cheap while there is
/// room for them.
void Scheduler::preempt(size_t index) {
    auto one = remove_running(index, true);
    one->preempted();
    ++stats_.n_preemptions;
    insert_by_rank(waiting_, std::move(one));
}

/// Drops a checkpoint of the completion of lowest rank that has one, if slots of state are short; false if
/// they are not, or if there is none.
bool Scheduler::drop_checkpoint(const Completion& for_one, int64_t n_tok) {
    if (states_->n_free() >= for_one.sequence().slots_for(n_tok)) return false;
    return std::any_of(running_.rbegin(), running_.rend(),
                       [](const auto& running) { return running->sequence().drop_checkpoint(); });
}

/// Frees pages and a slot of state for n_tok tokens of one completion: evicts unused ones, then the cached
/// leaf that shares the completion's last page, drops checkpoints, and then preempts completions of lower
/// rank. A completion that runs alone always gets them, if need be by emptying the prefix cache.
bool Scheduler::free_pages_for(Completion& one, int64_t n_tok) {
    kv::Sequence& sequence = one.sequence();
    while (!tree_->evict(sequence.pages_for(n_tok), sequence.slots_for(n_tok))) {
        if (tree_->evict_leaf(sequence.open_page())) continue;
        if (drop_checkpoint(one, n_tok)) continue;
        if (running_.back().get() != &one)
            preempt(running_.size() - 1);
        else if (running_.size() == 1 && tree_->n_pages() > 0)
            tree_->clear();
        else
            return false;
    }
    return true;
}

/// Chooses the tokens of a pass: all of decoding completions, and of prompts as many as the budget allows.
/// Their pages are reserved.
void Scheduler::plan(Pass& pass) {
    const auto any_in = [this](Phase phase) {
        return std::any_of(running_.begin(), running_.end(),
                           [phase](const auto& one) { return one->phase() == phase; });
    };
    pass.clear(npu_.next_phase(any_in(Phase::Prefill), any_in(Phase::Decode)));
    const int64_t n_decoding =
        std::count_if(running_.begin(), running_.end(), [](const auto& c) { return c->decoding(); });
    int64_t n_prompt = prefill_budget_.prompt_tokens(n_decoding, n_batch_);
    // Short passes are not aborted, so that prefill progresses however often requests are cancelled.
    if (last_was_aborted_) n_prompt = std::min(n_prompt, kShortPass);
    // free_pages_for() preempts from the back only, so chunks that are planned stay.
    for (size_t i = 0; i < running_.size(); ++i) {
        Completion& one = *running_[i];
        const auto n_pending = static_cast<int64_t>(one.pending().size());
        const int64_t n_next = one.sequence().pass_tokens(n_pending);
        const int64_t n_most = one.decoding() ? n_next : std::min(n_next, n_prompt);
        const int64_t n = npu_.n_in_phase(one, pass.phase(), n_most);
        if (n == 0) continue;
        if (!free_pages_for(one, n)) {
            // It has the lowest rank of several, and waits.
            preempt(i);
            break;
        }
        TSR_CHECK(one.sequence().reserve(n));
        if (!one.decoding()) n_prompt -= n;
        pass.add(one, n, n == n_pending && !one.embedding() ? 1 : 0);
    }
    pass.build_batch();
}

/// Computes a pass. Its completions are not changed yet.
void Scheduler::submit(Pass& pass) {
    const bool may_abort = pass.n_tok() > kShortPass && !last_was_aborted_;
    pool_->set_abort_flag(may_abort ? &control_->abort : nullptr);
    const double start = now_seconds();
    Backend& own = npu_.begin(pass, *backend_);
    forward(front_ ? *front_ : own, *model_, pages_->layout(), pass.batch(), pass.activations());
    const double seconds = now_seconds() - start;
    pool_->set_abort_flag(nullptr);
    pass.set_computed(seconds, may_abort && control_->abort.load());
}

/// Takes the results of a pass: completions advance, and get their sampled tokens and hidden states. An
/// aborted pass changes nothing.
void Scheduler::complete(Pass& pass) {
    stats_.forward_s += pass.seconds();
    last_was_aborted_ = pass.was_aborted();
    if (pass.was_aborted()) {
        ++stats_.n_aborted_passes;
        return;
    }
    ++stats_.n_passes;
    npu_.end(pass);
    prefill_budget_.measured(pass.n_decoding(), pass.n_tok() - pass.n_decoding(), pass.seconds());
    for (const Pass::Chunk& chunk : pass.chunks()) advance(chunk);
    add_hidden_states(pass);
    sample_and_commit(pass);
}

/// Appends a computed chunk to its sequence, and publishes full pages and finished prompts to the prefix
/// cache. Texts of embeddings are not continued and would only displace others.
void Scheduler::advance(const Pass::Chunk& chunk) {
    Completion& one = *chunk.completion;
    kv::Sequence& sequence = one.sequence();
    const int64_t n_before = sequence.n_tok();
    sequence.advance(chunk.n_tok, std::ssize(one.pending()) - chunk.n_tok);
    if (!chunk.is_decoding) one.report_prefill_progress();
    const bool prefilled = chunk.n_tok > 1 && one.pending().empty();
    const int64_t n_whole = sequence.n_tok() / kKvPage * kKvPage;
    const auto prefix = npu_.publishable_prefix(one, prefilled ? sequence.n_tok() : n_whole);
    if ((prefilled || n_whole > n_before) && std::ssize(prefix) > n_before && !one.embedding())
        publish(one, prefix, prefilled);
    sequence.evict_out_of_window();
}

/// Finishes a running completion. Texts of embeddings are not continued, so only others are published.
void Scheduler::finish(size_t index, Finish why) {
    const bool publishes = !running_[index]->embedding();
    remove_running(index, publishes)->finish(why);
}

/// Adds the hidden states of a pass to the embeddings that they belong to.
void Scheduler::add_hidden_states(const Pass& pass) {
    for (const Pass::Chunk& chunk : pass.chunks()) {
        Completion* one = chunk.completion;
        EmbeddingSum* sum = one->embedding();
        if (!sum) continue;
        for (int64_t i = 0; i < chunk.n_hidden; ++i) sum->add(pass.hidden(chunk, i));
        if (one->pending().empty()) finish(index_of(one), Finish::EndOfGeneration);
    }
}

size_t Scheduler::index_of(const Completion* running) const {
    const auto at = std::find_if(running_.begin(), running_.end(),
                                 [running](const auto& one) { return one.get() == running; });
    return static_cast<size_t>(at - running_.begin());
}

void Scheduler::sample_and_commit(const Pass& pass) {
    const auto chunks = pass.chunks_with_logits();
    const double start = now_seconds();
    pool_->run(std::ssize(chunks), [&](int64_t i, int) {
        const Pass::Chunk& chunk = *chunks[static_cast<size_t>(i)];
        chunk.completion->sample(pass.logits(chunk, chunk.n_logits - 1));
    });
    stats_.sample_s += now_seconds() - start;
    for (const Pass::Chunk* chunk : chunks) {
        Completion* one = chunk->completion;
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
    plan(pass_);
    if (!pass_.empty()) {
        submit(pass_);
        complete(pass_);
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
    out.n_states = states_->n_slots();
    out.n_states_free = states_->n_free();
    out.n_states_cached = tree_->n_states();
    return out;
}

}  // namespace tessera::engine
