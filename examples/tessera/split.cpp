// tessera split and tessera merge: one GGUF file as several and back. The copying is in
// src/convert/split_file.cpp.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/progress.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/output_path.h"
#include "src/convert/split_file.h"

namespace tessera {

namespace {

struct SplitArgs {
    std::string in, out;
    convert::SplitLimits limits;
    bool dry_run = false, json = false;
};

uint64_t data_bytes(const gguf::File& file) {
    uint64_t n_bytes = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) n_bytes += tensor.data.size();
    return n_bytes;
}

/// "2G", "500M", "100K" or a number of bytes; the units are powers of 1024.
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

/// Runs `copy` with a progress bar on a terminal until a signal ends it; `out` names its output.
template <class Copy>
auto with_progress(const char* verb, const gguf::File& in, const std::string& out, Copy copy) {
    const console::InterruptGuard guard(console::Signals::Ending);
    ProgressBar bar(verb, data_bytes(in), ProgressBar::Unit::Bytes,
                    console::verbosity() != console::Verbosity::Quiet);
    auto copied = copy([&bar](uint64_t done) {
        bar.update(done);
        return !console::InterruptGuard::interrupted();
    });
    if (!copied) copied.error() = console::name_output(std::move(copied.error()), out);
    return copied;
}

struct Part {
    size_t n_tensors;
    uint64_t n_bytes;  // of tensor data
};

std::vector<Part> parts_of(const gguf::File& in, const std::vector<size_t>& plan) {
    std::vector<Part> parts;
    size_t at = 0;
    for (const size_t n_tensors : plan) {
        Part& part = parts.emplace_back(Part{n_tensors, 0});
        for (size_t i = 0; i < n_tensors; ++i) part.n_bytes += in.tensors()[at++].data.size();
    }
    return parts;
}

/// `paths`: empty in a dry run.
std::string split_json(const SplitArgs& args, const std::vector<Part>& parts,
                       const std::vector<std::string>& paths) {
    Json out = {{"in", args.in}, {"dry_run", args.dry_run}, {"parts", Json::array()}};
    for (size_t i = 0; i < parts.size(); ++i) {
        Json part = {{"tensors", parts[i].n_tensors}, {"data_bytes", parts[i].n_bytes}};
        if (!paths.empty()) part["path"] = paths[i];
        out["parts"].push_back(std::move(part));
    }
    return json_line(out);
}

/// The note of console::note_replacement() for all parts in one line.
void note_replaced_parts(const SplitArgs& args, size_t n_parts) {
    const auto count = static_cast<int>(n_parts);
    int n_existing = 0;
    std::error_code ignored;
    for (int number = 1; number <= count; ++number)
        n_existing += std::filesystem::is_regular_file(gguf::split_path(args.out, number, count), ignored);
    if (n_existing > 0)
        console::note("%d of the %d files %s-*.gguf exist; they are replaced when the new ones are complete",
                      n_existing, count, printable(args.out, 400).c_str());
}

Result<void> split_model(const SplitArgs& args) {
    TSR_TRY(const gguf::File in, gguf::File::open(args.in));
    TSR_TRY(const std::vector<size_t> plan, convert::plan_split(in, args.limits));
    const std::vector<Part> parts = parts_of(in, plan);
    if (args.dry_run && args.json) return console::print(split_json(args, parts, {}));
    if (args.dry_run) {
        std::string text;
        for (size_t i = 0; i < parts.size(); ++i)
            text += strf("part %zu of %zu: %zu tensors, %s\n", i + 1, parts.size(), parts[i].n_tensors,
                         format_bytes(parts[i].n_bytes).c_str());
        return console::print(text);
    }
    note_replaced_parts(args, parts.size());
    TSR_TRY(const auto paths,
            with_progress("splitting", in, args.out + "-*.gguf", [&](const convert::CopyProgress& progress) {
                return convert::split_file(in, args.out, plan, progress);
            }));
    return console::report(args.json, split_json(args, parts, paths),
                           strf("wrote %s (1 of %zu)", printable(paths.front(), 400).c_str(), paths.size()));
}

Result<void> merge_parts(const SplitArgs& args) {
    TSR_TRY(const gguf::File in, gguf::File::open(args.in));
    TSR_TRY(const std::string out, gguf::resolve_output(args.out, in));
    console::note_replacement(args.out);
    TSR_TRY_VOID(with_progress("merging", in, args.out, [&](const convert::CopyProgress& progress) {
        return convert::merge_file(in, out, progress);
    }));
    return console::report(
        args.json,
        json_line(
            {{"in", args.in}, {"out", args.out}, {"parts", in.n_files()}, {"data_bytes", data_bytes(in)}}),
        in.n_files() > 1 ? strf("wrote %s from %d parts", printable(args.out, 400).c_str(), in.n_files())
                         : strf("%s is not split; wrote a copy to %s", printable(args.in, 400).c_str(),
                                printable(args.out, 400).c_str()));
}

Action declare_split(Options& options) {
    auto args = std::make_shared<SplitArgs>();
    options.required("IN", args->in, "A GGUF file.");
    options.required("PREFIX", args->out, "The parts are PREFIX-00001-of-0000N.gguf, and so on.");
    options.parsed(
        "--max-size", "SIZE",
        [args](const std::string& text) { return parse_size(text, args->limits.max_bytes); },
        "Most tensor data per part, such as 2G or 500M; a larger tensor is a part by itself.");
    options.integer("--max-tensors", args->limits.max_tensors, 0, INT64_MAX,
                    "Most tensors per part; 0: any number.");
    options.flag("--dry-run", args->dry_run, "Write nothing; list the parts.");
    options.flag("--json", args->json, "Print one JSON object with the parts.");
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
    options.required("OUT", args->out,
                     "The file to write; an existing one is replaced when the new one is complete.");
    options.flag("--json", args->json, "Print one JSON object with the files and sizes.");
    return [args] { return merge_parts(*args); };
}

}  // namespace

const Command kSplit = {.name = "split",
                        .summary = "split a model file into parts",
                        .help =
                            "Writes a GGUF file as several, with the names and keys of llama.cpp's "
                            "gguf-split. Every command reads "
                            "the whole model when it is given the first part.",
                        .examples =
                            "  tessera split model.gguf model --max-size 2G\n"
                            "  tessera split model.gguf parts/model --max-tensors 100 --dry-run\n",
                        .declare = declare_split};

const Command kMerge = {.name = "merge",
                        .summary = "join the parts of a split model",
                        .help = "Writes the parts of a split model as one GGUF file.",
                        .examples = "  tessera merge model-00001-of-00003.gguf model.gguf\n",
                        .declare = declare_merge};

}  // namespace tessera
