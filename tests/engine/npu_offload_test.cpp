// Engines and sessions whose passes are partly computed by an NPU: the same text for every kind of request,
// keys and values of one text at a time, and refusals.
#include "src/engine/npu_offload.h"

#include <filesystem>
#include <set>

#include "src/engine/plan.h"
#include "src/forward/record.h"
#include "src/measure/npu_calibration.h"
#include "src/model/pack.h"
#include "src/npu/model_digest.h"
#include "tests/engine/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::engine {
namespace {

class NpuOffload : public Engines {
  protected:
    void SetUp() override {
        auto file = gguf::File::open(kModelPath);
        ASSERT_TRUE(file) << file.error().message;
        const uint64_t digest = npu::model_digest(*file);
        auto rows =
            Model::load(std::move(*file), pool_, loaded_.model->kernels(), {.pack = false, .progress = {}});
        ASSERT_TRUE(rows) << rows.error().message;
        auto session = Session::create(*rows, pool_, {.n_ctx = 128, .n_batch = 64, .max_out = 64});
        ASSERT_TRUE(session) << session.error().message;
        auto calibration = measure::NpuCalibration::create(**session, 64);
        ASSERT_TRUE(calibration) << calibration.error().message;
        auto tokens = *loaded_.tokenizer->encode(story(8));
        tokens.resize(128);
        ASSERT_TRUE((*calibration)->add(tokens));
        auto ranges = (*calibration)->take(digest);
        ASSERT_TRUE(ranges) << ranges.error().message;
        options_.device = "x-elite";
        options_.ranges = folder_.write("ranges.json", ranges->to_json());
    }

    Result<std::shared_ptr<EmulatedNpuModel>> npu() {
        auto file = gguf::File::open(kModelPath);
        return EmulatedNpuModel::create(std::move(*file), loaded_.model->kernels(), options_);
    }

