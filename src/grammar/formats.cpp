// Formats as regular expressions, from their RFCs: 3339 (dates, times, durations), 5321 (mail), 4122 (uuid),
// 1123 (host names), 4291 and 5954 (addresses), 3986 (uri), 6901 (JSON pointers). Next: schema.cpp, which
// refuses unsupported ones by name.
#include "src/grammar/formats.h"

#include <algorithm>
#include <cstdint>

#include "common/expected.h"

namespace tessera::grammar {

namespace {

constexpr StringFormat kFormats[] = {
    {"date", true},
    {"time", true},
    {"date-time", true},
    {"duration", true},
    {"email", true},
    {"hostname", true, 253},
    {"ipv4", true},
    {"ipv6", true},
    {"uri", true},
    {"uri-reference", true},
    {"uuid", true},
    {"json-pointer", true},
    {"regex", false},
    {"iri", false},
    {"iri-reference", false},
    {"idn-email", false},
    {"idn-hostname", false},
    {"uri-template", false},
    {"relative-json-pointer", false},
};

std::string date() {
    const std::string leap_year =
        "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    return "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)"
           "|02-(?:0[1-9]|1\\d|2[0-8]))|" +
           leap_year + "-02-29)";
}

/// A leap second is the last second of a day in UTC. Only offsets that are multiples of 15 minutes are
/// allowed for it, as all offsets in use are.
std::string leap_seconds() {
    std::string ways = "23:59:60(?:\\.\\d+)?(?:[Zz]|[+-]00:00)";
    for (int hour = 0; hour < 24; hour++) {
        for (const int minute : {14, 29, 44, 59}) {
            const int later_minute = (minute + 1) % 60, later_hour = (hour + (minute == 59)) % 24;
            ways += strf("|%02d:%02d:60(?:\\.\\d+)?(?:-%02d:%02d|\\+%02d:%02d)", hour, minute, 23 - hour,
                         59 - minute, later_hour, later_minute);
        }
    }
    return "(?:" + ways + ")";
}

std::string time() {
    const std::string hour = "(?:[01]\\d|2[0-3])";
    return "(?:" + hour + ":[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:[Zz]|[+-]" + hour + ":[0-5]\\d)|" +
           leap_seconds() + ")";
}

std::string duration() {
    const std::string seconds = "\\d+S", minutes = "\\d+M(?:" + seconds + ")?",
                      hours = "\\d+H(?:" + minutes + ")?";
    const std::string time = "T(?:" + hours + "|" + minutes + "|" + seconds + ")";
    const std::string days = "\\d+D", months = "\\d+M(?:" + days + ")?", years = "\\d+Y(?:" + months + ")?";
    return "P(?:(?:" + years + "|" + months + "|" + days + ")(?:" + time + ")?|" + time + "|\\d+W)";
}

std::string ipv4() {
    const std::string part = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
    return part + "(?:\\." + part + "){3}";
}

std::string ipv6() {
    const std::string group = "[0-9A-Fa-f]{1,4}";
    const std::string last = "(?:" + group + ":" + group + "|" + ipv4() + ")";  // 32 bits
    std::string ways = "(?:" + group + ":){6}" + last;
    for (int before = 0; before <= 7; before++) {
        // `before` groups, "::", and at most 7 - before groups
        std::string way = before == 0 ? "::" : strf("(?:%s:){%d}:", group.c_str(), before);
        const int after = 7 - before;
        if (after == 1) way += "(?:" + group + ")?";
        if (after >= 2)
            way += strf("(?:(?:%s:){0,%d}%s|%s)?", group.c_str(), after - 2, last.c_str(), group.c_str());
        ways += "|" + way;
    }
    return "(?:" + ways + ")";
}

std::string hostname() {
    const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
    return label + "(?:\\." + label + ")*";
}

std::string email() {
    const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
    const std::string quoted = "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"";
    const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
    return "(?:" + atom + "(?:\\." + atom + ")*|" + quoted + ")@(?:" + label + "(?:\\." + label +
           ")+|\\[(?:" + ipv4() + "|IPv6:" + ipv6() + ")\\])";
}

struct UriParts {
    std::string authority_path, rooted_path, rootless_path, relative_path, tail;
};

UriParts uri_parts() {
    const std::string escaped = "%[0-9A-Fa-f]{2}";
    const std::string plain = "[A-Za-z0-9._~!$&'()*+,;=-]";
    const std::string user = "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" + escaped + ")*@)?";
    const std::string host = "(?:\\[(?:" + ipv6() +
                             "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|(?:" + plain + "|" +
                             escaped + ")*)";
    const std::string in_path = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" + escaped + ")";
    const std::string no_colon = "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" + escaped + ")";
    const std::string more = "(?:/" + in_path + "*)*";
    const std::string in_query = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" + escaped + ")*";
    return {"//" + user + host + "(?::\\d*)?" + more, "/(?:" + in_path + "+" + more + ")?",
            in_path + "+" + more, no_colon + "+" + more, "(?:\\?" + in_query + ")?(?:#" + in_query + ")?"};
}

std::string uri() {
    const UriParts parts = uri_parts();
    return "[A-Za-z][A-Za-z0-9+.-]*:(?:" + parts.authority_path + "|" + parts.rooted_path + "|" +
           parts.rootless_path + ")?" + parts.tail;
}

std::string uri_reference() {
    const UriParts parts = uri_parts();
    return "(?:" + uri() + "|(?:" + parts.authority_path + "|" + parts.rooted_path + "|" +
           parts.relative_path + ")?" + parts.tail + ")";
}

}  // namespace

std::span<const StringFormat> string_formats() { return kFormats; }

const StringFormat* find_format(std::string_view name) {
    const auto at = std::find_if(std::begin(kFormats), std::end(kFormats),
                                 [&](const StringFormat& format) { return format.name == name; });
    return at == std::end(kFormats) ? nullptr : at;
}

std::string format_pattern(std::string_view name) {
    std::string body;
    if (name == "date") body = date();
    if (name == "time") body = time();
    if (name == "date-time") body = date() + "[Tt]" + time();
    if (name == "duration") body = duration();
    if (name == "email") body = email();
    if (name == "hostname") body = hostname();
    if (name == "ipv4") body = ipv4();
    if (name == "ipv6") body = ipv6();
    if (name == "uri") body = uri();
    if (name == "uri-reference") body = uri_reference();
    if (name == "uuid") body = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
    if (name == "json-pointer") body = "(?:/(?:[^/~]|~[01])*)*";
    return "^(?:" + body + ")$";
}

}  // namespace tessera::grammar
