// Filters that return text. As in Jinja, most take any value and convert it with str().
#include <algorithm>
#include <cmath>

#include "common/utf8.h"
#include "src/text/jinja/builtins.h"
#include "src/text/jinja/chars.h"
#include "src/text/jinja/format.h"
#include "src/text/jinja/json.h"
#include "src/text/jinja/lexer.h"
#include "src/text/jinja/markup.h"
#include "src/text/jinja/numbers.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

using V = const Value&;
using B = const Bound&;
using Out = Result<Value>;

// Jinja's title: words begin after white space, brackets and hyphens only.
std::string title_words(std::string_view text) {
    static constexpr std::string_view kBreaks = "-({[<";
    std::string out;
    bool begins = true;
    for (size_t at = 0; at < text.size();) {
        const utf8::Decoded c = utf8::decode(text.substr(at));
        const std::string_view bytes = text.substr(at, c.n_bytes);
        out += begins ? upper(bytes) : lower(bytes);
        begins = space_at(text, at) > 0 || kBreaks.find(bytes) != std::string_view::npos;
        at += c.n_bytes;
    }
    return out;
}

std::string same(std::string_view text) { return std::string(text); }

template <std::string (*map)(std::string_view)>
Out mapped_str(Runtime& runtime, V self, B) {
    TSR_TRY(const std::string text, runtime.str(self));
    TSR_TRY_VOID(runtime.make_room(text.size() * 6));
    return runtime.text_like(self, map(text));
}

// Markup becomes text.
Out title_cased(Runtime& runtime, V self, B) {
    TSR_TRY(const std::string text, runtime.str(self));
    TSR_TRY_VOID(runtime.make_room(text.size() * 6));
    return runtime.text(title_words(text));
}

Out safe(Runtime& runtime, V self, B) {
    if (self.is_markup()) return self;
    TSR_TRY(std::string text, runtime.str(self));
    return runtime.markup(std::move(text));
}

Out escaped(Runtime& runtime, V self, B) { return escape(runtime, self); }

Out force_escape(Runtime& runtime, V self, B) {
    TSR_TRY(std::string text, runtime.str(self));
    return escape(runtime, runtime.text(std::move(text)));
}

// For filters to which Jinja passes the value without str().
Result<std::string> text_only(const char* filter, V self) {
    if (self.is_text()) return self.as_text();
    return fail(ErrorCode::InvalidArgument, "%s: expected text, found %s", filter, self.type_name());
}

Out trim(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string text, runtime.str(self));
    const std::string* set = nullptr;
    if (args[0] && !args[0]->is_none()) {
        TSR_TRY_VOID(text_argument(args, 0, "chars", ""));
        set = &args[0]->as_text();
        TSR_TRY_VOID(runtime.charge_bytes(text.size() * (set->size() + 1)));
    }
    return runtime.text_like(self, std::string(strip(text, true, true, set)));
}

Out replace(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string text, runtime.str(self));
    TSR_TRY(const std::string old, runtime.str(*args[0]));
    TSR_TRY(const std::string fresh, runtime.str(*args[1]));
    int64_t most = -1;
    if (!args.or_none(2).is_none()) {
        TSR_TRY(most, int_argument(args, 2, "count", -1));
    }
    std::string out;
    size_t at = 0;
    for (int64_t n = 0; most < 0 || n < most; n++) {
        // An empty text occurs before each character and at the end.
        const size_t from =
            old.empty() && n > 0 ? at + char_offset(std::string_view(text).substr(at), 1) : at;
        if (old.empty() && n > 0 && at >= text.size()) break;
        TSR_TRY(const size_t found, old.empty() ? Result<size_t>(from) : runtime.find(text, old, at));
        if (found == std::string::npos) break;
        TSR_TRY_VOID(runtime.check_room(out.size() + (found - at) + fresh.size()));
        TSR_TRY_VOID(runtime.charge_bytes(fresh.size()));
        out.append(text, at, found - at);
        out += fresh;
        at = found + old.size();
    }
    out.append(text, at);
    return runtime.text(std::move(out));
}