    test::TempFolder folder_;
    NpuOptions options_;
};

TEST_F(NpuOffload, OneTextsKeysAtATime) {
    auto model = npu();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_TRUE((*model)->owns_kv_cache());
    EXPECT_EQ((*model)->left_out(), "");
    EngineOptions options{.n_ctx = 256, .max_running = 1, .npu = *model};
    // Texts long enough for the prefix cache, with a common prefix, and a repeated one.
    const std::string begin = story(5);
    std::vector<Request> requests;
    for (const char* end : {"", "But then the storm came.", ""}) requests.push_back(request(begin + end, 3));
    requests[2].n = 2;
    auto one = engine(options);
    int64_t n_cached = 0;
    for (const Request& each : requests) {
        Got got;
        one->submit(each, got.listener())->wait();
        EXPECT_EQ(got.outcome[0].finish, Finish::Length);
        n_cached += got.outcome[0].usage.n_cached;
        EXPECT_EQ(got.ids[0], alone(each, options));
    }
    EXPECT_GT(n_cached, 0);
    // Passes of other lengths give the same.
    const Request other = request("The captain looked at the sea.", 3);
    const std::vector<int32_t> ids = alone(other, options);
    options.n_batch = 3;
    EXPECT_EQ(alone(other, options), ids);
}

/// The memory that a plan states for a compiled model is the memory that a session then takes.
TEST_F(NpuOffload, PlanOfACompiledModel) {
    const Model& model = *loaded_.model;
    const int n_threads = pool_.n_threads();
    const MemoryDemand demand{.one = {.n_ctx = 256, .n_batch = 64, .max_out = 1}, .n_slots = 1};
    const auto plan_with = [&](const NpuModel& npu, const MemoryDemand& wanted) -> Result<MemoryPlan> {
        TSR_TRY(MemoryPlan plan, plan_memory(model, wanted, n_threads));
        TSR_TRY_VOID(add_npu(model, wanted, npu, 1000, n_threads, plan));
        return plan;
    };
    NpuOptions compiled_options;
    compiled_options.file = folder_.at("tiny.nctx");
    for (const bool attends : {true, false}) {
        options_.offload = attends ? "" : "blk.*.ffn";
        const auto in_place = npu();
        ASSERT_TRUE(in_place) << in_place.error().message;
        const auto unknown = plan_with(**in_place, demand);
        ASSERT_FALSE(unknown);
        EXPECT_NE(unknown.error().message.find("expected a model that was compiled ahead of time"),
                  std::string::npos);
        const auto compiled = (*in_place)->compile(256, pool_);
        ASSERT_TRUE(compiled) << compiled.error().message;
        ASSERT_TRUE(
            npu::write_context(compiled_options.file, (*compiled)->model, (*in_place)->device()).has_value());

        std::swap(options_, compiled_options);
        auto from_file = npu();
        options_.fast = true;
        const auto fast = npu();
        options_.fast = false;
        std::swap(options_, compiled_options);
        ASSERT_TRUE(from_file && fast);
        const auto bare = plan_memory(model, demand, n_threads);
        const auto plan = plan_with(**from_file, demand), plan_fast = plan_with(**fast, demand);
        ASSERT_TRUE(plan) << plan.error().message;
        ASSERT_TRUE(plan_fast) << plan_fast.error().message;
        const auto session = Session::create(loaded_.model, pool_,
                                             {.n_ctx = 256, .n_batch = 64, .max_out = 1, .npu = *from_file});
        ASSERT_TRUE(session) << session.error().message;
        const npu::DeviceModel& taken = static_cast<const EmulatedNpuSession&>(*(*session)->npu()).compiled();
        EXPECT_EQ(plan->npu.mapped, std::filesystem::file_size(compiled_options.file));
        EXPECT_GT(plan->npu.mapped, taken.constants.size());
        EXPECT_GE(plan->npu.arena, static_cast<uint64_t>(taken.arena_bytes));
        EXPECT_LT(plan->npu.arena, static_cast<uint64_t>(taken.arena_bytes) + (2 << 20));
        EXPECT_GE(plan->npu.cache, static_cast<uint64_t>(taken.cache_bytes));
        EXPECT_EQ(plan->npu.vtcm, static_cast<uint64_t>(taken.vtcm_bytes));
        EXPECT_GT(plan_fast->npu.rows, plan->npu.rows);
        EXPECT_EQ(plan->npu.all_kv, attends);
        EXPECT_EQ(plan->npu.cache > 0, attends);
        EXPECT_EQ(plan->cache, attends ? 0 : bare->cache);
        // Segments read float activations that a pass without segments does not compute.
        const uint64_t floats = plan->activations - bare->activations;
        EXPECT_GE(plan->activations, bare->activations);
        EXPECT_EQ(plan->growth_bytes(),
                  bare->growth_bytes() + floats - bare->cache + plan->cache + plan->npu.total() - 1000);
        EXPECT_NE(to_text(*plan).find("NPU arena"), std::string::npos);
        EXPECT_EQ(to_text(*bare).find("NPU"), std::string::npos);

        MemoryDemand other = demand;
        other.n_slots = 2;
        EXPECT_EQ(plan_with(**from_file, other).has_value(), !attends);
        other = demand;
        other.one.n_ctx = 512;
        EXPECT_EQ(plan_with(**from_file, other).has_value(), !attends);
    }
}

TEST_F(NpuOffload, SeveralTextsWhereKeysAreTheProcessors) {
    options_.offload = "blk.*.ffn,output";
    auto model = npu();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_FALSE((*model)->owns_kv_cache());
    const EngineOptions options{.n_ctx = 256, .max_running = 3, .npu = *model};
    auto one = engine(options);
    std::vector<Request> requests;
    for (const char* prompt : {"Once upon a time", "The captain", "My dear friend,"})
        requests.push_back(request(prompt, 5));
    std::vector<Got> got(requests.size());
    std::vector<Ticket> tickets;
    for (size_t i = 0; i < got.size(); ++i) tickets.push_back(*one->submit(requests[i], got[i].listener()));
    for (const Ticket& ticket : tickets) ticket.wait();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].ids[0], alone(requests[i], options)) << i;
}

/// The position of a token in its text decides whether the NPU computes it; other texts, the prefix cache and
/// the cut of passes make no difference.
TEST_F(NpuOffload, OnePhaseAlone) {
    options_.offload = "blk.*.ffn";
    std::set<std::vector<float>> log_ps;
    for (const NpuPhase phase : {NpuPhase::Prefill, NpuPhase::Decode, NpuPhase::Both}) {
        options_.phase = phase;
        auto model = npu();
        ASSERT_TRUE(model) << model.error().message;
        EngineOptions options{.n_ctx = 256, .max_running = 3, .npu = *model};
        // The second request continues the text of the first, whose whole pages are cached.
        std::vector<Request> requests = {request(story(5), 70)};
        requests.push_back(request("", 4));
        requests[1].prompt = requests[0].prompt;
        const std::vector<int32_t> written = alone(requests[0], options);
        requests[1].prompt.insert(requests[1].prompt.end(), written.begin(), written.end() - 2);
        for (const char* prompt : {"The captain", "My dear friend,"}) requests.push_back(request(prompt, 30));
        auto one = engine(options);
        for (Request& each : requests) each.n_top = 0;
        for (int round = 0; round < 2; ++round) {
            std::vector<Got> got(requests.size());
            std::vector<Ticket> tickets;
            for (size_t i = 0; i < got.size(); ++i) {
                tickets.push_back(*one->submit(requests[i], got[i].listener()));
                if (i == 0 && round == 0) tickets.back().wait();
            }
            for (const Ticket& ticket : tickets) ticket.wait();
            EngineOptions other = options;
            other.n_batch = 7;
            for (size_t i = 0; i < got.size(); ++i) {
                Got lone;
                auto fresh = engine(round ? other : options);
                fresh->submit(requests[i], lone.listener())->wait();
                EXPECT_EQ(got[i].ids[0], lone.ids[0]) << i;
                EXPECT_EQ(got[i].log_p, lone.log_p) << npu_phase_name(phase) << ", request " << i;
                if (i == 0) log_ps.insert(got[i].log_p);
            }
        }
    }
    EXPECT_EQ(log_ps.size(), 3u);  // three arithmetics
}

