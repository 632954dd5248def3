// All that the chat asks of the library. The engine's callbacks only put what they are told into a queue;
// the caller's thread prints, so that a terminal that stands still stops nothing but itself. What tessera.hpp
// throws is caught here and goes on as a Result.
#include "examples/tessera/chat/talker.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>

#include "common/strings.h"
#include "examples/tessera/console.h"
#include "examples/tessera/default_model.h"

namespace tessera::repl {

namespace {

/// What fn() returns, or what it threw.
template <class Fn>
Result<std::invoke_result_t<Fn>> guarded(Fn fn) {
    try {
        return fn();
    } catch (const tessera_api::Error& error) {
        switch (error.status()) {
            case TSR_INVALID_ARGUMENT:
                return fail(ErrorCode::InvalidArgument, "%s", error.what());
            case TSR_OUT_OF_MEMORY:
                return fail(ErrorCode::OutOfMemory, "%s", error.what());
            default:
                return fail(ErrorCode::Io, "%s", error.what());
        }
    } catch (const std::bad_alloc&) {
        return fail(ErrorCode::OutOfMemory, "the memory is full");
    }
}

/// What the engine's thread has told and nobody has seen yet.
class Inbox {
  public:
    struct News {
        std::string text;
        int64_t n_read = -1, n_prompt = 0;  ///< of the prompt; -1: nothing new
        bool ended = false;
    };

    void put_text(std::string_view text) {
        change([&] { news_.text += text; });
    }
    void put_progress(int64_t n_read, int64_t n_prompt) {
        change([&] { news_.n_read = n_read, news_.n_prompt = n_prompt; });
    }
    void put_outcome(const tsr_outcome& outcome) {
        change([&] {
            outcome_ = outcome;
            error_ = outcome.error ? outcome.error : "";
            news_.ended = true;
        });
    }

    /// What came since the last call; waits for it, but not long: a signal wakes nobody.
    News take() {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return fresh_; });
        fresh_ = false;
        News out = std::move(news_);
        news_ = {};
        return out;
    }

    /// Once it has ended.
    const tsr_outcome& outcome() const { return outcome_; }
    const std::string& error() const { return error_; }

  private:
    template <class Fn>
    void change(Fn fn) {
        const std::lock_guard lock(mutex_);
        fn();
        fresh_ = true;
        changed_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool fresh_ = false;
    News news_;
    tsr_outcome outcome_{};
    std::string error_;
};

/// Reads an answer and hands its parts on. A call, which nobody here could make, is a part of the text.
class Reading {
  public:
    Reading(const tessera_api::Prompt& prompt, const Listener& listener, Message& message)
        : parser_(prompt), listener_(listener), message_(message) {}

    Result<void> push(std::string_view text) {
        parser_.push(text);
        return hand_on();
    }
    Result<void> finish() {
        parser_.finish();
        return hand_on();
    }

  private:
    Result<void> hand_on() {
        while (const auto piece = parser_.next()) {
            const bool is_reasoning = piece->kind == TSR_PIECE_REASONING;
            const std::string text = piece->kind == TSR_PIECE_CALL
                                         ? piece->call.name + " " + piece->call.arguments + "\n"
                                         : piece->text;
            (is_reasoning ? message_.reasoning : message_.content) += text;
            TSR_TRY_VOID(listener_.on_text(is_reasoning ? TSR_PIECE_REASONING : TSR_PIECE_CONTENT, text));
        }
        return {};
    }

    tessera_api::Parser parser_;
    const Listener& listener_;
    Message& message_;
};

Cut cut_of(tsr_finish finish) {
    switch (finish) {
        case TSR_FINISH_LENGTH:
            return Cut::Length;
        case TSR_FINISH_CONTEXT_FULL:
            return Cut::Context;
        case TSR_FINISH_CANCELLED:
            return Cut::Interrupt;
        default:
            return Cut::Whole;
    }
}

Result<std::string> template_text(const std::string& chosen) {
    const std::vector<std::string> ours = tessera_api::names(TSR_LIST_CHAT_TEMPLATES);
    if (chosen.empty() || std::find(ours.begin(), ours.end(), chosen) != ours.end()) return chosen;
    auto text = console::read_all(chosen);
    if (text) return text;
    std::string names;
    for (const std::string& name : ours) names += " " + name;
    return fail(text.error().code, "--chat-template: expected a file or one of%s: %s", names.c_str(),
                text.error().message.c_str());
}

tsr_chat_options chat_options(const std::string& text) {
    tsr_chat_options out{};
    if (!text.empty()) out.template_text = text.c_str();
    return out;
}

tsr_engine_options engine_options(const TalkerOptions& options) {
    tsr_engine_options out{};
    out.n_ctx = options.n_ctx;
    out.n_batch = options.n_batch;
    out.max_running = 1;
    out.n_threads = static_cast<int32_t>(options.n_threads);
    if (!options.k_type.empty()) out.k_type = options.k_type.c_str();
    if (!options.v_type.empty()) out.v_type = options.v_type.c_str();
    return out;
}

}  // namespace

double Figures::prompt_rate() const {
    return prompt_s > 0 ? static_cast<double>(n_prompt - n_cached) / prompt_s : 0;
}

double Figures::decode_rate() const {
    // The first token comes out of the prompt.
    return decode_s > 0 && n_generated > 1 ? static_cast<double>(n_generated - 1) / decode_s : 0;
}

