// Owns the engine's requests of one HTTP request. The engine's callbacks append to a queue, which grows while
// the client is slow, and wake the connection's thread, which also notices that the client disconnects. The
// destructor cancels the requests that have not ended and frees their slots.
#include "server/generation.h"

#include "server/error.h"

namespace tessera::server {

namespace {
// Seconds without an event after which a stream sends a comment; seconds between attempts to enter a full
// queue.
constexpr double kPatience = 10, kRetry = 0.02;
}  // namespace

Generation::Generation(Service& service, const Request& request, tessera_api::Request options,
                       std::vector<std::vector<int32_t>> prompts)
    : service_(service),
      peer_(*request.peer),
      options_(std::move(options)),
      prompts_(std::move(prompts)),
      n_choices_(prompts_.size() * static_cast<size_t>(options_.n_completions)),
      choices_(n_choices_) {
    submit_more();
}

Generation::~Generation() {
    if (n_ended_ < n_choices_)
        for (auto& ticket : tickets_) ticket.cancel();
    tickets_.clear();
}

size_t Generation::n_under_way() const {
    return tickets_.size() * static_cast<size_t>(options_.n_completions) - n_ended_;
}

void Generation::submit_more() {
    const auto most = static_cast<size_t>(service_.n_slots());
    while (tickets_.size() < prompts_.size() && n_under_way() < most) {
        tessera_api::Request one = options_;
        one.tokens = std::move(prompts_[tickets_.size()]);
        listen(one, tickets_.size() * static_cast<size_t>(options_.n_completions));
        try {
            tickets_.push_back(service_.engine.submit(one));
        } catch (const tessera_api::Error& error) {
            // The requests that were submitted continue; the rest are submitted when the queue has room.
            prompts_[tickets_.size()] = std::move(one.tokens);
            if (error.status() == TSR_BUSY && !tickets_.empty()) return;
            for (auto& ticket : tickets_) ticket.cancel();
            tickets_.clear();  // waits while the queue exists
            rethrow(error);
        }
    }
}

void Generation::listen(tessera_api::Request& request, size_t first) {
    request.on_prompt = [this, first, most = request.max_tokens](int32_t completion, int64_t n_read,
                                                                 int64_t n_prompt) {
        Event event;
        event.kind = Event::Kind::Prompt;
        event.choice = first + static_cast<size_t>(completion);
        event.n_read = n_read;
        event.outcome.n_prompt = n_prompt;
        auto& slot = choices_[event.choice].slot;
        if (slot)
            service_.slots.read(*slot, n_read);
        else
            slot = service_.slots.enter({0, n_prompt, n_read, n_read, 0, most});
        event.slot = *slot;
        push(std::move(event));
    };
    request.on_delta = [this, first](const tsr_delta& delta) {
        Event event;
        event.choice = first + static_cast<size_t>(delta.completion);
        event.id = delta.id;
        event.text.assign(delta.text, delta.n_text);
        event.log_p = delta.log_p;
        event.top.assign(delta.top, delta.top + delta.n_top);
        if (const auto slot = choices_[event.choice].slot) {
            event.slot = *slot;
            if (delta.id >= 0) service_.slots.wrote(*slot);
        }
        push(std::move(event));
    };
    request.on_finish = [this, first](const tsr_outcome& outcome) {
        Event event;
        event.kind = Event::Kind::End;
        event.choice = first + static_cast<size_t>(outcome.completion);
        event.outcome = outcome;
        if (outcome.finish == TSR_FINISH_FAILED && outcome.error) event.error = outcome.error;
        event.embedding.assign(outcome.embedding, outcome.embedding + outcome.n_embedding);
        // A completion that ends in the queue never had a slot.
        if (const auto slot = choices_[event.choice].slot) {
            event.slot = *slot;
            service_.slots.leave(*slot);
        }
        push(std::move(event));
    };
}

void Generation::push(Event event) {
    event.when = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        events_.push_back(std::move(event));
    }
    ready_.raise();
}