Out indent(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string text, text_only("indent", self));
    std::string prefix;
    if (args[0] && args[0]->is_text()) {
        prefix = args[0]->as_text();
    } else {
        TSR_TRY(const int64_t width, int_argument(args, 0, "width", 4));
        TSR_TRY_VOID(runtime.make_room(static_cast<size_t>(std::max<int64_t>(width, 0))));
        prefix.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    const bool first = flag_argument(args, 1, false), blank = flag_argument(args, 2, false);
    const auto n_lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    // Division, since the product may overflow.
    const bool fits = prefix.size() <= runtime.room() / n_lines;
    TSR_TRY_VOID(runtime.make_room(fits ? text.size() + prefix.size() * n_lines : SIZE_MAX));
    std::string out;
    for (size_t at = 0, line = 0; at <= text.size(); line++) {
        const size_t end = std::min(text.find('\n', at), text.size());
        if (line == 0 ? first : blank || end > at) out += prefix;
        out.append(text, at, end - at);
        if (end < text.size()) out += '\n';
        at = end + 1;
    }
    return runtime.text_like(self, std::move(out));
}

Out center(Runtime& runtime, V self, B args) {
    TSR_TRY(const Value text, mapped_str<same>(runtime, self, args));
    TSR_TRY(const Value method, runtime.attribute(text, "center"));
    return runtime.call(method, {{args[0] ? *args[0] : Value::integer(80)}, {}});
}

Out truncate(Runtime& runtime, V self, B args) {
    if (self.is_undefined()) return self;
    TSR_TRY(const std::string text, text_only("truncate", self));
    TSR_TRY(const int64_t length, int_argument(args, 0, "length", 255));
    const bool kill_words = flag_argument(args, 1, false);
    TSR_TRY(const std::string_view end, text_argument(args, 2, "end", "..."));
    TSR_TRY(const int64_t leeway, int_argument(args, 3, "leeway", 5));
    const auto n_end = static_cast<int64_t>(count_before(end, end.size()));
    if (length < n_end)
        return fail(ErrorCode::InvalidArgument, "expected length >= %lld, got %lld",
                    static_cast<long long>(n_end), static_cast<long long>(length));
    if (leeway < 0) return fail(ErrorCode::InvalidArgument, "expected leeway >= 0");
    const auto n = static_cast<int64_t>(count_before(text, text.size()));
    if (n - leeway <= length) return self;
    std::string cut = text.substr(0, char_offset(text, static_cast<size_t>(length - n_end)));
    if (!kill_words) cut = cut.substr(0, std::min(cut.rfind(' '), cut.size()));
    return runtime.text_like(self, cut + (self.is_markup() ? escape_html(end) : std::string(end)));
}

// Breaks words into lines of at most `width` characters as Python's textwrap does (not at hyphens).
std::string wrap_line(std::string_view line, size_t width, bool break_long, const std::string& separator) {
    std::string out, row;
    size_t n_row = 0;
    const auto flush = [&] {
        while (!row.empty() && row.back() == ' ') row.pop_back();
        if (!out.empty()) out += separator;
        out += row;
        row.clear();
        n_row = 0;
    };
    for (size_t at = 0; at < line.size();) {
        const bool is_space = line[at] == ' ';
        size_t end = at;
        while (end < line.size() && (line[end] == ' ') == is_space) end++;
        std::string_view word = line.substr(at, end - at);
        at = end;
        size_t n = count_before(word, word.size());
        if (n_row + n > width && n_row > 0) {
            if (is_space) continue;
            flush();
        }
        if (is_space && n_row == 0 && !out.empty()) continue;
        while (break_long && n > width) {
            const size_t cut = char_offset(word, width);
            row += word.substr(0, cut);
            flush();
            word.remove_prefix(cut);
            n -= width;
        }
        row += word;
        n_row += n;
    }
    if (!row.empty()) flush();
    return out;
}