TEST_F(NpuOffload, PhasesOfOneThatAttends) {
    for (const NpuPhase phase : {NpuPhase::Prefill, NpuPhase::Decode}) {
        options_.phase = phase;
        const auto model = npu();
        ASSERT_FALSE(model);
        EXPECT_NE(model.error().message.find("expected both or auto, since the NPU has the KV cache"),
                  std::string::npos)
            << model.error().message;
    }
    options_.phase = NpuPhase::Auto;
    auto model = npu();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_NE((*model)->description().find("auto: both phases"), std::string::npos);
    // By the cost model, for which weights of a few KiB are not worth the overhead of a layer.
    options_.offload = "blk.*.ffn";
    auto parts = npu();
    ASSERT_TRUE(parts) << parts.error().message;
    EXPECT_NE((*parts)->description().find("; auto: "), std::string::npos) << (*parts)->description();
    EXPECT_NE((*parts)->description().find("one row"), std::string::npos) << (*parts)->description();
}

/// One pass then contains rows for hidden states and rows for logits.
TEST_F(NpuOffload, EmbeddingsBesideTexts) {
    options_.offload = "blk.*.ffn,output";
    auto model = npu();
    ASSERT_TRUE(model) << model.error().message;
    const EngineOptions options{.n_ctx = 256, .max_running = 4, .npu = *model};
    auto one = engine(options);
    const Request text = request("Once upon a time", 8);
    const std::vector<int32_t> expected = alone(text, options);
    Request embedded = request(story(3), 1);
    embedded.embedding = Pooling::Mean;
    std::vector<std::vector<float>> found(6);
    std::vector<Ticket> tickets;
    Got got;
    tickets.push_back(*one->submit(text, got.listener()));
    for (std::vector<float>& each : found) {
        Listener listener;
        listener.on_finish = [&each](const Outcome& end) {
            each.assign(end.embedding.begin(), end.embedding.end());
        };
        tickets.push_back(*one->submit(embedded, listener));
    }
    for (const Ticket& ticket : tickets) ticket.wait();
    EXPECT_EQ(got.ids[0], expected);
    for (const std::vector<float>& each : found) {
        EXPECT_FALSE(each.empty());
        EXPECT_EQ(each, found.front());
    }
}

