// Owns the requests to the engine that one HTTP request makes. The engine's callbacks append to a queue,
// which a slow client makes longer, and wake the connection's thread, which also sees the client leave. Its
// destructor is what frees the slots: an answer that is not read to the end cancels.
#include "server/generation.h"

#include "server/error.h"

namespace tessera::server {

namespace {
constexpr double kPatience = 10;  // seconds without an event; streams then show that they live
}

Generation::Generation(Service& service, const Request& request, const tessera_api::Request& options,
                       const std::vector<std::vector<int32_t>>& prompts)
    : service_(service),
      peer_(*request.peer),
      stop_(options.stop),
      n_choices_(prompts.size() * static_cast<size_t>(options.n_completions)),
      last_token_(n_choices_) {
    for (size_t i = 0; i < prompts.size(); i++) {
        const auto first = i * static_cast<size_t>(options.n_completions);
        tessera_api::Request one = options;
        one.tokens = prompts[i];
        one.on_delta = [this, first](const tsr_delta& delta) {
            Event event;
            event.choice = first + static_cast<size_t>(delta.completion);
            event.id = delta.id;
            event.text.assign(delta.text, delta.n_text);
            event.log_p = delta.log_p;
            event.top.assign(delta.top, delta.top + delta.n_top);
            push(std::move(event));
        };
        one.on_finish = [this, first](const tsr_outcome& outcome) {
            Event event;
            event.choice = first + static_cast<size_t>(outcome.completion);
            event.is_end = true;
            event.outcome = outcome;
            if (outcome.finish == TSR_FINISH_FAILED && outcome.error) event.error = outcome.error;
            push(std::move(event));
        };
        try {
            tickets_.push_back(service.engine.submit(one));
        } catch (const tessera_api::Error& error) {
            for (auto& ticket : tickets_) ticket.cancel();
            tickets_.clear();  // waits, while the queue is still there
            rethrow(error);
        }
    }
}

Generation::~Generation() {
    if (n_ended_ < n_choices_)
        for (auto& ticket : tickets_) ticket.cancel();
    tickets_.clear();
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
    for (;;) {
        // The client is looked at even when events keep coming.
        if (n_ended_ == n_choices_) return Next::Done;
        bool some;
        {
            const std::lock_guard lock(mutex_);
            some = !events_.empty();
        }
        const Woken woken = peer_.wait(ready_.fd(), some ? 0 : kPatience);
        if (woken == Woken::Gone) {
            service_.metrics.count_disconnect();
            return Next::Gone;
        }
        if (woken == Woken::Stopping) return Next::Stopping;
        ready_.clear();
        const std::lock_guard lock(mutex_);
        if (events_.empty()) {
            if (woken == Woken::Timeout) return Next::Nothing;
            continue;
        }
        event = std::move(events_.front());
        events_.pop_front();
        measure(event);
        if (event.is_end) n_ended_++;
        return Next::Event;
    }
}

void Generation::measure(const Event& event) {
    const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
    if (event.is_end) {
        service_.metrics.observe(Metrics::kQueue, event.outcome.queue_s);
        return;
    }
    if (event.id < 0) return;
    auto& last = last_token_[event.choice];
    if (last)
        service_.metrics.observe(Metrics::kBetweenTokens, seconds(event.when - *last));
    else
        service_.metrics.observe(Metrics::kFirstToken, seconds(event.when - start_));
    last = event.when;
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
    // The first token comes with the end of the prompt.
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
