// Converts tensor by tensor, in chunks of whole row groups: a chunk is packed in parallel into a buffer and
// written, then its input pages are released. pack.cpp decides which tensors are packed;
// ggml-like/gguf/packed.h defines the container.
#include "src/model/packed_file.h"

#include <algorithm>
#include <vector>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/packed.h"
#include "ggml-like/gguf/writer.h"
#include "src/model/input_pieces.h"
#include "src/model/pack.h"

namespace tessera {

namespace {

constexpr size_t kPieceBytes = InputPieces::kPieceBytes;
/// Row groups per work item.
constexpr int64_t kUnitGroups = 16;

class Repacker {
  public:
    /// layouts: for every tensor of the output.
    Repacker(const gguf::File& in, std::vector<Layout> layouts, const RepackContext& context)
        : in_(in),
          layouts_(std::move(layouts)),
          context_(context),
          pieces_(in, context.pool, context.progress) {}

    /// `writer` has its keys already; tensors are added here.
    Result<void> write_tensors(gguf::Writer& writer);

  private:
    Result<void> convert(const gguf::TensorInfo& tensor, Layout to, uint64_t n_bytes, gguf::Writer& writer);
    Result<void> convert_matrix(const gguf::TensorInfo& tensor, Layout to, std::span<const std::byte> matrix,
                                gguf::Writer& writer);