/// Weights that only the device uses are neither packed nor planned, and results are the same; the others are
/// packed.
TEST_F(NpuOffload, WeightsOfTheDeviceStayInTheFile) {
    const std::vector<const Weight*> full = weights_to_pack(loaded_.model->weights());
    const uint64_t full_bytes = loaded_.model->packed_bytes();
    ASSERT_GT(full_bytes, 1'000'000U);
    const std::vector<int32_t> tokens = *loaded_.tokenizer->encode(story(2));
    const auto n_layer = static_cast<size_t>(loaded_.model->hparams().n_layer);
    const size_t n_ffn = 3 * n_layer, n_all = n_ffn + 4 * n_layer + 1;
    const struct {
        const char* offload;
        NpuPhase phase;
        size_t n_left;  // of the weights that have a packed order
    } cases[] = {
        {"", NpuPhase::Both, n_all},          {"", NpuPhase::Auto, n_all},
        {"blk.*.ffn", NpuPhase::Both, n_ffn}, {"blk.0-1.ffn,output", NpuPhase::Both, 2 * 3 + 1},
        {"blk.*.ffn", NpuPhase::Prefill, 0},  {"blk.*.ffn", NpuPhase::Decode, 0},
    };
    for (const auto& c : cases) {
        SCOPED_TRACE(std::string(c.offload) + " " + std::string(npu_phase_name(c.phase)));
        options_.offload = c.offload;
        options_.phase = c.phase;
        const auto npu = this->npu();
        ASSERT_TRUE(npu) << npu.error().message;
        LoadOptions load_options;
        load_options.npu = npu->get();
        const auto lean = load(kModelPath, pool_, load_options);
        ASSERT_TRUE(lean) << lean.error().message;
        const std::vector<const Weight*> weights = weights_to_pack(lean->model->weights());
        uint64_t left_bytes = 0;
        size_t n_left = 0;
        for (size_t i = 0; i < weights.size(); ++i) {
            if (!*full[i] || full[i]->layout == weights[i]->layout) continue;
            ++n_left;
            EXPECT_EQ(weights[i]->layout, Layout::Rows);
            left_bytes += static_cast<uint64_t>(full[i]->n_out) * full[i]->row_bytes;
        }
        EXPECT_EQ(n_left, c.n_left);
        EXPECT_EQ(lean->model->packed_bytes() == full_bytes, c.n_left == 0);
        // Packed matrices are padded to cache lines.
        EXPECT_NEAR(static_cast<double>(full_bytes - lean->model->packed_bytes()),
                    static_cast<double>(left_bytes), static_cast<double>(n_left * 64));
        EXPECT_EQ(lean->model->packed_bytes() == 0, c.n_left == n_all);
        const MemoryDemand demand{.one = {.n_ctx = 64, .n_batch = 32, .max_out = 1}, .n_slots = 1};
        const auto plan = plan_file(kModelPath, load_options, demand, 2);
        const auto taken = plan_memory(*lean->model, demand, 2);
        ASSERT_TRUE(plan && taken);
        EXPECT_EQ(plan->packed, taken->packed);
        EXPECT_EQ(plan->mapped, taken->mapped);

        std::vector<float> logits[2];
        for (const bool is_lean : {false, true}) {
            const auto session = Session::create(is_lean ? lean->model : loaded_.model, pool_,
                                                 {.n_ctx = 256, .n_batch = 32, .npu = *npu});
            ASSERT_TRUE(session) << session.error().message;
            ASSERT_TRUE((*session)->eval(tokens));
            const std::span<const float> got = (*session)->logits();
            logits[is_lean].assign(got.begin(), got.end());
        }
        EXPECT_EQ(logits[0], logits[1]);
    }
}

/// A compiled model file, for contexts of 96 and 192.
std::string compile_file(const std::string& to, const NpuOptions& options, const Model& rows) {
    npu::QuantizedMatrices matrices(*npu::open_recipe(options.recipe));
    const npu::HtpDevice device = *npu::open_device(options.device);
    const npu::Ranges ranges = *npu::parse_ranges(test::read_file(options.ranges));
    const Hparams& h = rows.hparams();
    const auto layout = kv::Layout::create(h.layers, Type::F16, Type::F16);
    std::vector<record::Program> programs;
    for (const int64_t n : {1, 32})
        programs.push_back(
            record_forward(rows, layout, {.n_tok = n, .n_ctx = 192, .logits = RecordedLogits::All}));
    const record::Program* const pointers[] = {&programs[0], &programs[1]};
    const int64_t contexts[] = {96, 192};
    const npu::Partition parts = *npu::partition(programs[0], {}, device, matrices.recipe());
    auto compiled = npu::compile_model({pointers, parts.segments, contexts, device, ranges, matrices});
    EXPECT_TRUE(compiled) << compiled.error().message;
    compiled->model.ops = npu::device_ops(programs[0], parts);
    const auto written = npu::write_context(to, compiled->model, device);
    EXPECT_TRUE(written) << written.error().message;
    return to;
}

