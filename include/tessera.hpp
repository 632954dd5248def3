// tessera for C++17 and later: owning classes and exceptions over tessera.h. Header only. The thread and
// lifetime rules are those of tessera.h.
#ifndef TESSERA_HPP
#define TESSERA_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera.h>

namespace tessera_api {

/// Thrown for every status other than TSR_OK.
class Error : public std::runtime_error {
  public:
    explicit Error(const tsr_error& error) : std::runtime_error(error.message), status_(error.status) {}
    tsr_status status() const { return status_; }

  private:
    tsr_status status_;
};

namespace detail {

/// Calls a function of the C interface, appending a tsr_error to its arguments; throws Error on failure.
template <class Fn, class... Args>
void call(Fn fn, Args... args) {
    tsr_error error;
    if (fn(args..., &error) != TSR_OK) throw Error(error);
}

template <class T, void (*Free)(T*)>
struct Deleter {
    void operator()(T* object) const { Free(object); }
};
template <class T, void (*Free)(T*)>
using Owner = std::unique_ptr<T, Deleter<T, Free>>;

inline std::string take(tsr_text& text) {
    std::string out(text.data ? text.data : "", text.n);
    tsr_text_free(&text);
    return out;
}

}  // namespace detail

/// Names and values of sampling parameters.
using Sampling = std::vector<std::pair<std::string, std::string>>;

/// A loaded model. Const members from any thread.
class Model {
  public:
    explicit Model(const std::string& path, tsr_model_options options = {}) {
        options.size = sizeof options;
        tsr_model* model = nullptr;
        detail::call(tsr_model_load, path.c_str(), &options, &model);
        model_.reset(model);
    }

    tsr_model_info info() const {
        tsr_model_info out{};
        out.size = sizeof out;
        detail::call(tsr_model_get_info, get(), &out);
        return out;
    }
    std::string metadata(const std::string& key) const {
        tsr_text text{};
        detail::call(tsr_model_metadata, get(), key.c_str(), &text);
        return detail::take(text);
    }
    std::vector<std::int32_t> tokenize(std::string_view text, std::uint32_t flags = TSR_ADD_SPECIAL) const {
        std::size_t n = 0;
        detail::call(tsr_tokenize, get(), text.data(), text.size(), flags, nullptr, 0, &n);
        std::vector<std::int32_t> ids(n);
        detail::call(tsr_tokenize, get(), text.data(), text.size(), flags, ids.data(), ids.size(), &n);
        return ids;
    }
    std::string detokenize(const std::vector<std::int32_t>& ids, std::uint32_t flags = 0) const {
        tsr_text text{};
        detail::call(tsr_detokenize, get(), ids.data(), ids.size(), flags, &text);
        return detail::take(text);
    }
    bool is_end(std::int32_t id) const { return tsr_is_end(get(), id) != 0; }
    /// `infill.size` is set here.
    std::vector<std::int32_t> infill(tsr_infill infill) const {
        infill.size = sizeof infill;
        std::size_t n = 0;
        detail::call(tsr_infill_tokens, get(), &infill, nullptr, 0, &n);
        std::vector<std::int32_t> ids(n);
        detail::call(tsr_infill_tokens, get(), &infill, ids.data(), ids.size(), &n);
        return ids;
    }

    const tsr_model* get() const { return model_.get(); }

  private:
    detail::Owner<tsr_model, tsr_model_free> model_;
};

namespace detail {

/// Owns an array of tsr_param.
class Params {
  public:
    explicit Params(const Sampling& sampling) {
        for (const auto& [name, value] : sampling) rows_.push_back({name.c_str(), value.c_str()});
    }
    const tsr_param* data() const { return rows_.data(); }
    std::size_t size() const { return rows_.size(); }

  private:
    std::vector<tsr_param> rows_;
};

}  // namespace detail

/// A constraint on output. Cheap to copy. Any thread.
class Grammar {
  public:
    static Grammar gbnf(std::string_view text) { return Grammar(TSR_GRAMMAR_GBNF, text); }
    static Grammar regex(std::string_view pattern) { return Grammar(TSR_GRAMMAR_REGEX, pattern); }
    static Grammar json_schema(std::string_view schema) { return Grammar(TSR_GRAMMAR_JSON_SCHEMA, schema); }
    static Grammar json_object() { return Grammar(TSR_GRAMMAR_JSON_OBJECT, {}); }
    /// The sizes of the options are set here.
    explicit Grammar(tsr_grammar_options options) {
        options.size = sizeof options;
        tsr_grammar* grammar = nullptr;
        detail::call(tsr_grammar_create, &options, &grammar);
        grammar_.reset(grammar, tsr_grammar_free);
    }
    explicit Grammar(tsr_tool_grammar_options options) {
        options.size = sizeof options;
        tsr_grammar* grammar = nullptr;
        detail::call(tsr_grammar_create_tools, &options, &grammar);
        grammar_.reset(grammar, tsr_grammar_free);
    }

