// Regular expressions of tokenizers through PCRE2, with its JIT compiler where available. Assumes valid UTF-8
// text. Every pattern of the tables matches or fails in time linear in the text it consumes. Next:
// pretokenizers.cpp (the patterns), bpe.cpp (which merges the pieces).
#define PCRE2_CODE_UNIT_WIDTH 8
#include "src/text/splitter.h"

#include <pcre2.h>

#include <limits>

#include "common/strings.h"

namespace tessera::text {

namespace {

constexpr std::string_view kSpaces = R"(\p{Z}\t-\r\x{85})";  // White_Space

template <auto function>
struct Free {
    template <class T>
    void operator()(T* pointer) const {
        function(pointer);
    }
};

using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;

std::string error_text(int code) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(code, message, sizeof message);
    return reinterpret_cast<const char*>(message);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Splitter::Pattern {
    Code code;
    bool is_native = false;  // compiled to machine code
};

struct Splitter::Scratch::State {
    MatchData data{pcre2_match_data_create(1, nullptr)};
    MatchContext context{pcre2_match_context_create(nullptr)};
    std::vector<size_t> stage;  // ends of the pieces before the current pattern
};

Splitter::Scratch::Scratch() : state_(std::make_unique<State>()) {
    // The default limit would refuse runs of millions of characters; matches take linear time anyway.
    if (state_->context) pcre2_set_match_limit(state_->context.get(), std::numeric_limits<uint32_t>::max());
}

Splitter::Scratch::~Scratch() = default;

Splitter::Splitter(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {}
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;
Splitter::~Splitter() = default;

std::string spell_out_spaces(std::string_view pattern) {
    std::string out;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size(); i++) {
        const char c = pattern[i];
        if (c == '\\' && i + 1 < pattern.size()) {
            const char escaped = pattern[++i];
            if (escaped != 's' && escaped != 'S') {
                (out += c) += escaped;
                continue;
            }
            if (!in_class) out += escaped == 's' ? "[" : "[^";
            out += kSpaces;
            if (!in_class) out += ']';
            continue;
        }
        if (c == '[') in_class = true;
        if (c == ']') in_class = false;
        out += c;
    }
    return out;
}

Result<Splitter> Splitter::create(std::span<const std::string_view> patterns) {
    std::vector<Pattern> compiled;
    for (const std::string_view pattern : patterns) {
        const std::string full = spell_out_spaces(pattern);
        int error = 0;
        size_t at = 0;
        Code code(pcre2_compile(units(full), full.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY,
                                &error, &at, nullptr));
        if (!code)
            return fail(ErrorCode::Internal, "pattern '%s': expected a regular expression, found at %zu: %s",
                        printable(full, 400).c_str(), at, error_text(error).c_str());
        // Without a JIT compiler for this processor the results are the same, but slower.
        const bool is_native = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
        compiled.push_back({std::move(code), is_native});
    }
    return Splitter(std::move(compiled));
}

namespace {

/// Appends the ends of the pieces into which one pattern splits `piece`, which begins at `base`.
template <class Match>
Result<void> split_piece(std::string_view piece, size_t base, Match&& match, const size_t* where,
                         std::vector<size_t>& ends) {
    size_t last = 0;
    const auto cut = [&](size_t at) {
        if (at > last) ends.push_back(base + at);
        last = at;
    };
    for (size_t from = 0; from < piece.size();) {
        const int found = match(piece, from);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0)
            return fail(
                found == PCRE2_ERROR_NOMEMORY || found == PCRE2_ERROR_HEAPLIMIT ? ErrorCode::OutOfMemory
                                                                                : ErrorCode::Internal,
                "splitting %s of text: %s", format_bytes(piece.size()).c_str(), error_text(found).c_str());
        cut(where[0]);
        cut(where[1]);
        from = where[1];
        if (where[1] > where[0]) continue;
        do from++;  // no second empty match at the same position
        while (from < piece.size() && (static_cast<uint8_t>(piece[from]) & 0xC0) == 0x80);
    }
    cut(piece.size());
    return {};
}

}  // namespace

Result<void> Splitter::split(std::string_view text, Scratch& scratch, std::vector<size_t>& ends) const {
    Scratch::State& state = *scratch.state_;
    if (!state.data || !state.context) return fail(ErrorCode::OutOfMemory, "splitting text: out of memory");
    ends.assign(1, text.size());
    const size_t* where = pcre2_get_ovector_pointer(state.data.get());
    for (const Pattern& pattern : patterns_) {
        const auto match = [&](std::string_view piece, size_t from) {
            const auto run = pattern.is_native ? pcre2_jit_match : pcre2_match;
            const uint32_t options = pattern.is_native ? 0 : PCRE2_NO_UTF_CHECK;
            return run(pattern.code.get(), units(piece), piece.size(), from, options, state.data.get(),
                       state.context.get());
        };
        std::swap(ends, state.stage);
        ends.clear();
        size_t begin = 0;
        for (const size_t end : state.stage) {
            TSR_TRY_VOID(split_piece(text.substr(begin, end - begin), begin, match, where, ends));
            begin = end;
        }
    }
    return {};
}

}  // namespace tessera::text
