// tessera hash: digests of a model's weights. They are computed in src/convert/compare_files.cpp.
#include "common/cpu.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/convert/compare_files.h"

namespace tessera {

namespace {

struct HashArgs {
    std::string path;
    int64_t n_threads = 0;
    bool json = false, whole = false;
};

Result<void> print_digests(const HashArgs& args) {
    TSR_TRY(const gguf::File file, gguf::File::open(args.path));
    ThreadPool pool(args.n_threads > 0 ? static_cast<int>(args.n_threads) : default_thread_count());
    const console::InterruptGuard guard;
    pool.set_abort_flag(&guard.flag());
    TSR_TRY(const convert::FileDigests found, convert::digest_file(file, pool, console::byte_bar("hashing")));
    if (args.json) {
        Json out = {{"path", file.path()}, {"sha256", found.all.sha256}, {"xxh64", found.all.xxh64}};
        if (!args.whole) out["tensors"] = Json::array();
        for (size_t i = 0; i < found.tensors.size() && !args.whole; ++i)
            out["tensors"].push_back({{"name", std::string(file.tensors()[i].name)},
                                      {"sha256", found.tensors[i].sha256},
                                      {"xxh64", found.tensors[i].xxh64}});
        return console::print(json_line(out));
    }
    std::string out;
    for (size_t i = 0; i < found.tensors.size() && !args.whole; ++i)
        out += found.tensors[i].sha256 + "  " + found.tensors[i].xxh64 + "  " +
               printable(file.tensors()[i].name, 400) + "\n";
    out += found.all.sha256 + "  " + found.all.xxh64 + "  " + printable(file.path(), 400) + "\n";
    return console::print(out);
}

Action declare_hash(Options& options) {
    auto args = std::make_shared<HashArgs>();
    options.required("FILE", args->path, "A GGUF file; of a split model the first part.");
    options.integer("-t,--threads", args->n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.group("Output");
    options.flag("--whole", args->whole, "Print the digests of the whole file only.");
    options.flag("--json", args->json, "Print one JSON object.");
    return [args] { return print_digests(*args); };
}

}  // namespace

const Command kHash = {
    .name = "hash",
    .summary = "compute digests of a model's weights",
    .help =
        "Prints SHA-256 and XXH64 (seed 0) of each tensor's data as stored, and of all tensors' data in the "
        "file's order. Neither keys nor the split into parts change the digests.",
    .examples =
        "  tessera hash model.gguf --whole\n"
        "  tessera hash model.gguf --json | jq -r '.tensors[0].sha256'\n",
    .declare = declare_hash};

}  // namespace tessera
