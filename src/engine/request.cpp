// Checks requests before they are queued, so that every later error is one of the model or the machine.
#include "src/engine/request.h"

#include "common/strings.h"
#include "src/engine/session.h"

namespace tessera::engine {

namespace {

constexpr int32_t kMaxCompletions = 64, kMaxTop = 64;
constexpr size_t kMaxStops = 64, kMaxStopBytes = 4096;

}  // namespace

const char* finish_name(Finish finish) {
    switch (finish) {
        case Finish::EndOfGeneration:
            return "end";
        case Finish::StopString:
            return "stop_string";
        case Finish::Length:
            return "length";
        case Finish::ContextFull:
            return "context_full";
        case Finish::Cancelled:
            return "cancelled";
        case Finish::Deadline:
            return "deadline";
        case Finish::Failed:
            return "failed";
        case Finish::Indent:
            return "indent";
    }
    return "unknown";
}

Result<void> check_request(const Request& request, int64_t n_ctx, int64_t n_vocab) {
    const auto n_prompt = static_cast<int64_t>(request.prompt.size());
    if (n_prompt == 0)
        return fail(ErrorCode::InvalidArgument, "prompt: expected at least one token, found none");
    if (n_prompt > n_ctx)
        return fail(ErrorCode::InvalidArgument,
                    "prompt: %lld tokens do not fit the context of %lld (a longer context: --ctx N)",
                    static_cast<long long>(n_prompt), static_cast<long long>(n_ctx));
    if (request.on_full == ContextPolicy::Error) {
        // The last generated token needs no position.
        const int64_t most = n_ctx - n_prompt + 1;
        if (request.max_tokens < 0)
            return fail(ErrorCode::InvalidArgument,
                        "max_tokens: expected 0 to %lld, since the context may not overflow, found no limit",
                        static_cast<long long>(most));
        TSR_TRY_VOID(check_range("max_tokens that fit the context", request.max_tokens, 0, most));
    }
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

}  // namespace tessera::engine
