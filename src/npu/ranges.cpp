// Collects ranges and stores them in files. Files are parsed as strictly as device descriptions, because
// their content affects every result of a compiled model.
#include "src/npu/ranges.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "common/digest.h"
#include "common/mapped_file.h"
#include "common/strings.h"
#include "src/npu/json_fields.h"

namespace tessera::npu {

namespace {

constexpr std::string_view kRangesFields[] = {"model", "n_tok", "ranges"};

std::string number(float value) {
    char text[40];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

Result<uint64_t> read_digest(const JsonValue& value) {
    uint64_t digest = 0;
    const char* end = value.text.data() + value.text.size();
    const auto read = std::from_chars(value.text.data(), end, digest, 16);
    if (!value.is(JsonValue::Kind::String) || value.text.size() != 16 || read.ptr != end ||
        read.ec != std::errc())
        return wrong_field("model", "a text of 16 hexadecimal digits", value);
    return digest;
}

Result<float> read_bound(const JsonValue& value, const std::string& place) {
    const auto found = value.is(JsonValue::Kind::Number) ? parse_double(value.text) : std::nullopt;
    if (!found || !(std::fabs(*found) <= static_cast<double>(std::numeric_limits<float>::max())))
        return wrong_field(place, "a number that is a finite float", value);
    return static_cast<float>(*found);
}

Result<Range> read_range(const std::string& name, const JsonValue& value) {
    const std::string place = "ranges." + printable(name);
    const std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789_.";
    if (name.empty() || name.size() > 64 || name.find_first_not_of(allowed) != std::string::npos)
        return fail(ErrorCode::Malformed,
                    "'%s': expected a name of 1 to 64 small letters, digits, '_' and '.'", place.c_str());
    if (!value.is(JsonValue::Kind::Array) || value.items.size() != 2)
        return wrong_field(place, "an array of two numbers", value);
    Range range;
    TSR_TRY(range.min, read_bound(value.items[0], place));
    TSR_TRY(range.max, read_bound(value.items[1], place));
    if (range.min > range.max) return wrong_field(place, "the smaller number first", value);
    return range;
}

}  // namespace

Result<Range> Ranges::find(const std::string& value) const {
    const auto found = of.find(value);
    if (found == of.end())
        return fail(ErrorCode::NotFound, "the activation '%s' has no range: it was not calibrated",
                    printable(value).c_str());
    return found->second;
}

std::string Ranges::to_json() const {
    std::string out =
        "{\"model\": \"" + to_hex(model) + "\", \"n_tok\": " + std::to_string(n_tok) + ", \"ranges\": {";
    const char* separator = "\n";
    for (const auto& [name, range] : of) {
        out += separator + std::string("  \"") + name + "\": [" + number(range.min) + ", " +
               number(range.max) + "]";
        separator = ",\n";
    }
    return out + "\n}}\n";
}

uint64_t Ranges::hash() const {
    const std::string text = to_json();
    Xxh64 digest;
    digest.add(std::as_bytes(std::span(text)));
    return digest.value();
}

Result<Ranges> parse_ranges(std::string_view json) {
    TSR_TRY(const JsonValue root, parse_json(json));
    TSR_TRY_VOID(check_object(root));
    for (const auto& [name, value] : root.members)
        if (std::find(std::begin(kRangesFields), std::end(kRangesFields), name) == std::end(kRangesFields))
            return unknown_field(name, kRangesFields);
    for (const std::string_view field : kRangesFields)
        if (!root.find(field)) return missing_field(field);
    Ranges ranges;
    TSR_TRY(ranges.model, read_digest(*root.find("model")));
    const JsonValue &n_tok = *root.find("n_tok"), &list = *root.find("ranges");
    const auto n = n_tok.is(JsonValue::Kind::Number) ? parse_int(n_tok.text) : std::nullopt;
    if (!n || *n < 1) return wrong_field("n_tok", "an integer of at least 1", n_tok);
    ranges.n_tok = *n;
    if (!list.is(JsonValue::Kind::Object)) return wrong_field("ranges", "an object", list);
    for (const auto& [name, value] : list.members) {
        TSR_TRY(ranges.of[name], read_range(name, value));
    }
    return ranges;
}

Result<Ranges> read_ranges(const std::string& path, uint64_t model) {
    const std::string shown = printable(path, 400);
    TSR_TRY(const MappedFile file, MappedFile::open(path));
    const auto bytes = file.bytes();
    auto ranges = parse_ranges({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!ranges) return fail_in(shown, std::move(ranges.error()));
    if (ranges->model == model) return ranges;
    return fail(ErrorCode::InvalidArgument,
                "'%s': expected the ranges of this model, whose digest is %s, found those of %s (tessera npu "
                "calibrate)",
                shown.c_str(), to_hex(model).c_str(), to_hex(ranges->model).c_str());
}

RangeCollector::RangeCollector(const Graph& graph) : graph_(graph), seen_(graph.values.size()) {}

void RangeCollector::add(GraphValueId id, std::span<const float> x) {
    if (x.empty()) return;
    Seen& seen = seen_[static_cast<size_t>(id.at)];
    if (!seen.any) seen.range = {x.front(), x.front()};
    seen.any = true;
    for (const float value : x) {
        seen.is_finite &= std::isfinite(value);
        seen.range.min = std::min(seen.range.min, value);
        seen.range.max = std::max(seen.range.max, value);
    }
}

Result<Ranges> RangeCollector::take(uint64_t model, int64_t n_tok) const {
    Ranges ranges{.model = model, .n_tok = n_tok, .of = {}};
    for (size_t i = 0; i < seen_.size(); ++i) {
        const GraphValue& value = graph_.values[i];
        if (!seen_[i].is_finite)
            return fail(ErrorCode::Malformed, "the activation '%s' is not finite", value.name.c_str());
        if (seen_[i].any) ranges.of[value.name] = seen_[i].range;
    }
    return ranges;
}

}  // namespace tessera::npu