    const tsr_grammar* get() const { return grammar_.get(); }

  private:
    Grammar(tsr_grammar_kind kind, std::string_view text) : Grammar(options_of(kind, text)) {}
    static tsr_grammar_options options_of(tsr_grammar_kind kind, std::string_view text) {
        tsr_grammar_options options{};
        options.kind = kind;
        options.text = text.data();
        options.n_text = text.size();
        return options;
    }

    std::shared_ptr<tsr_grammar> grammar_;
};

/// A dialogue as text and tokens. Any thread.
class Prompt {
  public:
    /// The pointers are valid as long as this object.
    const tsr_prompt_info& info() const { return info_; }
    std::string text() const { return {info_.text, info_.n_text}; }
    std::vector<std::int32_t> tokens() const { return {info_.tokens, info_.tokens + info_.n_tokens}; }
    /// Constrains tool calls to the prompt's tools, in the model's format.
    Grammar calls(bool required, bool parallel = false, const char* function = nullptr) const {
        tsr_tool_grammar_options options{};
        options.prompt = get();
        options.required = required;
        options.parallel = parallel;
        options.function = function;
        return Grammar(options);
    }
    const tsr_prompt* get() const { return prompt_.get(); }

  private:
    friend class Chat;
    explicit Prompt(tsr_prompt* prompt) : prompt_(prompt) {
        info_.size = sizeof info_;
        detail::call(tsr_prompt_get_info, get(), &info_);
    }

    detail::Owner<tsr_prompt, tsr_prompt_free> prompt_;
    tsr_prompt_info info_{};
};

/// A chat template. Any thread.
class Chat {
  public:
    explicit Chat(const Model& model, tsr_chat_options options = {}) {
        options.size = sizeof options;
        tsr_chat* chat = nullptr;
        detail::call(tsr_chat_create, model.get(), &options, &chat);
        chat_.reset(chat);
    }

    /// The pointers are valid as long as this object.
    tsr_chat_info info() const {
        tsr_chat_info out{};
        out.size = sizeof out;
        detail::call(tsr_chat_get_info, chat_.get(), &out);
        return out;
    }
    /// `dialogue.size` is set here.
    Prompt render(tsr_dialogue dialogue) const {
        dialogue.size = sizeof dialogue;
        tsr_prompt* prompt = nullptr;
        detail::call(tsr_chat_render, chat_.get(), &dialogue, &prompt);
        return Prompt(prompt);
    }
    /// JSON in OpenAI's form: a list of messages, or a request with them.
    Prompt render(const std::string& messages) const {
        tsr_dialogue dialogue{};
        dialogue.messages = messages.c_str();
        return render(dialogue);
    }

  private:
    detail::Owner<tsr_chat, tsr_chat_free> chat_;
};

struct Call {
    std::string id, name, arguments;
};

/// The parts of an answer.
struct Answer {
    std::string content, reasoning, notes;
    std::vector<Call> calls;
};

/// Parses the answer to a prompt as it streams. One thread at a time.
class Parser {
  public:
    /// A piece of an answer: `text` for content, reasoning and arguments, `call` for a call or its beginning.
    struct Piece {
        tsr_piece_kind kind;
        std::string text;
        Call call;
        std::size_t call_index = 0;
    };

    explicit Parser(tsr_parser_options options = {}) {
        options.size = sizeof options;
        tsr_parser* parser = nullptr;
        detail::call(tsr_parser_create, &options, &parser);
        parser_.reset(parser);
    }
    /// stream_calls: as in tsr_parser_options.
    explicit Parser(const Prompt& prompt, bool stream_calls = false)
        : Parser(options_of(prompt, stream_calls)) {}

    void push(std::string_view text) {
        detail::call(tsr_parser_push, parser_.get(), text.data(), text.size());
    }
    void finish() { detail::call(tsr_parser_finish, parser_.get()); }
    /// The next parsed piece; nullopt when more text is needed.
    std::optional<Piece> next() {
        tsr_piece piece{};
        piece.size = sizeof piece;
        detail::call(tsr_parser_next, parser_.get(), &piece);
        if (piece.kind == TSR_PIECE_NONE) return std::nullopt;
        Piece out{piece.kind, {piece.text, piece.n_text}, {}, piece.call_index};
        if (piece.kind == TSR_PIECE_CALL || piece.kind == TSR_PIECE_CALL_BEGIN)
            out.call = {piece.call.id, piece.call.name, piece.call.arguments};
        return out;
    }
    Answer answer() {
        tsr_answer found{};
        found.size = sizeof found;
        detail::call(tsr_parser_answer, parser_.get(), &found);
        Answer out{{found.content, found.n_content}, {found.reasoning, found.n_reasoning}, found.notes, {}};
        for (std::size_t i = 0; i < found.n_calls; ++i)
            out.calls.push_back({found.calls[i].id, found.calls[i].name, found.calls[i].arguments});
        return out;
    }