    const gguf::File& in_;
    const std::vector<Layout> layouts_;
    const RepackContext& context_;
    std::vector<std::byte> buffer_;
    InputPieces pieces_;
};

Result<void> Repacker::convert_matrix(const gguf::TensorInfo& tensor, Layout to,
                                      std::span<const std::byte> matrix, gguf::Writer& writer) {
    const kernels::PackedKernels& packed = context_.kernels.packed[static_cast<uint32_t>(tensor.type)];
    const int64_t n_in = tensor.n_cols(), n_out = tensor.shape[tensor.n_dims - 2];
    const auto row_bytes = static_cast<size_t>(type_info(tensor.type).row_bytes(n_in));
    const size_t group_bytes = kernels::kGroupRows * row_bytes;
    const int64_t n_groups = (n_out + kernels::kGroupRows - 1) / kernels::kGroupRows;
    const auto n_piece = std::max<int64_t>(1, static_cast<int64_t>(kPieceBytes / group_bytes));
    buffer_.resize(std::max(buffer_.size(), static_cast<size_t>(std::min(n_piece, n_groups)) * group_bytes));
    for (int64_t first = 0; first < n_groups; first += n_piece) {
        const int64_t n = std::min(n_piece, n_groups - first);
        const size_t from = static_cast<size_t>(first) * group_bytes;
        context_.pool.run((n + kUnitGroups - 1) / kUnitGroups, [&](int64_t unit, int) {
            for (int64_t g = unit * kUnitGroups; g < std::min((unit + 1) * kUnitGroups, n); g++) {
                const size_t at = static_cast<size_t>(g) * group_bytes;
                const std::byte* source = matrix.data() + from + at;
                const int64_t row = (first + g) * kernels::kGroupRows;
                const auto n_rows = static_cast<int>(std::min<int64_t>(kernels::kGroupRows, n_out - row));
                if (to == Layout::Packed)
                    packed.pack(source, row_bytes, n_rows, n_in, buffer_.data() + at);
                else
                    packed.unpack(source, n_rows, n_in, buffer_.data() + at, row_bytes);
            }
        });
        // Both sides have the same bytes, except for padding rows in the last group.
        const size_t n_bytes = static_cast<size_t>(n) * group_bytes;
        const size_t in_rows = std::min(n_bytes, static_cast<size_t>(n_out) * row_bytes - from);
        TSR_TRY_VOID(pieces_.done(matrix.subspan(from, to == Layout::Packed ? in_rows : n_bytes)));
        TSR_TRY_VOID(writer.write({buffer_.data(), to == Layout::Packed ? n_bytes : in_rows}));
    }
    return {};
}

Result<void> Repacker::convert(const gguf::TensorInfo& tensor, Layout to, uint64_t n_bytes,
                               gguf::Writer& writer) {
    const size_t n_matrices = tensor.n_dims == 3 ? static_cast<size_t>(tensor.shape[0]) : 1;
    const size_t from_bytes = tensor.data.size() / n_matrices, to_bytes = n_bytes / n_matrices;
    const auto row_bytes = static_cast<size_t>(type_info(tensor.type).row_bytes(tensor.n_cols()));
    const auto n_out = static_cast<size_t>(tensor.shape[tensor.n_dims - 2]);
    // On the packed side; the other side has no padding between matrices.
    const size_t groups_bytes = gguf::align_up(n_out, kernels::kGroupRows) * row_bytes;
    const std::vector<std::byte> filling(to == Layout::Packed ? to_bytes - groups_bytes : 0);
    for (size_t i = 0; i < n_matrices; i++) {
        TSR_TRY_VOID(convert_matrix(tensor, to, tensor.data.subspan(i * from_bytes, from_bytes), writer));
        TSR_TRY_VOID(writer.write(filling));
    }
    return {};
}

Result<void> Repacker::write_tensors(gguf::Writer& writer) {
    std::vector<uint64_t> n_bytes;
    for (size_t i = 0; i < layouts_.size(); i++) {
        const gguf::TensorInfo& tensor = in_.tensors()[i];
        const std::span shape(tensor.shape, static_cast<size_t>(tensor.n_dims));
        const gguf::StoredType stored{tensor.type, layouts_[i]};
        TSR_TRY(const uint64_t bytes, gguf::stored_bytes(tensor.name, shape, stored));
        n_bytes.push_back(bytes);
        writer.add_tensor(tensor.name, shape, gguf::stored_type_id(stored), bytes);
    }
    TSR_TRY_VOID(writer.begin_data());
    for (size_t i = 0; i < layouts_.size(); i++) {
        const gguf::TensorInfo& tensor = in_.tensors()[i];
        TSR_TRY_VOID(tensor.layout == layouts_[i] ? pieces_.copy(tensor.data, writer)
                                                  : convert(tensor, layouts_[i], n_bytes[i], writer));
    }
    return writer.finish();
}

/// Layouts of this model's tensors in a packed container.
std::vector<Layout> packed_layouts(const Model& model) {
    const std::span<const gguf::TensorInfo> tensors = model.file().tensors();
    std::vector<Layout> layouts(tensors.size(), Layout::Rows);
    Weights weights = model.weights();
    for (const Weight* weight : weights_to_pack(weights)) {
        if (!*weight || !gguf::has_packed_layout(weight->type)) continue;
        const auto is_at_weight = [weight](const gguf::TensorInfo& tensor) {
            return tensor.data.data() == weight->data;
        };
        const auto found = std::find_if(tensors.begin(), tensors.end(), is_at_weight);
        if (found != tensors.end()) layouts[static_cast<size_t>(found - tensors.begin())] = Layout::Packed;
    }
    return layouts;
}

/// Copies the keys that do not describe the container. general.alignment keeps its position among them with
/// the given value, or is dropped.
void copy_keys(const gguf::File& in, gguf::Writer& writer, const std::optional<uint32_t>& alignment) {
    for (const gguf::KeyValue& entry : in.keys()) {
        if (gguf::is_split_key(entry.key) || gguf::is_packed_key(entry.key)) continue;
        if (entry.key != gguf::kAlignmentKey)
            writer.set_value(entry.key, entry.value);
        else if (alignment)
            writer.set_u32(entry.key, *alignment);
    }
}

}  // namespace

Result<void> pack_file(gguf::File in, const std::string& out, const RepackContext& context) {
    if (in.is_packed())
        return fail(ErrorCode::InvalidArgument, "%s: the file is packed already",
                    printable(in.path(), 400).c_str());
    TSR_TRY(const auto model,
            Model::load(std::move(in), context.pool, context.kernels, {.pack = false, .progress = {}}));
    const gguf::File& file = model->file();
    const std::vector<Layout> layouts = packed_layouts(*model);
    const auto alignment = std::max(gguf::kPackedAlignment, static_cast<uint32_t>(file.alignment()));
    gguf::Writer writer(out, alignment);
    copy_keys(file, writer, alignment);
    writer.set_u32(gguf::kPackedVersionKey, gguf::kPackedVersion);
    writer.set_string(gguf::kPackedLayoutKey, gguf::kPackedLayout);
    if (file.find(gguf::kAlignmentKey))
        writer.set_u32(gguf::kPackedAlignmentKey, static_cast<uint32_t>(file.alignment()));
    return Repacker(file, layouts, context).write_tensors(writer);
}

Result<void> unpack_file(const gguf::File& in, const std::string& out, const RepackContext& context) {
    if (!in.is_packed())
        return fail(ErrorCode::InvalidArgument, "%s: the file is not packed, there is nothing to unpack",
                    printable(in.path(), 400).c_str());
    std::optional<uint32_t> alignment;
    if (const gguf::Value* stock = in.find(gguf::kPackedAlignmentKey))
        alignment = static_cast<uint32_t>(*stock->as_int());
    gguf::Writer writer(out, alignment.value_or(gguf::kDefaultAlignment));
    copy_keys(in, writer, alignment);
    return Repacker(in, std::vector(in.tensors().size(), Layout::Rows), context).write_tensors(writer);
}

}  // namespace tessera
