// tessera plan: the memory that running a model needs, and whether it fits. Opens and binds the file like a
// command that computes, allocates none of the memory, and prints the result of engine::plan_memory.
#include "src/engine/plan.h"

#include <algorithm>

#include "common/cpu.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"

namespace tessera {

namespace {

struct PlanArgs {
    ModelOptions model;
    SessionFlags session;
    NpuFlags npu;  // those of a compiled file
    int64_t n_slots = 1;
    bool json = false;
};

Json as_json(const PlanArgs& args, const Model& model, const engine::MemoryPlan& plan, uint64_t available) {
    Json out = {{"model", model.file().path()},
                {"n_ctx", plan.n_ctx},
                {"slots", plan.n_slots},
                {"kv", args.session.kv_name()},
                {"process_bytes", plan.process},
                {"packed_bytes", plan.packed},
                {"mapped_bytes", plan.mapped},
                {"cache_bytes", plan.cache},
                {"cache_page_bytes", plan.page},
                {"state_bytes", plan.states},
                {"activation_bytes", plan.activations},
                {"scratch_bytes", plan.scratch},
                {"sampling_bytes", plan.sampling},
                {"total_bytes", plan.total()},
                {"available_bytes", available}};
    const engine::NpuShare& npu = plan.npu;
    if (args.npu.is_on())
        out["npu"] = {{"program_bytes", npu.program}, {"mapped_bytes", npu.mapped},
                      {"arena_bytes", npu.arena},     {"cache_bytes", npu.cache},
                      {"vtcm_bytes", npu.vtcm},       {"row_bytes", npu.rows},
                      {"total_bytes", npu.total()}};
    out["fits"] = engine::check_fits(plan, available).has_value();
    return out;
}

Result<void> make_plan(const PlanArgs& args) {
    TSR_TRY(gguf::File file, args.model.file.open());
    TSR_TRY(const auto tokenizer, load_tokenizer(file));
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    const ResidentSet before = resident_set();
    TSR_TRY(const auto npu, load_npu(args.npu, args.model.file));
    const ResidentSet after = resident_set();
    TSR_TRY(const auto model,
            engine::bind_weights(std::move(file), *isa->table,
                                 {.precise = args.model.precise, .progress = {}, .npu = npu.get()}));
    const int n_threads =
        args.model.n_threads > 0 ? static_cast<int>(args.model.n_threads) : default_thread_count();
    const engine::MemoryDemand demand{args.session.session(), args.n_slots, true};
    TSR_TRY(engine::MemoryPlan plan, engine::plan_memory(*model, demand, n_threads));
    if (npu) {
        // The growth of this process so far belongs to the NPU: its program, and pages of its file.
        const uint64_t program =
            after.anonymous_bytes - std::min(before.anonymous_bytes, after.anonymous_bytes);
        const uint64_t mapped = after.file_bytes - std::min(before.file_bytes, after.file_bytes);
        plan.process -= std::min(program + mapped, plan.process);
        TSR_TRY_VOID(engine::add_npu(*model, demand, *npu, program, n_threads, plan));
    }
    const uint64_t available = available_memory_bytes();
    if (args.json) return console::print(json_line(as_json(args, *model, plan, available)));
    const bool fits = engine::check_fits(plan, available).has_value();
    const std::string room = available == 0 ? "unknown" : format_bytes(available);
    return console::print(engine::to_text(plan) + strf("%-13s %10s  %s\n", "available", room.c_str(),
                                                       fits ? "it fits" : "it does not fit"));
}

Action declare_plan(Options& options) {
    auto args = std::make_shared<PlanArgs>();
    args->model.declare(options);
    options.group("Context");
    args->session.declare_ctx(options);
    options.integer("--slots", args->n_slots, 1, engine::kMaxRunning,
                    "Concurrent completions, each with a context of its own.");
    args->session.declare_batch(options);
    args->session.declare_kv(options);
    options.group("NPU");
    options.text("--npu", "FILE", args->npu.file,
                 "Include the memory of the emulated NPU for this compiled file.");
    options.flag("--npu-fast", args->npu.fast,
                 "Leave out the buffers for copies through the NPU's memory, as --npu-fast does in a run.");
    options.check([args, options]() -> Result<void> {
        if (options.given("--npu-fast") && !args->npu.is_on())
            return fail(ErrorCode::InvalidArgument, "--npu-fast needs --npu FILE");
        return {};
    });
    options.group("Output");
    options.flag("--json", args->json, "Print one JSON object, with sizes in bytes.");
    return [args] { return make_plan(*args); };
}

}  // namespace

const Command kPlan = {.name = "plan",
                       .summary = "estimate the memory a model needs",
                       .help =
                           "Estimates the memory a model needs with a full context, item by item, and "
                           "compares it with the memory "
                           "available. `tessera run` and other commands refuse a model that does not fit.",
                       .examples =
                           "  tessera plan model.gguf\n"
                           "  tessera plan model.gguf --ctx 32768 --slots 4 --kv q8_0\n"
                           "  tessera plan model.gguf --ctx 8192 --json | jq .total_bytes\n"
                           "  tessera plan model.gguf --ctx 1024 --npu model.nctx\n",
                       .declare = declare_plan};

}  // namespace tessera
