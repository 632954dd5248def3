// Reads the header of a safetensors file. Everything is checked against the file's size before views of the
// data are returned; hf_recipe.cpp decodes the values.
#include "src/convert/safetensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/bytes.h"
#include "common/json.h"
#include "common/strings.h"

namespace tessera::convert {

namespace {

/// The format's own limit on the header.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDims = 8;

struct DtypeRow {
    std::string_view name;
    Dtype dtype;
    int64_t bytes;
};
/// All dtypes of the format; Other: sizes are checked, values are not read.
constexpr DtypeRow kDtypes[] = {
    {"F64", Dtype::F64, 8},    {"F32", Dtype::F32, 4},         {"F16", Dtype::F16, 2},
    {"BF16", Dtype::BF16, 2},  {"F8_E4M3", Dtype::F8_E4M3, 1}, {"F8_E5M2", Dtype::F8_E5M2, 1},
    {"U8", Dtype::U8, 1},      {"I8", Dtype::Other, 1},        {"BOOL", Dtype::Other, 1},
    {"F8_E8M0", Dtype::U8, 1}, {"I16", Dtype::Other, 2},       {"U16", Dtype::Other, 2},
    {"I32", Dtype::Other, 4},  {"U32", Dtype::Other, 4},       {"I64", Dtype::Other, 8},
    {"U64", Dtype::Other, 8},  {"C64", Dtype::Other, 8},
};

const DtypeRow* find_dtype(std::string_view name) {
    for (const DtypeRow& row : kDtypes)
        if (row.name == name) return &row;
    return nullptr;
}

/// A JSON number as a non-negative integer.
std::optional<int64_t> as_size(const JsonValue& value) {
    if (!value.is(JsonValue::Kind::Number)) return {};
    const auto n = parse_int(value.text);
    return n && *n >= 0 ? n : std::nullopt;
}

Result<std::pair<uint64_t, uint64_t>> read_offsets(const JsonValue& record, uint64_t data_bytes) {
    const JsonValue* offsets = record.find("data_offsets");
    if (!offsets || !offsets->is(JsonValue::Kind::Array) || offsets->items.size() != 2)
        return fail(ErrorCode::Malformed, "data_offsets: expected two numbers");
    const auto begin = as_size(offsets->items[0]), end = as_size(offsets->items[1]);
    if (!begin || !end || *begin > *end || static_cast<uint64_t>(*end) > data_bytes)
        return fail(ErrorCode::Malformed,
                    "data_offsets: expected a range within the %llu bytes of data, found [%s, %s]",
                    static_cast<unsigned long long>(data_bytes),
                    printable(offsets->items[0].text, 24).c_str(),
                    printable(offsets->items[1].text, 24).c_str());
    return std::pair(static_cast<uint64_t>(*begin), static_cast<uint64_t>(*end));
}

Result<SafeTensor> read_record(const JsonValue& record, std::span<const std::byte> data) {
    if (!record.is(JsonValue::Kind::Object))
        return fail(ErrorCode::Malformed, "expected an object, found %s", json_kind_name(record.kind));
    SafeTensor tensor;
    const JsonValue* dtype = record.find("dtype");
    const JsonValue* shape = record.find("shape");
    if (!dtype || !dtype->is(JsonValue::Kind::String))
        return fail(ErrorCode::Malformed, "expected a dtype, found none");
    if (!shape || !shape->is(JsonValue::Kind::Array) || shape->items.size() > kMaxDims)
        return fail(ErrorCode::Malformed, "expected a shape of up to %zu dimensions", kMaxDims);
    const DtypeRow* row = find_dtype(dtype->text);
    if (!row)
        return fail(ErrorCode::Unsupported, "dtype '%s' is unknown", printable(dtype->text, 24).c_str());
    tensor.dtype = row->dtype;
    tensor.dtype_text = dtype->text;
    TSR_TRY(const auto range, read_offsets(record, data.size()));
    const uint64_t n_bytes = range.second - range.first;
    // The product stays below the file's size or is 0, so that it does not overflow.
    uint64_t product = static_cast<uint64_t>(row->bytes);
    bool is_empty = false, fits = true;
    for (const JsonValue& item : shape->items) {
        const auto n = as_size(item);
        if (!n)
            return fail(ErrorCode::Malformed, "shape: expected whole numbers, found '%s'",
                        printable(item.text, 24).c_str());
        tensor.shape.push_back(*n);
        is_empty = is_empty || *n == 0;
        if (*n > 0) {
            fits = fits && product <= n_bytes / static_cast<uint64_t>(*n);
            product = fits ? product * static_cast<uint64_t>(*n) : product;
        }
    }
    if (is_empty ? n_bytes != 0 : !fits || product != n_bytes)
        return fail(ErrorCode::Malformed, "shape %s of %s does not match %llu bytes",
                    tensor.shape_string().c_str(), std::string(row->name).c_str(),
                    static_cast<unsigned long long>(n_bytes));
    tensor.data = data.subspan(static_cast<size_t>(range.first), static_cast<size_t>(n_bytes));
    return tensor;
}

}  // namespace

int64_t dtype_bytes(Dtype dtype) {
    if (dtype == Dtype::Other) return 0;
    return std::find_if(std::begin(kDtypes), std::end(kDtypes),
                        [&](const DtypeRow& row) { return row.dtype == dtype; })
        ->bytes;
}

std::string_view dtype_name(Dtype dtype) {
    return std::find_if(std::begin(kDtypes), std::end(kDtypes),
                        [&](const DtypeRow& row) { return row.dtype == dtype; })
        ->name;
}

int64_t SafeTensor::n_elements() const {
    // If one dimension is 0, the others may be anything.
    if (data.empty()) return 0;
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    return n;
}

std::string SafeTensor::shape_string() const {
    std::string out;
    for (const int64_t n : shape) out += strf("%s%lld", out.empty() ? "" : ", ", static_cast<long long>(n));
    return "[" + out + "]";
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
    SafetensorsFile file;
    file.path_ = path;
    TSR_TRY(file.mapping_, MappedFile::open(path));
    if (auto read = file.read(file.mapping_.bytes()); !read)
        return fail_in(printable(path, 400), std::move(read.error()));
    return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& name) {
    SafetensorsFile file;
    file.path_ = name;
    if (auto read = file.read(bytes); !read) return fail_in(printable(name, 400), std::move(read.error()));
    return file;
}

Result<void> SafetensorsFile::read(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    const auto header_bytes = reader.get<uint64_t>();
    if (!reader.ok())
        return fail(ErrorCode::Malformed, "expected a safetensors file of at least 8 bytes, found %zu",
                    bytes.size());
    if (header_bytes > reader.remaining() || header_bytes > kMaxHeaderBytes)
        return fail(ErrorCode::Malformed,
                    "expected a header of at most %llu bytes, found a length of %llu: truncated, or not a "
                    "safetensors file",
                    static_cast<unsigned long long>(std::min<uint64_t>(reader.remaining(), kMaxHeaderBytes)),
                    static_cast<unsigned long long>(header_bytes));
    const std::string_view header = reader.view(header_bytes);
    auto json = parse_json(header);
    if (!json) return fail_in("header", std::move(json.error()));
    if (!json->is(JsonValue::Kind::Object))
        return fail(ErrorCode::Malformed, "header: expected an object, found %s", json_kind_name(json->kind));
    const std::span<const std::byte> data = bytes.subspan(reader.pos());
    for (auto& [name, record] : json->members) {
        if (name == "__metadata__") continue;
        auto tensor = read_record(record, data);
        if (!tensor) return fail_in("tensor '" + printable(name) + "'", std::move(tensor.error()));
        tensor->name = std::move(name);
        tensors_.push_back(std::move(*tensor));
    }
    std::sort(tensors_.begin(), tensors_.end(), [](const SafeTensor& a, const SafeTensor& b) {
        return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
    });
    const std::byte* at = data.data();
    for (const SafeTensor& tensor : tensors_) {
        if (tensor.data.data() != at)
            return fail(ErrorCode::Malformed,
                        "tensor '%s': its data begin at %zu, but the data before it end at %zu",
                        printable(tensor.name).c_str(), static_cast<size_t>(tensor.data.data() - data.data()),
                        static_cast<size_t>(at - data.data()));
        at = tensor.data.data() + tensor.data.size();
    }
    if (at != data.data() + data.size())
        return fail(ErrorCode::Malformed, "the tensors end at byte %zu of %zu bytes of data",
                    static_cast<size_t>(at - data.data()), data.size());
    return {};
}

void SafetensorsFile::release(std::span<const std::byte> data) const {
    const std::span<const std::byte> all = mapping_.bytes();
    if (all.empty() || data.empty() || data.data() < all.data() || data.data() >= all.data() + all.size())
        return;
    mapping_.release(static_cast<size_t>(data.data() - all.data()), data.size());
}

}  // namespace tessera::convert