  private:
    static tsr_parser_options options_of(const Prompt& prompt, bool stream_calls) {
        tsr_parser_options options{};
        options.prompt = prompt.get();
        options.stream_calls = stream_calls ? 1 : 0;
        return options;
    }

    detail::Owner<tsr_parser, tsr_parser_free> parser_;
};

/// One text, token by token. One thread at a time.
class Session {
  public:
    explicit Session(const Model& model, tsr_session_options options = {}, const Sampling& sampling = {}) {
        const detail::Params params(sampling);
        options.size = sizeof options;
        options.sampling = params.data();
        options.n_sampling = params.size();
        tsr_session* session = nullptr;
        detail::call(tsr_session_create, model.get(), &options, &session);
        session_.reset(session);
        n_embd_ = static_cast<std::size_t>(model.info().n_embd);
    }

    void eval(const std::vector<std::int32_t>& tokens) {
        detail::call(tsr_session_eval, session_.get(), tokens.data(), tokens.size());
    }
    std::size_t sync(const std::vector<std::int32_t>& tokens) {
        std::size_t n_kept = 0;
        detail::call(tsr_session_sync, session_.get(), tokens.data(), tokens.size(), &n_kept);
        return n_kept;
    }
    std::int32_t step() {
        std::int32_t id = 0;
        detail::call(tsr_session_step, session_.get(), &id);
        return id;
    }
    std::int32_t sample() {
        std::int32_t id = 0;
        detail::call(tsr_session_sample, session_.get(), &id);
        return id;
    }
    /// Valid until the session is used again.
    std::pair<const float*, std::size_t> logits() const {
        std::pair<const float*, std::size_t> out{};
        detail::call(tsr_session_logits, session_.get(), &out.first, &out.second);
        return out;
    }
    void constrain(const Grammar& grammar) {
        detail::call(tsr_session_constrain, session_.get(), grammar.get());
    }
    void lift_constraint() { detail::call(tsr_session_constrain, session_.get(), nullptr); }
    /// From any thread.
    void cancel() { tsr_session_cancel(session_.get()); }
    std::vector<float> embed(const std::vector<std::int32_t>& tokens, tsr_embed_options options = {}) {
        options.size = sizeof options;
        std::vector<float> out(n_embd_);
        detail::call(tsr_session_embed, session_.get(), tokens.data(), tokens.size(), &options, out.data(),
                     out.size());
        return out;
    }
    void truncate(std::int64_t n) { detail::call(tsr_session_truncate, session_.get(), n); }
    std::int64_t n_tokens() const { return tsr_session_n_tokens(session_.get()); }
    std::int64_t n_ctx() const { return tsr_session_n_ctx(session_.get()); }
    void save(const std::string& path) const { detail::call(tsr_session_save, session_.get(), path.c_str()); }
    void restore(const std::string& path) { detail::call(tsr_session_restore, session_.get(), path.c_str()); }

  private:
    detail::Owner<tsr_session, tsr_session_free> session_;
    std::size_t n_embd_ = 0;
};

/// A request; the fields are those of tsr_request_options.
struct Request {
    std::vector<std::int32_t> tokens;
    std::int64_t max_tokens = 0;
    Sampling sampling;
    std::vector<std::string> stop;
    std::uint32_t flags = 0;
    std::int32_t n_completions = 1;
    std::int32_t n_top = 0;
    double deadline_s = 0;
    std::int32_t priority = 0;
    std::int64_t n_keep = 0;
    std::int64_t n_indent = 0;
    std::string client;
    std::optional<Grammar> grammar;
    std::int64_t max_reasoning = 0;
    const tsr_prompt* prompt = nullptr;  ///< lives until the request is submitted
    std::optional<tsr_embed_options> embed;
    /// On the engine's thread; must not throw.
    std::function<void(const tsr_delta&)> on_delta;
    std::function<void(const tsr_outcome&)> on_finish;
    /// Prompt tokens computed so far, first the cached ones.
    std::function<void(std::int32_t completion, std::int64_t n_read, std::int64_t n_prompt)> on_prompt;
};

/// Many requests at once. Any thread.
class Engine {
  public:
    /// A running request. The destructor waits for its end, because the callbacks are destroyed with it.
    class Ticket {
      public:
        void wait() const { tsr_request_wait(request_.get()); }
        void cancel() { tsr_request_cancel(request_.get()); }
        bool done() const { return tsr_request_done(request_.get()) != 0; }
        ~Ticket() {
            if (request_) wait();
        }
        Ticket(Ticket&&) = default;
        Ticket& operator=(Ticket&&) = delete;

