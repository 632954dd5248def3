// tessera split and tessera merge: one GGUF file as several and back. The copying is
// src/convert/split_file.cpp.
#include <algorithm>
#include <optional>

#include "common/progress.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "ggml-like/gguf/output_path.h"
#include "src/convert/split_file.h"

namespace tessera {

namespace {

struct SplitArgs {
    std::string in, out;
    convert::SplitLimits limits;
    bool dry_run = false;
};

uint64_t data_bytes(const gguf::File& file) {
    uint64_t n_bytes = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) n_bytes += tensor.data.size();
    return n_bytes;
}

/// "2G", "500M", "100K" or a number of bytes; 1024 of each make the next.
Result<void> parse_size(const std::string& text, uint64_t& n_bytes) {
    const std::string_view units = "KMGT";
    std::string_view digits = text;
    int shift = 0;
    if (!digits.empty() && units.find(digits.back()) != std::string_view::npos) {
        shift = 10 * (static_cast<int>(units.find(digits.back())) + 1);
        digits.remove_suffix(1);
    }
    const auto number = parse_int(digits);
    if (!number || *number < 1 || *number > INT64_MAX >> shift)
        return fail(ErrorCode::InvalidArgument, "expected a size like 500M or 2G, found '%s'",
                    printable(text).c_str());
    n_bytes = static_cast<uint64_t>(*number) << shift;
    return {};
}

/// Runs `copy` with a progress bar on a terminal; Ctrl-C ends it.
template <class Copy>
auto with_progress(const char* verb, const gguf::File& in, Copy copy) {
    const console::InterruptGuard guard;
    ProgressBar bar(verb, data_bytes(in), ProgressBar::Unit::Bytes,
                    console::verbosity() != console::Verbosity::Quiet);
    return copy([&bar](uint64_t done) {
        bar.update(done);
        return !console::InterruptGuard::interrupted();
    });
}

Result<void> split_model(const SplitArgs& args) {
    TSR_TRY(const gguf::File in, gguf::File::open(args.in));
    TSR_TRY(const std::vector<size_t> plan, convert::plan_split(in, args.limits));
    if (args.dry_run) {
        std::string text;
        size_t at = 0;
        for (size_t i = 0; i < plan.size(); ++i) {
            uint64_t n_bytes = 0;
            for (size_t j = 0; j < plan[i]; ++j) n_bytes += in.tensors()[at++].data.size();
            text += strf("part %zu of %zu: %zu tensors, %s\n", i + 1, plan.size(), plan[i],
                         format_bytes(n_bytes).c_str());
        }
        return console::print(text);
    }
    TSR_TRY(const auto paths, with_progress("splitting", in, [&](const convert::CopyProgress& progress) {
                return convert::split_file(in, args.out, plan, progress);
            }));
    console::note("wrote %s and %zu more parts", printable(paths.front(), 400).c_str(), paths.size() - 1);
    return {};
}

Result<void> merge_parts(const SplitArgs& args) {
    TSR_TRY(const gguf::File in, gguf::File::open(args.in));
    TSR_TRY(const std::string out, gguf::resolve_output(args.out, in));
    TSR_TRY_VOID(with_progress("merging", in, [&](const convert::CopyProgress& progress) {
        return convert::merge_file(in, out, progress);
    }));
    console::note("wrote %s from %d parts", printable(args.out, 400).c_str(), in.n_files());
    return {};
}

Action declare_split(Options& options) {
    auto args = std::make_shared<SplitArgs>();
    options.required("IN", args->in, "A GGUF file.");
    options.required("PREFIX", args->out, "Of the parts, PREFIX-00001-of-0000N.gguf and on.");
    options.parsed(
        "--max-size", "SIZE",
        [args](const std::string& text) { return parse_size(text, args->limits.max_bytes); },
        "Tensor data of a part, such as 2G or 500M; a larger tensor is a part of its own.");
    options.integer("--max-tensors", args->limits.max_tensors, 0, INT64_MAX, "Tensors of a part; 0: any.");
    options.flag("--dry-run", args->dry_run, "Write nothing; list the parts.");
    options.check([args]() -> Result<void> {
        if (args->limits.max_bytes > 0 || args->limits.max_tensors > 0) return {};
        return fail(ErrorCode::InvalidArgument, "expected --max-size SIZE or --max-tensors N");
    });
    return [args] { return split_model(*args); };
}

Action declare_merge(Options& options) {
    auto args = std::make_shared<SplitArgs>();
    options.required("FIRST", args->in,
                     "The first part, NAME-00001-of-0000N.gguf; the others are beside it.");
    options.required("OUT", args->out, "The file to write; it appears when it is complete.");
    return [args] { return merge_parts(*args); };
}

}  // namespace

const Command kSplit = {
    .name = "split",
    .summary = "cut a model file into parts",
    .help =
        "Writes a GGUF file as several, by the names and keys of llama.cpp's gguf-split. Every command\n"
        "reads the first part as the whole model.",
    .examples =
        "  tessera split model.gguf model --max-size 2G\n"
        "  tessera split model.gguf parts/model --max-tensors 100 --dry-run\n",
    .declare = declare_split};

const Command kMerge = {.name = "merge",
                        .summary = "make one file of a model's parts",
                        .help = "Writes the parts of a split model as one GGUF file.",
                        .examples = "  tessera merge model-00001-of-00003.gguf model.gguf\n",
                        .declare = declare_merge};

}  // namespace tessera