Talker::Talker(tessera_api::Model model, const std::string& template_source, const TalkerOptions& options)
    : model_(std::move(model)),
      chat_(model_, chat_options(template_source)),
      engine_(model_, engine_options(options)),
      n_ctx_(engine_.stats().n_ctx) {}

Result<std::unique_ptr<Talker>> Talker::create(const TalkerOptions& options) {
    TSR_TRY(const std::string path, model_path(options.model));
    TSR_TRY(const std::string text, template_text(options.chat_template));
    return guarded([&] {
        ByteProgress bar = console::byte_bar("loading");
        tsr_model_options wanted{};
        wanted.n_threads = static_cast<int32_t>(options.n_threads);
        wanted.precise = options.precise;
        tsr_npu_options npu;
        wanted.npu = options.npu.c_options(npu);
        wanted.user = &bar;
        wanted.progress = [](void* user, uint64_t done, uint64_t total) {
            (*static_cast<ByteProgress*>(user))(done, total);
            return 0;
        };
        tsr_plan_options plan{};
        plan.size = sizeof plan;
        plan.n_ctx = options.n_ctx;
        plan.n_batch = options.n_batch;
        plan.k_type = options.k_type.empty() ? nullptr : options.k_type.c_str();
        plan.v_type = options.v_type.empty() ? nullptr : options.v_type.c_str();
        if (!options.force) wanted.must_fit = &plan;
        tessera_api::Model model(path, wanted);
        bar = nullptr;  // which clears its line
        return std::unique_ptr<Talker>(new Talker(std::move(model), text, options));
    });
}

Result<tessera_api::Prompt> Talker::render(const Conversation& conversation, const Settings& settings) const {
    const std::string messages = conversation.dialogue();
    tsr_dialogue dialogue{};
    dialogue.messages = messages.c_str();
    dialogue.enable_thinking = settings.think;
    dialogue.now = conversation.started.c_str();
    return guarded([&] { return chat_.render(dialogue); });
}

Result<std::vector<int32_t>> Talker::tokenize(std::string_view text) const {
    return guarded([&] { return model_.tokenize(text, 0); });
}

Result<std::string> Talker::spelling(int32_t id) const {
    return guarded([&] {
        const char* bytes = nullptr;
        size_t n = 0;
        tessera_api::detail::call(tsr_token_bytes, model_.get(), id, &bytes, &n);
        return n > 0 ? std::string(bytes, n) : model_.detokenize({id}, TSR_SHOW_SPECIAL);
    });
}

std::string Talker::description() const {
    const tsr_model_info info = model_.info();
    return strf("%s %s, %s", printable(info.architecture).c_str(), info.type, info.isa);
}

Result<Answered> Talker::answer(const Conversation& conversation, const Settings& settings,
                                const Listener& listener) {
    TSR_TRY(const tessera_api::Prompt prompt, render(conversation, settings));
    tessera_api::Request request;
    request.tokens = prompt.tokens();
    if (static_cast<int64_t>(request.tokens.size()) >= n_ctx_)
        return fail(ErrorCode::InvalidArgument,
                    "the context is full: the conversation with this message takes %zu tokens, and %lld fit "
                    "with room for an answer (/undo or /clear make room, --ctx N a longer context)",
                    request.tokens.size(), static_cast<long long>(n_ctx_ - 1));
    request.max_tokens = std::max<int64_t>(settings.n_predict, 0);
    request.sampling.assign(settings.sampling().begin(), settings.sampling().end());
    request.flags = TSR_SHOW_SPECIAL_TEXT;
    if (const char* stop = chat_.info().stop) request.stop.emplace_back(stop);

    // The callbacks write here until the request has ended, which the ticket's end waits for: it goes first.
    Inbox inbox;
    Answered out;
    out.message.from_user = false;
    request.on_delta = [&inbox](const tsr_delta& delta) { inbox.put_text({delta.text, delta.n_text}); };
    request.on_prompt = [&inbox](int32_t, int64_t n_read, int64_t n_prompt) {
        inbox.put_progress(n_read, n_prompt);
    };
    request.on_finish = [&inbox](const tsr_outcome& outcome) { inbox.put_outcome(outcome); };
    const console::InterruptGuard guard;
    const auto talk = [&]() -> Result<void> {
        Reading reading(prompt, listener, out.message);
        tessera_api::Engine::Ticket ticket = engine_.submit(request);
        for (bool ended = false, cancelled = false; !ended;) {
            const Inbox::News news = inbox.take();
            if (news.n_read >= 0) listener.on_prompt(news.n_read, news.n_prompt);
            const Result<void> shown = news.text.empty() ? Result<void>() : reading.push(news.text);
            if (!shown) {
                ticket.cancel();
                return shown;
            }
            if (console::InterruptGuard::interrupted() && !cancelled) {
                ticket.cancel();
                cancelled = true;
            }
            ended = news.ended;
        }
        return reading.finish();
    };
    TSR_TRY(const Result<void> talked, guarded(talk));
    TSR_TRY_VOID(talked);
    const tsr_outcome& outcome = inbox.outcome();
    if (outcome.finish == TSR_FINISH_FAILED) return fail(ErrorCode::Io, "%s", inbox.error().c_str());
    out.message.cut = cut_of(outcome.finish);
    out.figures = {outcome.n_prompt, outcome.n_cached, outcome.n_generated,
                   outcome.prompt_s, outcome.decode_s, outcome.seed};
    return out;
}

}  // namespace tessera::repl
