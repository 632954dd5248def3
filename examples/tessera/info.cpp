// tessera info: the program and the machine, for bug reports and for judging the figures of bench.
#include <cstdlib>

#include "common/cpu.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "examples/tessera/roofline.h"
#include "ggml-like/blas/openblas.h"
#include "src/model/arch_spec.h"

namespace tessera {

namespace {

constexpr int kProbeSamples = 5;

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif
#if defined(NDEBUG)
constexpr const char* kBuild = "optimized";
#else
constexpr const char* kBuild = "debug";
#endif

struct InfoArgs {
    int64_t n_threads = 0;
    bool json = false, probe = false;
};

struct Facts {
    const kernels::IsaInfo* isa = nullptr;
    std::string isa_reason;
    int n_threads = 1;
    Result<const blas::OpenBlas*> openblas = nullptr;
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<Roofline> roofline;  // with --probe
};

/// Instruction sets that the processor and the system allow, used by a kernel table or not.
std::vector<std::string> features() {
    const CpuFeatures& cpu = cpu_features();
    std::vector<std::string> names;
    const auto add = [&names](bool present, const char* name) {
        if (present) names.emplace_back(name);
    };
    add(cpu.avx2, "avx2");
    add(cpu.avx_vnni, "avx_vnni");
    add(cpu.avx512, "avx512");
    add(cpu.avx512_vnni, "avx512_vnni");
    add(cpu.neon, "neon");
    add(cpu.dotprod, "dotprod");
    add(cpu.i8mm, "i8mm");
    return names;
}

Result<Facts> collect(const InfoArgs& args) {
    Facts facts;
    TSR_TRY(facts.isa, kernels::choose_isa_from_environment());
    const char* wanted = std::getenv("TESSERA_ISA");
    facts.isa_reason = wanted && *wanted ? "chosen by TESSERA_ISA" : "the best for this machine";
    facts.n_threads = args.n_threads > 0 ? static_cast<int>(args.n_threads) : default_thread_count();
    facts.openblas = blas::open_blas();
    if (!args.probe) return facts;
    facts.pool = std::make_unique<ThreadPool>(facts.n_threads);
    TSR_TRY(facts.roofline, Roofline::create(*facts.pool, facts.isa->table->name));
    for (int i = 0; i < kProbeSamples; i++) facts.roofline->sample();
    return facts;
}

Json as_json(const Facts& facts) {
    const CpuTopology& cpu = cpu_topology();
    Json isas = Json::array();
    for (const kernels::IsaInfo& isa : kernels::all_isas())
        isas.push_back({{"name", isa.name}, {"usable", isa.usable}, {"needs", isa.needs}});
    Json architectures = Json::array(), types = Json::array();
    for (const ArchSpec* arch : all_architectures()) architectures.push_back(arch->name);
    for (const TypeInfo& type : all_types())
        if (type.role == TypeRole::Weight) types.push_back(type.name);
    Json out = {{"version", TSR_VERSION},
                {"compiler", kCompiler},
                {"build", kBuild},
                {"isa", facts.isa->name},
                {"isa_reason", facts.isa_reason},
                {"isas", isas},
                {"tuning", kernels::choose_tuning().family},
                {"cpu", cpu.model_name},
                {"cpu_features", features()},
                {"logical_cores", cpu.n_logical},
                {"physical_cores", cpu.n_physical},
                {"quota_cores", cpu.quota},
                {"threads", facts.n_threads},
                {"l1d_bytes", cpu.l1d_bytes},
                {"l2_bytes", cpu.l2_bytes},
                {"l3_bytes", cpu.l3_bytes},
                {"memory_bytes", cpu.memory_bytes},
                {"architectures", architectures},
                {"types", types}};
    if (facts.openblas)
        out["openblas"] = {{"version", (*facts.openblas)->version}, {"core", (*facts.openblas)->core}};
    if (facts.roofline) out["roofline"] = roofline_json(*facts.roofline);
    return out;
}

template <class Range, class Name>
std::string join(const Range& range, Name name) {
    std::string out;
    for (const auto& item : range) {
        const std::string next(name(item));
        if (!next.empty()) out += (out.empty() ? "" : " ") + next;
    }
    return out.empty() ? "none" : out;
}

std::string size_or_unknown(size_t n_bytes) { return n_bytes ? format_bytes(n_bytes) : "unknown"; }

std::string as_text(const Facts& facts) {
    const CpuTopology& cpu = cpu_topology();
    std::string out;
    const auto line = [&out](const char* name, const std::string& value) {
        out += strf("%-14s %s\n", name, value.c_str());
    };
    line("tessera", strf("%s, %s, %s", TSR_VERSION, kBuild, kCompiler));
    line("instructions", std::string(facts.isa->name) + " (" + facts.isa_reason + ")");
    for (const kernels::IsaInfo& isa : kernels::all_isas())
        line(("  " + std::string(isa.name)).c_str(),
             (isa.usable ? "usable, needs " : "not usable here, needs ") + std::string(isa.needs));
    line("tuning", kernels::choose_tuning().text);
    line("processor", printable(cpu.model_name.empty() ? "unknown" : cpu.model_name, 200));
    line("  offers", join(features(), [](const std::string& name) { return name; }));
    const std::string quota = cpu.quota > 0 ? strf(", quota %.2f cores", cpu.quota) : "";
    line("cores", strf("%d physical, %d logical%s", cpu.n_physical, cpu.n_logical, quota.c_str()));
    line("threads", strf("%d", facts.n_threads));
    line("caches", "L1d " + size_or_unknown(cpu.l1d_bytes) + ", L2 " + size_or_unknown(cpu.l2_bytes) +
                       ", L3 " + size_or_unknown(cpu.l3_bytes));
    line("memory", size_or_unknown(cpu.memory_bytes));
    line("architectures", join(all_architectures(), [](const ArchSpec* arch) { return arch->name; }));
    line("types", join(all_types(), [](const TypeInfo& type) {
             return type.role == TypeRole::Weight ? type.name : std::string_view();
         }));
    line("OpenBLAS", facts.openblas
                         ? printable((*facts.openblas)->version + ", kernels of " + (*facts.openblas)->core)
                         : "none: " + facts.openblas.error().message);
    if (!facts.roofline) return out;
    const Roofline& roofline = *facts.roofline;
    line("peak", strf("read %.1f GB/s, int8 %.1f GMAC/s, float %.1f GMAC/s (%d threads, buffer %s)",
                      roofline.read_gb_per_s(), roofline.int8_gmac_per_s(), roofline.fma_gmac_per_s(),
                      facts.n_threads, format_bytes(roofline.buffer_bytes()).c_str()));
    return out;
}

Result<void> show(const InfoArgs& args) {
    TSR_TRY(const Facts facts, collect(args));
    return console::print(args.json ? json_line(as_json(facts)) : as_text(facts));
}

Action declare_info(Options& options) {
    auto args = std::make_shared<InfoArgs>();
    options.flag("--probe", args->probe, "Also measure memory bandwidth and arithmetic, for about a second.");
    options.flag("--json", args->json, "Print one JSON object.");
    options.integer("-t,--threads", args->n_threads, 0, ThreadPool::kMaxThreads,
                    "Threads of --probe; 0: the physical cores that this process may use.");
    return [args] { return show(*args); };
}

}  // namespace

const Command kInfo = {.name = "info",
                       .summary = "show the version, the CPU and the instruction set",
                       .help =
                           "Shows the version, the chosen instruction set, cores, caches and memory. With "
                           "--probe it also measures "
                           "the machine's peak, to which `tessera bench` compares.",
                       .examples =
                           "  tessera info\n"
                           "  tessera info --probe --json | jq .roofline\n"
                           "  TESSERA_ISA=scalar tessera info\n",
                       .declare = declare_info};

}  // namespace tessera