Out wordwrap(Runtime& runtime, V self, B args) {
    TSR_TRY(const std::string text, text_only("wordwrap", self));
    TSR_TRY(const int64_t width, int_argument(args, 0, "width", 79));
    if (width <= 0) return fail(ErrorCode::InvalidArgument, "invalid width (must be > 0)");
    const bool break_long = flag_argument(args, 1, true);
    std::string separator = "\n";
    if (!args.or_none(2).is_none()) {
        TSR_TRY(const std::string_view given, text_argument(args, 2, "wrapstring", "\n"));
        separator = given;
    }
    TSR_TRY_VOID(runtime.charge_bytes(text.size() * 16));
    if (separator.size() > 4096)
        return fail(ErrorCode::InvalidArgument, "wrapstring: expected at most 4096 bytes");
    TSR_TRY_VOID(runtime.make_room(text.size() * (separator.size() + 1)));
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        if (at > 0) out += separator;
        out += wrap_line(std::string_view(text).substr(at, end - at), static_cast<size_t>(width), break_long,
                         separator);
        at = end + 1;
    }
    return runtime.text(std::move(out));
}

Out word_count(Runtime& runtime, V self, B) {
    TSR_TRY(const std::string text, runtime.str(self));
    Integer n = 0;
    bool in_word = false;
    for (const std::string_view c : characters(text)) {
        const uint32_t code = utf8::decode(c).code_point;
        const bool is_word = is_alpha_char(code) || is_digit_char(code) || code == '_';
        n += is_word && !in_word;
        in_word = is_word;
    }
    return Value::integer(n);
}

Out strip_tags(Runtime& runtime, V self, B) {
    TSR_TRY(const std::string text, runtime.str(self));
    std::string out;
    bool pending_space = false;
    for (size_t at = 0; at < text.size();) {
        if (text[at] == '<') {
            const bool is_comment = text.compare(at, 4, "<!--") == 0;
            TSR_TRY(const size_t end, runtime.find(text, is_comment ? "-->" : ">", at));
            if (end != std::string::npos) {
                at = end + (is_comment ? 3 : 1);
                continue;
            }
        }
        const size_t n_space = space_at(text, at);
        if (n_space > 0) {
            pending_space = true;
            at += n_space;
            continue;
        }
        if (pending_space && !out.empty()) out += ' ';
        pending_space = false;
        out += text[at++];
    }
    return runtime.text(std::move(out));
}

// Percent encoding; paths keep `/`, queries encode spaces as plus signs.
std::string url_quoted(std::string_view text, bool is_query) {
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           std::string_view("_.-~").find(c) != std::string_view::npos ||
                           (c == '/' && !is_query);
        if (plain) {
            out += c;
        } else if (c == ' ' && is_query) {
            out += '+';
        } else {
            out += strf("%%%02X", static_cast<unsigned char>(c));
        }
    }
    return out;
}

Out url_encode(Runtime& runtime, V self, B) {
    if (!self.is_dict() && !self.is_sequence()) {
        TSR_TRY(const std::string text, runtime.str(self));
        TSR_TRY_VOID(runtime.make_room(text.size() * 3));
        return runtime.text(url_quoted(text, false));
    }
    Value pairs = self;
    if (self.is_dict()) {
        TSR_TRY(const Value method, runtime.attribute(self, "items"));
        TSR_TRY(pairs, runtime.call(method, {}));
    }
    TSR_TRY(const Value::Items items, runtime.walk(pairs));
    std::string out;
    for (const Value& item : items) {
        TSR_TRY(const Value::Items pair, runtime.walk(item));
        if (pair.size() != 2) return fail(ErrorCode::InvalidArgument, "urlencode: expected pairs");
        for (size_t i = 0; i < 2; i++) {
            TSR_TRY(const std::string text, runtime.str(pair[i]));
            TSR_TRY_VOID(runtime.make_room(out.size() + text.size() * 3));
            out += i > 0 ? "=" : out.empty() ? "" : "&";
            out += url_quoted(text, true);
        }
    }
    return runtime.text(std::move(out));
}

