// The loop over a generation's events, for streams and for whole answers. A stream that is dropped destroys
// its generation, which cancels the requests.
#include "server/answer.h"

#include <cmath>
#include <exception>

#include "server/error.h"
#include "server/prompts.h"

namespace tessera::server {

namespace {

struct Reply {
    Request& request;
    std::unique_ptr<Generation> generation;
    std::shared_ptr<Answer> answer;
    size_t n;
    Totals totals;
    bool started = false;

    void pass_on(const Event& event, std::string& out) {
        switch (event.kind) {
            case Event::Kind::Prompt:
                return answer->prompt(event, out);
            case Event::Kind::Token:
                return answer->token(event, out);
            case Event::Kind::End:
                totals.add(event.outcome, event.choice / n);
                return answer->end(event, totals, out);
        }
    }

    /// Passes the next event on; false at the end. Lets the answer's exceptions through.
    bool step(std::string& out) {
        if (!started) {
            started = true;
            answer->start(out);
            return true;
        }
        Event event;
        switch (generation->next(event)) {
            case Generation::Next::Event:
                pass_on(event, out);
                request.n_prompt = totals.n_prompt;
                request.n_generated = totals.n_generated;
                return true;
            case Generation::Next::Nothing:
                out += ": still here\n\n";
                return true;
            case Generation::Next::Done:
                answer->finish(totals, out);
                return false;
            case Generation::Next::Gone:
                throw HttpError(kClientGone, "the client has gone");
            case Generation::Next::Stopping:
                throw HttpError(503, "the server is stopping");
        }
        return false;
    }
};

}  // namespace

void Answer::add_extras(const Event& event, Json& data) const {
    Totals so_far;
    so_far.add(event.outcome, 0);
    if (shows_timings_) data["timings"] = so_far.timings();
    if (event.kind == Event::Kind::Prompt)
        data["prompt_progress"] = {{"total", event.outcome.n_prompt},
                                   {"cache", event.outcome.n_cached},
                                   {"processed", event.n_read},
                                   {"time_ms", std::llround(1000 * event.outcome.prompt_s)}};
}

Response respond(Request& request, std::unique_ptr<Generation> generation, std::shared_ptr<Answer> answer,
                 size_t n, bool stream) {
    auto state =
        std::make_shared<Reply>(Reply{request, std::move(generation), std::move(answer), n, {}, false});
    Response out;
    if (!stream) {
        std::string dropped;
        while (state->step(dropped)) dropped.clear();
        out.body = dump(state->answer->whole(state->totals));
        return out;
    }
    out.content_type = "text/event-stream";
    out.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
    out.stream = [state](std::string& chunk) {
        try {
            return state->step(chunk);
        } catch (const HttpError& error) {
            chunk += sse_error(error.status, error.what());
        } catch (const std::exception&) {
            chunk += sse_error(500, "the answer failed; the server's log has request " + state->request.id);
            state->request.failed = true;
        }
        return false;
    };
    return out;
}

}  // namespace tessera::server
