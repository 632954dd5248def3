// Uses PCRE2, as src/text/splitter.cpp does. Patterns may come from untrusted files, so every resource has a
// limit.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/pattern.h"

#include <pcre2.h>

#include <atomic>

#include "common/log.h"
#include "common/strings.h"

namespace tessera {

namespace {

constexpr size_t kMaxBytes = 1024;
/// Far more than practical patterns take for a name; below a millisecond, since a file may hold many patterns
/// for many names.
constexpr uint32_t kMaxSteps = 50'000, kMaxHeapKib = 16 << 10;

PCRE2_SPTR units(const std::string& text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Pattern::Compiled {
    std::string text;
    pcre2_code* code = nullptr;
    pcre2_match_context* context = nullptr;
    mutable std::atomic<bool> has_warned = false;

    Compiled() = default;
    ~Compiled() {
        pcre2_match_context_free(context);
        pcre2_code_free(code);
    }
    Compiled(const Compiled&) = delete;
    Compiled& operator=(const Compiled&) = delete;
};

Result<Pattern> Pattern::compile(const std::string& text) {
    if (text.size() > kMaxBytes)
        return fail(ErrorCode::InvalidArgument, "pattern '%s': expected up to %zu bytes, found %zu",
                    printable(text, 40).c_str(), kMaxBytes, text.size());
    const auto compiled = std::make_shared<Compiled>();
    compiled->text = text;
    int error = 0;
    size_t at = 0;
    compiled->code = pcre2_compile(units(text), text.size(), PCRE2_NEVER_UTF, &error, &at, nullptr);
    if (!compiled->code) {
        PCRE2_UCHAR reason[256];
        pcre2_get_error_message(error, reason, sizeof reason);
        return fail(ErrorCode::InvalidArgument,
                    "pattern '%s': expected a regular expression, found at byte %zu: %s",
                    printable(text).c_str(), at, reinterpret_cast<const char*>(reason));
    }
    compiled->context = pcre2_match_context_create(nullptr);
    if (!compiled->context)
        return fail(ErrorCode::OutOfMemory, "pattern '%s': out of memory", printable(text).c_str());
    pcre2_set_match_limit(compiled->context, kMaxSteps);
    pcre2_set_heap_limit(compiled->context, kMaxHeapKib);
    return Pattern(compiled);
}

bool Pattern::found_in(const std::string& name) const {
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    const int found =
        data ? pcre2_match(compiled_->code, units(name), name.size(), 0, 0, data, compiled_->context)
             : PCRE2_ERROR_NOMEMORY;
    pcre2_match_data_free(data);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH && !compiled_->has_warned.exchange(true))
        log::warn("pattern '%s': looking for it in '%s' takes too long, so it is taken as not found there",
                  printable(compiled_->text).c_str(), printable(name).c_str());
    return found >= 0;
}

}  // namespace tessera
