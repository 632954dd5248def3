// tessera pack and tessera unpack: stock file to packed container and back. Both stream, so a model larger
// than the memory can be converted. The conversion is in src/model/packed_file.cpp.
#include <filesystem>
#include <system_error>

#include "common/cpu.h"
#include "common/strings.h"
#include "common/threads.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "ggml-like/gguf/output_path.h"
#include "quants/dispatch.h"
#include "src/model/packed_file.h"

namespace tessera {

namespace {

namespace fs = std::filesystem;

struct PackArgs {
    std::string in, out;
    int64_t n_threads = 0;
    bool json = false;
};

Result<void> repack(const PackArgs& args, bool packs) {
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(gguf::File in, gguf::File::open(args.in));
    TSR_TRY(const std::string out, gguf::resolve_output(args.out, in));
    console::note_replacement(args.out);
    const uint64_t in_bytes = in.total_bytes();
    ThreadPool pool(args.n_threads > 0 ? static_cast<int>(args.n_threads) : default_thread_count());
    const console::InterruptGuard guard(console::Signals::Ending);
    pool.set_abort_flag(&guard.flag());
    {
        const RepackContext context{.pool = pool,
                                    .kernels = *isa->table,
                                    .progress = console::byte_bar(packs ? "packing" : "unpacking")};
        auto done = packs ? pack_file(std::move(in), out, context) : unpack_file(in, out, context);
        if (!done) return tl::unexpected<Error>(console::name_output(std::move(done.error()), args.out));
    }
    std::error_code ignored;
    const auto out_bytes = fs::file_size(out, ignored);
    return console::report(
        args.json,
        json_line({{"in", args.in}, {"bytes_in", in_bytes}, {"out", args.out}, {"bytes", out_bytes}}),
        strf("%s %s (%s) to %s (%s)", packs ? "packed" : "unpacked", printable(args.in, 400).c_str(),
             format_bytes(in_bytes).c_str(), printable(args.out, 400).c_str(),
             format_bytes(out_bytes).c_str()));
}

Action declare_pack(Options& options, bool packs) {
    auto args = std::make_shared<PackArgs>();
    options.required("IN", args->in,
                     packs ? "A GGUF model; of a split model the first part." : "A packed model.");
    options.required("OUT", args->out,
                     "The file to write; an existing one is replaced when the new one is complete.");
    options.integer("-t,--threads", args->n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.flag("--json", args->json, "Print one JSON object with the files and sizes.");
    return [args, packs] { return repack(*args, packs); };
}

}  // namespace

const Command kPack = {.name = "pack",
                       .summary = "reorder a model's weights for instant loading",
                       .help =
                           "Writes a packed model file, whose weights are stored in the layout of the "
                           "kernels: loading is a plain "
                           "mmap without a copy, and processes share the memory. Results are the same, bit "
                           "for bit. Only tessera "
                           "reads such files; tessera unpack restores the original.",
                       .examples =
                           "  tessera pack model.gguf model.packed.gguf\n"
                           "  tessera run model.packed.gguf -p \"Once upon a time\"\n",
                       .declare = [](Options& options) { return declare_pack(options, true); }};

const Command kUnpack = {.name = "unpack",
                         .summary = "restore the original of a packed model",
                         .help =
                             "Writes the GGUF file from which a packed model was made: the same keys, "
                             "tensors and bytes in the same "
                             "order. A split model becomes one file.",
                         .examples = "  tessera unpack model.packed.gguf model.gguf\n",
                         .declare = [](Options& options) { return declare_pack(options, false); }};

}  // namespace tessera
