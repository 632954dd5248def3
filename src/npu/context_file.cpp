// The container: a header, four small sections that are checksummed and decoded, and the constants, which are
// used in place. Sections are consecutive and page-aligned, so their lengths determine their offsets and none
// can overlap. model_check.cpp validates the model itself. The format is described in
// docs/formats/npu-context.md.
#include "src/npu/context_file.h"

#include <algorithm>
#include <cstring>

#include "common/digest.h"
#include "common/hash.h"
#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/output_file.h"
#include "src/npu/field_io.h"
#include "src/npu/model_check.h"

namespace tessera::npu {

namespace {

constexpr char kMagic[8] = {'T', 'S', 'R', 'N', 'P', 'U', 'C', 'X'};
constexpr uint32_t kVersion = 2;
constexpr uint64_t kPageBytes = 4096;
/// Bytes of one instruction record; zeros follow its fields.
constexpr size_t kRecordBytes = 96;
constexpr const char* kAgain = "compile the model again (`tessera npu compile`)";

enum { kDevice, kModel, kGraphs, kInstructions, kConstants, kSections };
constexpr const char* kSectionNames[kSections] = {"device", "model", "graphs", "instructions", "constants"};

struct Place {
    uint64_t offset, bytes, checksum;
};

/// The file header. Little endian, no padding.
struct Header {
    char magic[8];
    uint32_t version, arch;
    uint64_t file_bytes;
    uint64_t device_hash, model_hash, recipe_hash, ranges_hash;
    Place places[kSections];
    uint64_t checksum;  // of all fields above
};
static_assert(sizeof(Header) == 64 + 24 * kSections && sizeof(Header) <= kPageBytes);

uint64_t checksum_of(std::span<const std::byte> bytes) {
    Hash64 hash;
    hash.add(bytes);
    return hash.value();
}

uint64_t checksum_of(const Header& header) {
    return checksum_of({reinterpret_cast<const std::byte*>(&header), offsetof(Header, checksum)});
}

// The fields of each structure, for reading and writing.

template <class Io>
void record(Io& io, typename Io::template Ref<Instruction> i) {
    const size_t start = io.pos();
    io(i.op, i.frees_operands, i.frees_activations, i.waits[0], i.waits[1], i.waits[2]);
    Instruction::visit(i, [&io](auto& operands) {
        if constexpr (Io::kReads) operands = {};
        std::remove_cvref_t<decltype(operands)>::fields(operands,
                                                        [&io](const char*, auto& field) { io(field); });
    });
    io.pad(start, kRecordBytes);
}

template <class Io>
void fields(Io& io, typename Io::template Ref<Port> port) {
    io(port.name, port.arena_offset, port.dim, port.encoding);
}

/// The stream is in another section; only its length is stored here.
template <class Io>
void fields(Io& io, typename Io::template Ref<DeviceGraph> graph, auto&& n_instructions) {
    io(graph.n_tok, graph.n_ctx, graph.arena_bytes, graph.vtcm_bytes, n_instructions);
    io.list(graph.nodes, 8, [&](auto& node) { io(node.name, node.first); });
    for (auto* ports : {&graph.inputs, &graph.outputs})
        io.list(*ports, 32, [&](auto& port) { fields(io, port); });
}

/// n_instructions(graph) returns the count, or a reference to store it in.
template <class Io, class Count>
void segment_fields(Io& io, typename Io::template Ref<DeviceModel> model, const Count& n_instructions) {
    io.list(model.segments, 17, [&](auto& segment) {
        io(segment.first_op, segment.last_op, segment.attends, segment.session);
        io.list(segment.graphs, 48, [&](auto& graph) { fields(io, graph, n_instructions(graph)); });
    });
}

template <class Io>
void model_fields(Io& io, typename Io::template Ref<DeviceModel> model) {
    io(model.n_ctx);
    // Offsets follow from the sizes.
    io.list(model.sessions, 24, [&](auto& s) { io(s.constants.bytes, s.arena.bytes, s.cache.bytes); });
    io.list(model.caches, 40, [&](auto& c) { io(c.layer, c.session, c.n_head, c.head_dim, c.k, c.v); });
    io.list(model.ops, 12, [&](auto& op) { io(op.name, op.segment, op.reason); });
}

std::vector<std::byte> write_records(const DeviceModel& model) {
    FieldWriter out;
    for (const DeviceSegment& segment : model.segments)
        for (const DeviceGraph& graph : segment.graphs)
            for (const Instruction& instruction : graph.stream) record(out, instruction);
    return out.take();
}

tl::unexpected<Error> damaged(const char* section) {
    return fail(ErrorCode::Malformed, "its section '%s' makes no sense: %s", section, kAgain);
}

/// Reads the header and checks the section sizes against the file size.
Result<Header> read_header(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
        return fail(ErrorCode::Malformed, "expected a model compiled for an NPU, which starts with \"%.8s\"",
                    kMagic);
    ByteReader in(bytes);
    const auto header = in.get<Header>();
    if (in.ok() && header.version != kVersion)
        return fail(ErrorCode::Unsupported, "it has version %u, and this program reads version %u: %s",
                    header.version, kVersion, kAgain);
    if (!in.ok() || header.checksum != checksum_of(header))
        return fail(ErrorCode::Malformed, "its header is damaged or cut off: %s", kAgain);
    if (header.file_bytes != bytes.size())
        return fail(ErrorCode::Malformed, "expected %llu bytes, found %zu: %s",
                    static_cast<unsigned long long>(header.file_bytes), bytes.size(), kAgain);
    uint64_t at = sizeof(Header);
    const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
    for (int i = 0; i < kSections; ++i) {
        const Place& place = header.places[i];
        if (place.offset != gguf::align_up(at, kPageBytes) || place.offset > bytes.size() ||
            place.bytes > bytes.size() - place.offset)
            return fail(ErrorCode::Malformed, "its section '%s' is not where it belongs: %s",
                        kSectionNames[i], kAgain);
        const auto gap = bytes.subspan(at, place.offset - at);
        if (!std::all_of(gap.begin(), gap.end(), is_zero))
            return fail(ErrorCode::Malformed, "there are bytes before its section '%s': %s", kSectionNames[i],
                        kAgain);
        at = place.offset + place.bytes;
    }
    if (at != bytes.size())
        return fail(ErrorCode::Malformed, "there are bytes behind its last section: %s", kAgain);
    return header;
}

Result<void> read_streams(std::span<const std::byte> bytes, const std::vector<uint32_t>& counts,
                          DeviceModel& model) {
    uint64_t n = 0;
    for (const uint32_t count : counts) n += count;
    if (n * kRecordBytes != bytes.size()) return damaged(kSectionNames[kInstructions]);
    FieldReader in(bytes);
    size_t at = 0;
    for (DeviceSegment& segment : model.segments)
        for (DeviceGraph& graph : segment.graphs) {
            graph.stream.resize(counts[at++]);
            for (Instruction& instruction : graph.stream) record(in, instruction);
        }
    return in.ok() ? Result<void>() : damaged(kSectionNames[kInstructions]);
}

/// Reads the model except the fields that come from the device description.
Result<DeviceModel> read_model(const Header& header,
                               const std::array<std::span<const std::byte>, kSections>& parts) {
    DeviceModel model;
    model.device_hash = header.device_hash;
    model.model_hash = header.model_hash;
    model.recipe_hash = header.recipe_hash;
    model.ranges_hash = header.ranges_hash;
    model.constants = parts[kConstants];
    FieldReader in(parts[kModel]);
    model_fields(in, model);
    if (!in.ok() || in.remaining() > 0) return damaged(kSectionNames[kModel]);
    place_sessions(model);
    FieldReader graphs(parts[kGraphs]);
    std::vector<uint32_t> counts;
    segment_fields(graphs, model, [&](DeviceGraph&) -> uint32_t& { return counts.emplace_back(); });
    if (!graphs.ok() || graphs.remaining() > 0) return damaged(kSectionNames[kGraphs]);
    TSR_TRY_VOID(read_streams(parts[kInstructions], counts, model));
    return model;
}

}  // namespace

Result<ContextFile> ContextFile::open(const std::string& path, const Options& options) {
    TSR_TRY(MappedFile mapping, MappedFile::open(path));
    TSR_TRY(ContextFile file, parse(mapping.bytes(), path, options));
    file.mapping_ = std::move(mapping);
    return file;
}

Result<ContextFile> ContextFile::parse(std::span<const std::byte> bytes, const std::string& name,
                                       const Options& options) {
    auto file = read(bytes, options);
    if (!file) return fail_in("'" + printable(name, 400) + "'", std::move(file.error()));
    file->name_ = name;
    return file;
}

Result<ContextFile> ContextFile::read(std::span<const std::byte> bytes, const Options& options) {
    TSR_TRY(const Header header, read_header(bytes));
    ContextFile file;
    file.file_bytes_ = bytes.size();
    std::array<std::span<const std::byte>, kSections> parts;
    for (size_t i = 0; i < kSections; ++i) {
        const Place& place = header.places[i];
        file.sections_[i] = {kSectionNames[i], place.offset, place.bytes};
        parts[i] = bytes.subspan(place.offset, place.bytes);
        if ((i != kConstants || options.check_constants) && checksum_of(parts[i]) != place.checksum)
            return fail(ErrorCode::Malformed, "the checksum of its section '%s' does not match: %s",
                        kSectionNames[i], kAgain);
    }
    auto device = parse_device({reinterpret_cast<const char*>(parts[kDevice].data()), parts[kDevice].size()});
    if (!device) return fail_in("the device that it is for", std::move(device.error()));
    file.device_ = std::move(*device);
    if (header.arch != static_cast<uint64_t>(file.device_.arch)) return damaged(kSectionNames[kDevice]);
    TSR_TRY(file.model_, read_model(header, parts));
    file.model_.device = file.device_.name;
    file.model_.vtcm_bytes = file.device_.vtcm_bytes;
    file.model_.vtcm_span_bytes = file.device_.vtcm_span_bytes;
    auto checked = check_described_model(file.model_, file.device_);
    if (!checked) return fail(checked.error().code, "%s: %s", checked.error().message.c_str(), kAgain);
    return file;
}

Result<void> ContextFile::expect_model(uint64_t model_hash) const {
    if (model_hash == model_.model_hash) return {};
    return fail(ErrorCode::InvalidArgument,
                "'%s' was compiled from a file with the digest %s, and this one's is %s: %s",
                printable(name_, 400).c_str(), to_hex(model_.model_hash).c_str(), to_hex(model_hash).c_str(),
                kAgain);
}

Result<void> ContextFile::expect_device(const HtpDevice& device) const {
    if (device.hash() == device_.hash()) return {};
    std::string differs;
    for (const DeviceField& field : device_fields()) {
        const std::string here = field_text(device_, field), there = field_text(device, field);
        if (here != there)
            differs +=
                (differs.empty() ? "" : ", ") + std::string(field.name) + " " + here + ", not " + there;
    }
    if (differs.empty()) differs = "another name";
    return fail(ErrorCode::InvalidArgument, "'%s' was compiled for the device '%s' (%s), not for '%s': %s",
                printable(name_, 400).c_str(), device_.name.c_str(), differs.c_str(), device.name.c_str(),
                kAgain);
}

Result<void> write_context(const std::string& path, const DeviceModel& model, const HtpDevice& device) {
    TSR_TRY_VOID(check_described_model(model, device));
    const std::string description = device.to_json();
    FieldWriter rest, graphs;
    model_fields(rest, model);
    segment_fields(graphs, model,
                   [](const DeviceGraph& graph) { return static_cast<uint32_t>(graph.stream.size()); });
    const std::vector<std::byte> model_bytes = rest.take(), graph_bytes = graphs.take(),
                                 records = write_records(model);
    const std::array<std::span<const std::byte>, kSections> parts = {
        std::as_bytes(std::span(description)), model_bytes, graph_bytes, records, model.constants};

    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kVersion;
    header.arch = static_cast<uint32_t>(device.arch);
    header.device_hash = model.device_hash;
    header.model_hash = model.model_hash;
    header.recipe_hash = model.recipe_hash;
    header.ranges_hash = model.ranges_hash;
    uint64_t at = sizeof(Header);
    for (size_t i = 0; i < kSections; ++i) {
        const uint64_t offset = gguf::align_up(at, kPageBytes);
        header.places[i] = {offset, parts[i].size(), checksum_of(parts[i])};
        at = offset + parts[i].size();
    }
    header.file_bytes = at;
    header.checksum = checksum_of(header);

    gguf::OutputFile file;
    TSR_TRY_VOID(file.create(path));
    TSR_TRY_VOID(file.append(std::as_bytes(std::span(&header, 1))));
    const std::vector<std::byte> zeros(kPageBytes);
    at = sizeof(Header);
    for (size_t i = 0; i < kSections; ++i) {
        TSR_TRY_VOID(file.append(std::span(zeros).first(header.places[i].offset - at)));
        TSR_TRY_VOID(file.append(parts[i]));
        at = header.places[i].offset + parts[i].size();
    }
    return file.commit();
}

}  // namespace tessera::npu