Generation::Next Generation::next(Event& event) {
    const auto seconds_left = [end = Clock::now() + std::chrono::duration<double>(kPatience)] {
        return std::chrono::duration<double>(end - Clock::now()).count();
    };
    for (;;) {
        // A disconnect is noticed even while events keep coming.
        if (n_ended_ == n_choices_) return Next::Done;
        submit_more();
        bool some;
        {
            const std::lock_guard lock(mutex_);
            some = !events_.empty();
        }
        const double patience = n_under_way() > 0 ? seconds_left() : kRetry;
        const Woken woken = peer_.wait(ready_.fd(), some ? 0 : patience);
        if (woken == Woken::Gone) {
            service_.metrics.count_disconnect();
            return Next::Gone;
        }
        if (woken == Woken::Stopping) return Next::Stopping;
        ready_.clear();
        const std::lock_guard lock(mutex_);
        if (events_.empty()) {
            if (seconds_left() <= 0) return Next::Nothing;
            continue;
        }
        event = std::move(events_.front());
        events_.pop_front();
        measure(event);
        if (event.kind == Event::Kind::End) n_ended_++;
        return Next::Event;
    }
}

void Generation::measure(Event& event) {
    const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
    Choice& choice = choices_[event.choice];
    if (event.kind == Event::Kind::End) {
        service_.metrics.observe(Metrics::kQueue, event.outcome.queue_s);
        return;
    }
    tsr_outcome& outcome = choice.outcome;
    if (event.kind == Event::Kind::Prompt) {
        if (!choice.began) {
            choice.began = event.when;
            outcome.n_prompt = event.outcome.n_prompt;
            outcome.n_cached = event.n_read;
            outcome.queue_s = seconds(event.when - start_);
        }
        outcome.prompt_s = seconds(event.when - *choice.began);
    } else if (event.id >= 0) {
        if (choice.last_token) {
            service_.metrics.observe(Metrics::kBetweenTokens, seconds(event.when - *choice.last_token));
        } else {
            service_.metrics.observe(Metrics::kFirstToken, seconds(event.when - start_));
            choice.first_token = event.when;
            if (choice.began) outcome.prompt_s = seconds(event.when - *choice.began);
        }
        choice.last_token = event.when;
        outcome.n_generated++;
        outcome.decode_s = seconds(event.when - *choice.first_token);
    }
    event.outcome = outcome;
}

void Totals::add(const tsr_outcome& outcome, size_t prompt) {
    if (counted.size() <= prompt) counted.resize(prompt + 1);
    if (!counted[prompt]) {
        counted[prompt] = true;
        n_prompt += outcome.n_prompt;
        n_cached += outcome.n_cached;
        prompt_s += outcome.prompt_s;
        queue_s += outcome.queue_s;
    }
    n_generated += outcome.n_generated;
    decode_s += outcome.decode_s;
}

Json Totals::usage() const {
    return {{"prompt_tokens", n_prompt},
            {"completion_tokens", n_generated},
            {"total_tokens", n_prompt + n_generated},
            {"prompt_tokens_details", {{"cached_tokens", n_cached}}}};
}

Json Totals::timings() const {
    const int64_t n_read = n_prompt - n_cached;
    const auto rate = [](int64_t n, double s) { return s > 0 ? static_cast<double>(n) / s : 0; };
    const auto each = [](int64_t n, double s) { return n > 0 ? 1000 * s / static_cast<double>(n) : 0; };
    // The first token is a result of the prefill.
    const int64_t n_steps = n_generated > 0 ? n_generated - 1 : 0;
    return {{"cache_n", n_cached},
            {"prompt_n", n_read},
            {"prompt_ms", 1000 * prompt_s},
            {"prompt_per_token_ms", each(n_read, prompt_s)},
            {"prompt_per_second", rate(n_read, prompt_s)},
            {"predicted_n", n_generated},
            {"predicted_ms", 1000 * decode_s},
            {"predicted_per_token_ms", each(n_steps, decode_s)},
            {"predicted_per_second", rate(n_steps, decode_s)},
            {"queue_ms", 1000 * queue_s}};
}

const char* finish_reason(const Event& end) {
    switch (end.outcome.finish) {
        case TSR_FINISH_END:
        case TSR_FINISH_STOP_STRING:
            return "stop";
        case TSR_FINISH_FAILED:
            throw std::runtime_error(end.error);
        default:
            return "length";
    }
}

}  // namespace tessera::server