TEST_F(NpuOffload, AFileGivesWhatIsCompiledInPlace) {
    auto file = gguf::File::open(kModelPath);
    auto rows = Model::bind(std::move(*file), loaded_.model->kernels(), false);
    ASSERT_TRUE(rows) << rows.error().message;
    auto in_place = npu();
    ASSERT_TRUE(in_place) << in_place.error().message;
    NpuOptions from_file;
    from_file.file = compile_file(folder_.at("tiny.nctx"), options_, **rows);
    options_ = from_file;
    auto compiled = npu();
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_TRUE((*compiled)->owns_kv_cache());
    EXPECT_EQ((*compiled)->description(), (*in_place)->description());
    EXPECT_EQ((*compiled)->left_out(), "");
    for (size_t i = 0; i < (*in_place)->parts().ops.size(); ++i) {
        EXPECT_EQ((*compiled)->parts().ops[i].reason, (*in_place)->parts().ops[i].reason) << i;
        EXPECT_EQ((*compiled)->parts().ops[i].segment, (*in_place)->parts().ops[i].segment) << i;
    }
    EXPECT_NE((*compiled)->compile(96, pool_).error().message.find("found a compiled one"),
              std::string::npos);
    options_.strict = true;
    EXPECT_TRUE(npu());
    const Request asked = request(story(4), 8);
    EXPECT_EQ(alone(asked, {.n_ctx = 192, .max_running = 1, .npu = *compiled}),
              alone(asked, {.n_ctx = 192, .max_running = 1, .npu = *in_place}));
    const auto longer = Session::create(loaded_.model, pool_, {.n_ctx = 193, .npu = *compiled});
    ASSERT_FALSE(longer);
    EXPECT_NE(longer.error().message.find("at most the 192 positions"), std::string::npos);
    // Of another model.
    file = gguf::File::open(kModelPath,
                            {.overrides = {*gguf::parse_override("llama.rope.freq_base=float:9000")}});
    const auto other = EmulatedNpuModel::create(std::move(*file), loaded_.model->kernels(), from_file);
    ASSERT_FALSE(other);
    EXPECT_NE(other.error().message.find("tiny.nctx"), std::string::npos) << other.error().message;
}

/// `tessera npu report` writes the same compiled model that a session compiles for itself.
TEST_F(NpuOffload, CompilingIsTheSameWithAnyThreads) {
    ThreadPool one(1), three(3);
    auto first = npu(), second = npu();
    ASSERT_TRUE(first && second);
    const auto a = (*first)->compile(700, one), b = (*second)->compile(700, three);
    ASSERT_TRUE(a) << a.error().message;
    ASSERT_TRUE(b) << b.error().message;
    EXPECT_EQ((*a)->constants, (*b)->constants);
    EXPECT_EQ((*first)->compile(700, three)->get(), a->get());
    ASSERT_EQ((*a)->model.segments.size(), 2u);
    EXPECT_EQ((*a)->model.segments[0].graphs.size(), 4u);  // of 1 and 128 rows, for 256 and 704 positions
    EXPECT_EQ((*a)->model.n_ctx, 704);
    EXPECT_EQ((*a)->model.ops.size(), (*first)->parts().ops.size());
    const auto path = [this](const char* name) { return folder_.at(name); };
    ASSERT_TRUE(npu::write_context(path("a"), (*a)->model, (*first)->device()));
    ASSERT_TRUE(npu::write_context(path("b"), (*b)->model, (*second)->device()));
    EXPECT_TRUE(test::read_file(path("a")) == test::read_file(path("b")));
    const std::atomic<bool> stop{true};
    three.set_abort_flag(&stop);
    const auto cancelled = (*second)->compile(64, three);
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code, ErrorCode::Cancelled);
    three.set_abort_flag(nullptr);
    EXPECT_TRUE((*second)->compile(64, three));
}

TEST_F(NpuOffload, Refusals) {
    auto model = npu();
    ASSERT_TRUE(model) << model.error().message;
    const auto several = Scheduler::create(loaded_.model, loaded_.tokenizer, pool_,
                                           {.n_ctx = 64, .max_running = 2, .npu = *model});
    ASSERT_FALSE(several);
    EXPECT_NE(
        several.error().message.find("expected 1, since the NPU has the KV cache of one sequence, found 2"),
        std::string::npos);
    auto session = Session::create(loaded_.model, pool_, {.n_ctx = 64, .npu = *model});
    ASSERT_TRUE(session) << session.error().message;
    ASSERT_TRUE((*session)->eval(std::vector<int32_t>{1, 5, 7}));
    for (const auto& refused :
         {(*session)->save(folder_.at("saved")), (*session)->restore(folder_.at("saved"))}) {
        ASSERT_FALSE(refused);
        EXPECT_NE(refused.error().message.find("found it on the NPU"), std::string::npos);
    }
    options_.offload = "blk.6";
    EXPECT_NE(npu().error().message.find("expected 0 to 5, found up to 6"), std::string::npos);
    options_.offload = "";
    options_.ranges =
        folder_.write("other.json", R"({"model": "0123456789abcdef", "n_tok": 1, "ranges": {}})");
    EXPECT_NE(npu().error().message.find("found those of 0123456789abcdef"), std::string::npos);
    options_.ranges = folder_.at("nothing.json");
    EXPECT_NE(npu().error().message.find("nothing.json"), std::string::npos);
}

}  // namespace
}  // namespace tessera::engine