      private:
        friend class Engine;
        Ticket() = default;
        std::unique_ptr<Request> callbacks_;
        detail::Owner<tsr_request, tsr_request_free> request_;
    };

    explicit Engine(const Model& model, tsr_engine_options options = {}) {
        options.size = sizeof options;
        tsr_engine* engine = nullptr;
        detail::call(tsr_engine_create, model.get(), &options, &engine);
        engine_.reset(engine);
    }

    Ticket submit(const Request& request) {
        const detail::Params params(request.sampling);
        std::vector<const char*> stops;
        for (const std::string& stop : request.stop) stops.push_back(stop.c_str());
        Ticket ticket;
        ticket.callbacks_ = std::make_unique<Request>();
        ticket.callbacks_->on_delta = request.on_delta;
        ticket.callbacks_->on_finish = request.on_finish;
        ticket.callbacks_->on_prompt = request.on_prompt;
        tsr_request_options options{};
        options.size = sizeof options;
        options.tokens = request.tokens.data();
        options.n_tokens = request.tokens.size();
        options.max_tokens = request.max_tokens;
        options.sampling = params.data();
        options.n_sampling = params.size();
        options.stop = stops.data();
        options.n_stop = stops.size();
        options.flags = request.flags;
        options.n_completions = request.n_completions;
        options.n_top = request.n_top;
        options.deadline_s = request.deadline_s;
        options.priority = request.priority;
        options.n_keep = request.n_keep;
        options.n_indent = request.n_indent;
        options.client = request.client.c_str();
        if (request.grammar) options.grammar = request.grammar->get();
        options.max_reasoning = request.max_reasoning;
        options.prompt = request.prompt;
        tsr_embed_options embed = request.embed.value_or(tsr_embed_options{});
        embed.size = sizeof embed;
        if (request.embed) options.embed = &embed;
        options.user = ticket.callbacks_.get();
        if (request.on_delta)
            options.on_delta = [](void* user, const tsr_delta* delta) {
                static_cast<const Request*>(user)->on_delta(*delta);
            };
        if (request.on_finish)
            options.on_finish = [](void* user, const tsr_outcome* outcome) {
                static_cast<const Request*>(user)->on_finish(*outcome);
            };
        if (request.on_prompt)
            options.on_prompt = [](void* user, std::int32_t completion, std::int64_t n_read,
                                   std::int64_t n_prompt) {
                static_cast<const Request*>(user)->on_prompt(completion, n_read, n_prompt);
            };
        tsr_request* handle = nullptr;
        detail::call(tsr_engine_submit, engine_.get(), &options, &handle);
        ticket.request_.reset(handle);
        return ticket;
    }

    tsr_engine_stats stats() const {
        tsr_engine_stats out{};
        out.size = sizeof out;
        detail::call(tsr_engine_get_stats, engine_.get(), &out);
        return out;
    }

  private:
    detail::Owner<tsr_engine, tsr_engine_free> engine_;
};

/// All names of a list (tsr_list_name).
inline std::vector<std::string> names(tsr_list list) {
    std::vector<std::string> out;
    const char* name = nullptr;
    while (tsr_list_name(list, out.size(), &name, nullptr) == TSR_OK) out.emplace_back(name);
    return out;
}

/// The sizes of the options are set here.
inline void quantize(const std::string& in, const std::string& out, tsr_quantize_options options) {
    options.size = sizeof options;
    detail::call(tsr_quantize, in.c_str(), out.c_str(), &options);
}
inline std::uint64_t quantized_size(const std::string& in, tsr_quantize_options options) {
    options.size = sizeof options;
    std::uint64_t n_bytes = 0;
    detail::call(tsr_quantized_size, in.c_str(), &options, &n_bytes);
    return n_bytes;
}
inline void convert(const std::string& folder, const std::string& out, tsr_convert_options options = {}) {
    options.size = sizeof options;
    detail::call(tsr_convert, folder.c_str(), out.c_str(), &options);
}
inline tsr_plan plan_memory(const std::string& path, tsr_plan_options options = {}) {
    options.size = sizeof options;
    tsr_plan out{};
    out.size = sizeof out;
    detail::call(tsr_plan_memory, path.c_str(), &options, &out);
    return out;
}
inline void pack(const std::string& in, const std::string& out, tsr_pack_options options = {}) {
    options.size = sizeof options;
    detail::call(tsr_pack, in.c_str(), out.c_str(), &options);
}
inline void unpack(const std::string& in, const std::string& out, tsr_pack_options options = {}) {
    options.size = sizeof options;
    detail::call(tsr_unpack, in.c_str(), out.c_str(), &options);
}

}  // namespace tessera_api

#endif  // TESSERA_HPP