Out format_values(Runtime& runtime, V self, B args) {
    TSR_TRY(std::string text, runtime.str(self));
    const Value format = runtime.text_like(self, std::move(text));
    const Args& raw = args.raw();
    if (!raw.positional.empty() && !raw.named.empty())
        return fail(ErrorCode::InvalidArgument,
                    "can't handle positional and keyword arguments at the same time");
    if (raw.named.empty()) return format_percent(runtime, format, runtime.tuple(raw.positional));
    Value::Pairs pairs;
    for (const auto& [name, value] : raw.named) pairs.emplace_back(runtime.text(name), value);
    return format_percent(runtime, format, Value::dict(std::move(pairs), runtime.heap()));
}

Out file_size(Runtime& runtime, V self, B args) {
    double bytes = 0;
    if (self.is_number()) {
        bytes = self.as_double();
    } else if (const auto read = self.is_text() ? read_float(self.as_text()) : std::nullopt) {
        bytes = *read;
    } else {
        return fail(ErrorCode::InvalidArgument, "filesizeformat: expected a number, found %s",
                    self.type_name());
    }
    const bool binary = flag_argument(args, 0, false);
    const double base = binary ? 1024 : 1000;
    static constexpr const char* kUnits[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                                 {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    if (bytes == 1) return runtime.text("1 Byte");
    if (bytes < base) return runtime.text(strf("%.0f Bytes", std::trunc(std::max(bytes, -1e15))));
    double unit = base;
    size_t i = 0;
    for (; i < 7 && bytes >= unit * base; i++) unit *= base;
    return runtime.text(strf("%.1f %s", bytes / unit, kUnits[binary][i]));
}

Out to_json(Runtime& runtime, V self, B args) {
    JsonStyle style;
    style.ensure_ascii = flag_argument(args, 0, false);
    if (!args.or_none(1).is_none()) {
        style.has_indent = true;
        if (args[1]->is_text()) {
            style.indent = args[1]->as_text();
        } else {
            TSR_TRY(const int64_t width, int_argument(args, 1, "indent", 0));
            if (width > 4096) return fail(ErrorCode::InvalidArgument, "indent: expected at most 4096");
            style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
        }
        style.item_separator = ",";
    }
    if (!args.or_none(2).is_none()) {
        TSR_TRY(const Value::Items pair, runtime.walk(*args[2]));
        if (pair.size() != 2 || !pair[0].is_text() || !pair[1].is_text())
            return fail(ErrorCode::InvalidArgument, "separators: expected two texts");
        style.item_separator = pair[0].as_text();
        style.key_separator = pair[1].as_text();
    }
    style.sort_keys = flag_argument(args, 3, false);
    style.max_bytes = runtime.room();
    TSR_TRY(std::string text, dump_json(self, style));
    TSR_TRY_VOID(runtime.charge_bytes(text.size()));
    return runtime.text(std::move(text));
}

constexpr Builtin kTextFilters[] = {
    {"upper", "", mapped_str<upper>},
    {"lower", "", mapped_str<lower>},
    {"capitalize", "", mapped_str<capitalize>},
    {"title", "", title_cased},
    {"string", "", mapped_str<same>},
    {"safe", "", safe},
    {"escape", "", escaped},
    {"e", "", escaped},
    {"forceescape", "", force_escape},
    {"trim", "chars?", trim},
    {"replace", "old new count?", replace},
    {"indent", "width? first? blank?", indent},
    {"center", "width?", center},
    {"truncate", "length? killwords? end? leeway?", truncate},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", wordwrap},
    {"wordcount", "", word_count},
    {"striptags", "", strip_tags},
    {"urlencode", "", url_encode},
    {"format", "*", format_values},
    {"filesizeformat", "binary?", file_size},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", to_json},
};

}  // namespace

BuiltinTable text_filters() { return kTextFilters; }

}  // namespace tessera::jinja
