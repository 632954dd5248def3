// All calls that the chat makes to the library. The engine's callbacks only append to a queue and the
// caller's thread prints, so that a blocked terminal never blocks the engine. Exceptions of tessera.hpp
// become a Result here.
#include "examples/tessera/chat/talker.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>

#include "common/strings.h"
#include "examples/tessera/chat/answer_guard.h"
#include "examples/tessera/console.h"
#include "examples/tessera/default_model.h"
#include "examples/tessera/dialogue_flags.h"

namespace tessera::repl {

namespace {

/// The result of fn(), or its exception as an error.
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
        return fail(ErrorCode::OutOfMemory, "the system has no more memory");
    }
}

/// Events from the engine's thread that the caller's thread has not taken yet.
class Inbox {
  public:
    struct News {
        std::string text;
        int64_t n_read = -1, n_prompt = 0;  ///< progress of the prompt; -1: unchanged
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

    /// The events since the last call. Waits for one, but at most 20 ms, since a signal does not wake it.
    News take() {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return fresh_; });
        fresh_ = false;
        News out = std::move(news_);
        news_ = {};
        return out;
    }

    /// Valid once the request has ended.
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

/// Parses an answer and passes its parts to the listener.
class Reading {
  public:
    Reading(const tessera_api::Prompt& prompt, bool has_tools, const Listener& listener, Message& message)
        : parser_(prompt), has_tools_(has_tools), listener_(listener), message_(message) {}

    Result<void> push(std::string_view text) {
        parser_.push(text);
        return pass_on();
    }
    Result<void> finish() {
        parser_.finish();
        return pass_on();
    }

  private:
    Result<void> pass_on() {
        while (const auto piece = parser_.next()) {
            const bool is_reasoning = piece->kind == TSR_PIECE_REASONING;
            if (piece->kind == TSR_PIECE_CALL) {
                TSR_TRY_VOID(add_call(piece->call));
                continue;
            }
            (is_reasoning ? message_.reasoning : message_.content) += piece->text;
            TSR_TRY_VOID(
                listener_.on_text(is_reasoning ? TSR_PIECE_REASONING : TSR_PIECE_CONTENT, piece->text));
        }
        return {};
    }

    /// Without tools a call is a part of the text.
    Result<void> add_call(const tessera_api::Call& call) {
        const std::string line = call.name + " " + call.arguments + "\n";
        if (!has_tools_) {
            message_.content += line;
            return listener_.on_text(TSR_PIECE_CONTENT, line);
        }
        const std::string id = call.id.empty() ? strf("call_%zu", message_.calls.size() + 1) : call.id;
        message_.calls.push_back({id, call.name, call.arguments});
        return listener_.on_text(TSR_PIECE_CALL, line);
    }

    tessera_api::Parser parser_;
    bool has_tools_;
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
    // The first token is a result of the prompt's pass.
    return decode_s > 0 && n_generated > 1 ? static_cast<double>(n_generated - 1) / decode_s : 0;
}

Talker::Talker(tessera_api::Model model, const std::string& template_source, const TalkerOptions& options)
    : model_(std::move(model)),
      chat_(model_, chat_options(template_source)),
      engine_(model_, engine_options(options)),
      n_ctx_(engine_.stats().n_ctx),
      tools_(options.tools),
      tool_choice_(options.tool_choice) {}

Result<std::unique_ptr<Talker>> Talker::create(const TalkerOptions& options) {
    TSR_TRY(const std::string path, model_path(options.model));
    std::string text;
    if (!options.chat_template.empty()) {
        TSR_TRY(text, named_template(options.chat_template));
    }
    return guarded([&] {
        ByteProgress bar = console::byte_bar("loading");
        tsr_model_options wanted{};
        wanted.n_threads = static_cast<int32_t>(options.n_threads);
        wanted.precise = options.precise;
        wanted.blas = options.blas;
        wanted.check = options.check;
        std::vector<const char*> overrides;
        for (const std::string& override : options.overrides) overrides.push_back(override.c_str());
        wanted.overrides = overrides.data();
        wanted.n_overrides = overrides.size();
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
        bar = nullptr;  // clears the line
        return std::unique_ptr<Talker>(new Talker(std::move(model), text, options));
    });
}

Result<tessera_api::Prompt> Talker::render(const Conversation& conversation, const Settings& settings) const {
    const std::string messages = conversation.dialogue();
    tsr_dialogue dialogue{};
    dialogue.messages = messages.c_str();
    dialogue.enable_thinking = settings.think;
    dialogue.now = conversation.started.c_str();
    if (has_tools()) dialogue.tools = tools_.c_str();
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

Result<std::optional<tessera_api::Grammar>> Talker::constraint(const tessera_api::Prompt& prompt,
                                                               const Settings& settings) {
    const AnswerFormat& format = settings.format;
    if (!format.kind && !has_tools()) {
        constraint_key_.clear();
        constraint_.reset();
        return constraint_;
    }
    const std::string key =
        strf("%d %s ", settings.compact_json, prompt.info().opening) + format.name() + tool_choice_;
    if (constraint_ && key == constraint_key_) return constraint_;
    return guarded([&] {
        if (format.kind) {
            tsr_grammar_options options{};
            options.kind = *format.kind;
            options.text = format.text.data();
            options.n_text = format.text.size();
            options.compact_json = settings.compact_json;
            options.prompt = prompt.get();
            constraint_ = tessera_api::Grammar(options);
        } else {
            tsr_tool_grammar_options options{};
            options.prompt = prompt.get();
            options.compact_json = settings.compact_json;
            const auto keywords = {"", "auto", "required", "none"};
            const bool names_tool =
                std::find(keywords.begin(), keywords.end(), tool_choice_) == keywords.end();
            options.required = names_tool || tool_choice_ == "required";
            options.none = tool_choice_ == "none";
            if (names_tool) options.function = tool_choice_.c_str();
            try {
                constraint_ = tessera_api::Grammar(options);
            } catch (const tessera_api::Error& error) {
                // Calls of this model's format cannot be enforced: then they may come, and are parsed.
                if (error.status() != TSR_UNSUPPORTED || options.required) throw;
                constraint_.reset();
            }
        }
        constraint_key_ = key;
        return constraint_;
    });
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
    TSR_TRY(request.grammar, constraint(prompt, settings));
    if (const char* stop = chat_.info().stop) request.stop.emplace_back(stop);

    // The callbacks write here until the request has ended, which ~Ticket waits for: it is destroyed first.
    Inbox inbox;
    Answered out;
    out.message.from_user = false;
    request.on_delta = [&inbox](const tsr_delta& delta) { inbox.put_text({delta.text, delta.n_text}); };
    request.on_prompt = [&inbox](int32_t, int64_t n_read, int64_t n_prompt) {
        inbox.put_progress(n_read, n_prompt);
    };
    request.on_finish = [&inbox](const tsr_outcome& outcome) { inbox.put_outcome(outcome); };
    const AnswerGuard guard;
    const auto talk = [&]() -> Result<void> {
        Reading reading(prompt, has_tools(), listener, out.message);
        tessera_api::Engine::Ticket ticket = engine_.submit(request);
        for (bool ended = false, cancelled = false; !ended;) {
            const Inbox::News news = inbox.take();
            if (news.n_read >= 0) listener.on_prompt(news.n_read, news.n_prompt);
            const Result<void> shown = news.text.empty() ? Result<void>() : reading.push(news.text);
            if (!shown) {
                ticket.cancel();
                return shown;
            }
            if ((AnswerGuard::interrupted() || AnswerGuard::ending_signal() != 0) && !cancelled) {
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
