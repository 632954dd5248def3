// Shards are written one after the other, each by a gguf::Writer. They get their names when all of them are
// complete, so that an interruption leaves none.
#include "src/convert/split_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/writer.h"

namespace tessera::convert {

namespace {

constexpr size_t kMaxShards = 99999;  // limit of the five digits in file names
constexpr size_t kPieceBytes = size_t{8} << 20;
constexpr size_t kMaxOpen = 200;  // shards whose descriptors are held until all are complete

class Copy {
  public:
    Copy(const gguf::File& in, const CopyProgress& progress) : in_(in), progress_(progress) {}

    Result<void> tensors(std::span<const gguf::TensorInfo> tensors, gguf::Writer& writer) {
        for (const gguf::TensorInfo& tensor : tensors)
            writer.add_tensor(tensor.name, std::span(tensor.shape, static_cast<size_t>(tensor.n_dims)),
                              tensor.type_id(), tensor.data.size());
        TSR_TRY_VOID(writer.begin_data());
        for (const gguf::TensorInfo& tensor : tensors) {
            for (size_t at = 0; at < tensor.data.size(); at += kPieceBytes) {
                const auto piece = tensor.data.subspan(at, std::min(kPieceBytes, tensor.data.size() - at));
                TSR_TRY_VOID(writer.write(piece));
                in_.release(piece);
                done_ += piece.size();
                if (progress_ && !progress_(done_))
                    return fail(ErrorCode::Cancelled, "%s: interrupted; nothing was written",
                                printable(in_.path(), 400).c_str());
            }
        }
        return {};
    }

  private:
    const gguf::File& in_;
    const CopyProgress& progress_;
    uint64_t done_ = 0;
};

void copy_keys(const gguf::File& in, gguf::Writer& writer) {
    for (const gguf::KeyValue& entry : in.keys())
        if (!gguf::is_split_key(entry.key)) writer.set_value(entry.key, entry.value);
}

void remove_all(std::span<const std::string> paths) {
    for (const std::string& path : paths) std::remove(path.c_str());
}

}  // namespace

Result<std::vector<size_t>> plan_split(const gguf::File& in, const SplitLimits& limits) {
    std::vector<size_t> plan;
    uint64_t n_bytes = 0;
    for (const gguf::TensorInfo& tensor : in.tensors()) {
        const uint64_t size = tensor.data.size();
        const bool full =
            !plan.empty() &&
            ((limits.max_bytes > 0 && n_bytes + size > limits.max_bytes) ||
             (limits.max_tensors > 0 && plan.back() == static_cast<size_t>(limits.max_tensors)));
        if (plan.empty() || full) {
            plan.push_back(0);
            n_bytes = 0;
        }
        ++plan.back();
        n_bytes += size;
    }
    if (plan.empty()) plan.push_back(0);
    if (plan.size() > kMaxShards)
        return fail(ErrorCode::InvalidArgument, "%s: expected at most %zu parts, found %zu",
                    printable(in.path(), 400).c_str(), kMaxShards, plan.size());
    return plan;
}

Result<std::vector<std::string>> split_file(const gguf::File& in, const std::string& prefix,
                                            std::span<const size_t> plan, const CopyProgress& progress) {
    if (in.is_packed())
        return fail(ErrorCode::Unsupported, "%s: a packed container is one file; unpack it first",
                    printable(in.path(), 400).c_str());
    const auto count = static_cast<int>(plan.size());
    std::vector<std::string> paths;
    for (int number = 1; number <= count; ++number) {
        paths.push_back(gguf::split_path(prefix, number, count));
        std::error_code ignored;
        for (int i = 0; i < in.n_files(); ++i)
            if (std::filesystem::equivalent(in.mapping(i).path(), paths.back(), ignored))
                return fail(ErrorCode::InvalidArgument, "'%s' is the input; expected another prefix",
                            printable(paths.back(), 400).c_str());
    }
    Copy copy(in, progress);
    auto rest = in.tensors();
    std::vector<gguf::Writer> writers;
    for (size_t i = 0; i < plan.size(); ++i) {
        gguf::Writer& writer = writers.emplace_back(paths[i], static_cast<uint32_t>(in.alignment()));
        if (i == 0) copy_keys(in, writer);
        writer.set_int(gguf::kSplitNoKey, gguf::ValueType::U16, static_cast<int64_t>(i));
        writer.set_int(gguf::kSplitCountKey, gguf::ValueType::U16, count);
        writer.set_int(gguf::kSplitTensorsKey, gguf::ValueType::I32,
                       static_cast<int64_t>(in.tensors().size()));
        TSR_TRY_VOID(copy.tensors(rest.first(plan[i]), writer));
        TSR_TRY_VOID(writer.complete(i < kMaxOpen));
        rest = rest.subspan(plan[i]);
    }
    for (size_t i = 0; i < writers.size(); ++i)
        if (auto published = writers[i].publish(i + 1 == writers.size()); !published) {
            remove_all(std::span(paths).first(i));
            return tl::unexpected<Error>(std::move(published.error()));
        }
    return paths;
}

Result<void> merge_file(const gguf::File& in, const std::string& out, const CopyProgress& progress) {
    gguf::Writer writer(out, static_cast<uint32_t>(in.alignment()));
    copy_keys(in, writer);
    TSR_TRY_VOID(Copy(in, progress).tensors(in.tensors(), writer));
    return writer.finish();
}

}  // namespace tessera::convert
