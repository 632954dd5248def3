#pragma once
// Splits text into valid UTF-8 and other bytes; internal to src/text.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/expected.h"
#include "common/utf8.h"

namespace tessera::text {

/// Length in bytes of the longest valid UTF-8 prefix of a text.
inline size_t valid_prefix(std::string_view text) {
    constexpr uint64_t kHighBits = 0x8080808080808080;
    size_t at = 0;
    while (at < text.size()) {
        uint64_t eight;
        if (at + sizeof eight <= text.size()) {
            std::memcpy(&eight, text.data() + at, sizeof eight);
            if ((eight & kHighBits) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        if (static_cast<uint8_t>(text[at]) < 0x80) {
            at++;
            continue;
        }
        const utf8::Decoded c = utf8::decode(text.substr(at));
        if (!c.valid) break;
        at += c.n_bytes;
    }
    return at;
}

/// Calls `on_valid(run)` for each maximal run of characters and `on_byte(byte)` for each byte between them,
/// in order, until one fails. Results are Result<void>.
template <class OnValid, class OnByte>
Result<void> for_each_valid_run(std::string_view text, OnValid&& on_valid, OnByte&& on_byte) {
    while (!text.empty()) {
        const size_t n = valid_prefix(text);
        if (n > 0) TSR_TRY_VOID(on_valid(text.substr(0, n)));
        text.remove_prefix(n);
        if (text.empty()) break;
        const size_t n_bad = utf8::decode(text).n_bytes;
        for (const char byte : text.substr(0, n_bad)) on_byte(byte);
        text.remove_prefix(n_bad);
    }
    return {};
}

}  // namespace tessera::text
