// tessera for C++17 and later: owners and exceptions over tessera.h. Header only; the rules of threads and
// lifetimes are those stated there.
#ifndef TESSERA_HPP
#define TESSERA_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera.h>

namespace tessera_api {

/// What a status other than TSR_OK becomes.
class Error : public std::runtime_error {
  public:
    explicit Error(const tsr_error& error) : std::runtime_error(error.message), status_(error.status) {}
    tsr_status status() const { return status_; }

  private:
    tsr_status status_;
};

namespace detail {

/// Calls a function of the C interface with an error behind its arguments; throws Error.
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

    const tsr_model* get() const { return model_.get(); }

  private:
    detail::Owner<tsr_model, tsr_model_free> model_;
};

namespace detail {

/// tsr_param for as long as it lives.
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
    void truncate(std::int64_t n) { detail::call(tsr_session_truncate, session_.get(), n); }
    std::int64_t n_tokens() const { return tsr_session_n_tokens(session_.get()); }
    std::int64_t n_ctx() const { return tsr_session_n_ctx(session_.get()); }
    void save(const std::string& path) const { detail::call(tsr_session_save, session_.get(), path.c_str()); }
    void restore(const std::string& path) { detail::call(tsr_session_restore, session_.get(), path.c_str()); }

  private:
    detail::Owner<tsr_session, tsr_session_free> session_;
};

/// What a request consists of; the fields are those of tsr_request_options.
struct Request {
    std::vector<std::int32_t> tokens;
    std::int64_t max_tokens = 0;
    Sampling sampling;
    std::vector<std::string> stop;
    std::uint32_t flags = 0;
    std::int32_t n_completions = 1;
    std::int32_t n_top = 0;
    double deadline_s = 0;
    /// On the engine's thread; must not throw.
    std::function<void(const tsr_delta&)> on_delta;
    std::function<void(const tsr_outcome&)> on_finish;
};

/// Many requests at once. Any thread.
class Engine {
  public:
    /// A request under way. Waits for its end when it goes, since the callbacks go with it.
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
        options.user = ticket.callbacks_.get();
        if (request.on_delta)
            options.on_delta = [](void* user, const tsr_delta* delta) {
                static_cast<const Request*>(user)->on_delta(*delta);
            };
        if (request.on_finish)
            options.on_finish = [](void* user, const tsr_outcome* outcome) {
                static_cast<const Request*>(user)->on_finish(*outcome);
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

}  // namespace tessera_api

#endif  // TESSERA_HPP
