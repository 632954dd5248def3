// The operations of the test models that a device computes, the reasons against the others, the inputs and
// outputs of segments, and selections by users.
#include "src/npu/partition.h"

#include <set>

#include "common/strings.h"
#include "src/npu/offload_share.h"
#include "tests/npu/graph_support.h"

namespace tessera::npu {
namespace {

using namespace test;

/// For models that are partly the device's: the segments, and the operations that remain on the CPU, for the
/// first layer or those outside of layers.
struct Expected {
    std::string model;
    std::vector<std::string> segments, left;
};
const std::string kExperts = ": experts are chosen at run time", kAlone = ": no matrix product next to it",
                  kHead = "output_norm to output, reads x, writes logits",
                  kTiedHead = "output_norm to token_embd, reads x, writes logits";
const Expected kExpected[] = {
    {"mixtral",
     {"blk.0.attn_norm to blk.0.attn_output, reads x, writes x, attends", kHead},
     {"blk.0.ffn_norm" + kAlone, "blk.0.moe_route" + kExperts, "blk.0.moe_gate_up" + kExperts,
      "blk.0.moe_down" + kExperts}},
    {"qwen3moe",
     {"blk.0.attn_norm to blk.0.attn_output, reads x, writes x, attends", kHead},
     {"blk.0.ffn_norm" + kAlone, "blk.0.moe_route" + kExperts, "blk.0.moe_gate_up" + kExperts,
      "blk.0.moe_down" + kExperts}},
    {"gptoss",
     {"blk.0.attn_output to blk.0.attn_output, reads x attn, writes x", kHead},
     {"blk.0.attn_norm" + kAlone, "blk.0.qkv: the KV cache is on the CPU: attention sinks",
      "blk.0.attend: attention sinks", "blk.0.post_attention_norm" + kAlone, "blk.0.moe_route" + kExperts,
      "blk.0.moe_gate_up" + kExperts, "blk.0.moe_down" + kExperts}},
    {"gemma2",
     {"blk.0.attn_output to blk.0.post_ffw_norm, reads attn x, writes x"},
     {"blk.0.attn_norm" + kAlone, "blk.0.qkv: the KV cache is on the CPU: soft-capped attention scores",
      "blk.0.attend: soft-capped attention scores", "output_norm" + kAlone,
      "token_embd: soft-capped output"}},
    {"mistral3",
     {"blk.0.attn_output to blk.0.ffn_down, reads x attn, writes x", kTiedHead},
     {"blk.0.attn_norm" + kAlone, "blk.0.qkv: attention temperature scaling",
      "blk.0.attend: the KV cache is on the CPU: attention temperature scaling"}},
    {"mixed-heads",
     {"blk.0.attn_output to blk.1.ffn_down, reads x attn, writes x, attends", kHead},
     {"blk.0.attn_norm" + kAlone, "blk.0.qkv: heads with 32 key and 64 value elements",
      "blk.0.attend: the KV cache is on the CPU: heads with 32 key and 64 value elements"}},
    {"wide-heads",
     {"blk.0.attn_output to blk.0.ffn_down, reads x attn, writes x", kTiedHead},
     {"blk.0.attn_norm" + kAlone, "blk.0.qkv: heads with 576 key and 512 value elements",
      "blk.0.attend: the KV cache is on the CPU: heads with 576 key and 512 value elements"}},
    {"starcoder2",
     {"blk.0.qkv to blk.0.attn_output, reads h x, writes x, attends",
      "blk.0.ffn_down to blk.0.ffn_down, reads x ff, writes x",
      "token_embd to token_embd, reads out, writes logits"},
     {"blk.0.layer_norm: the device has no such operation",
      "blk.0.layer_norm: the device has no such operation", "blk.0.ffn_up: an activation of a single product",
      "layer_norm: the device has no such operation"}},
    {"qwen2moe",
     {"blk.0.attn_norm to blk.0.attn_output, reads x, writes x, attends",
      "blk.0.ffn_down_shexp to blk.1.attn_output, reads x shared_ff, writes x, attends", kTiedHead},
     {"blk.0.ffn_norm" + kAlone, "blk.0.moe_route" + kExperts, "blk.0.moe_gate_up" + kExperts,
      "blk.0.moe_down" + kExperts, "blk.0.ffn_gate_up: a shared expert's gate"}},
    {"granitemoe",
     {"blk.0.attn_norm to blk.0.attn_output, reads x, writes x, attends",
      "blk.0.ffn_gate_up to blk.1.attn_output, reads h x, writes x, attends", kTiedHead},
     {"blk.0.ffn_norm" + kAlone, "blk.0.moe_route" + kExperts, "blk.0.moe_gate_up" + kExperts,
      "blk.0.moe_down" + kExperts}},
};

HtpDevice a_device() { return *open_device("x-elite"); }

Partition partition_of(const record::Program& program, const Selection& selection = {}) {
    return *partition(program, selection, a_device(), *open_recipe("w4a16"));
}

/// "blk.0.attn_norm to blk.1.ffn_down, reads x, writes x, attends".
std::string text_of(const record::Program& program, const DeviceRange& range) {
    const auto name = [&](int32_t i) { return op_name(program, program.ops[static_cast<size_t>(i)]); };
    std::string out = name(range.first_op) + " to " + name(range.last_op);
    for (const auto& [verb, values] :
         {std::pair(", reads ", &range.inputs), std::pair(", writes ", &range.outputs)}) {
        out += verb;
        for (const record::ValueId id : *values)
            out += (id == values->front() ? "" : " ") + program[program[id].slot].name;
    }
    return out + (range.attends ? ", attends" : "");
}

std::vector<std::string> texts_of(const record::Program& program, const Partition& parts) {
    std::vector<std::string> out;
    for (const DeviceRange& range : parts.segments) out.push_back(text_of(program, range));
    return out;
}

class Partitions : public testing::TestWithParam<TestModel> {
  protected:
    void SetUp() override {
        auto model = load_model(GetParam().path(), pool_, "", false);
        ASSERT_TRUE(model) << model.error().message;
        model_ = std::move(*model);
        program_ = program_of(*model_, 8, 64, RecordedLogits::All);
    }

    ThreadPool pool_{1};
    std::shared_ptr<const Model> model_;
    record::Program program_;
};

TEST_P(Partitions, AreTheSegmentsAndTheReasonsOfTheModel) {
    const Partition parts = partition_of(program_);
    const std::vector<std::string> found = texts_of(program_, parts);
    const std::string left = left_out_text(program_, parts);
    for (const Expected& expected : kExpected) {
        if (expected.model != GetParam().name) continue;
        std::string of_first;
        for (const std::string_view line : split(left, '\n'))
            if (!line.starts_with("blk.") || line.starts_with("blk.0."))
                of_first += std::string(line) + (line.empty() ? "" : "\n");
        std::string lines;
        for (const std::string& line : expected.left) lines += line + "\n";
        EXPECT_EQ(of_first, lines);
        std::vector<std::string> segments;
        for (const std::string& text : found)
            if (!text.starts_with("blk.") || text.starts_with("blk.0.")) segments.push_back(text);
        EXPECT_EQ(segments, expected.segments);
        return;
    }
    // All other models have two segments, and no operation remains on the CPU.
    EXPECT_EQ(left, "");
    ASSERT_EQ(found.size(), 2u);
    EXPECT_TRUE(found[0].starts_with("blk.0.")) << found[0];
    EXPECT_TRUE(found[0].ends_with(", reads x, writes x, attends")) << found[0];
    EXPECT_TRUE(found[1].starts_with("output_norm to ")) << found[1];
    EXPECT_TRUE(found[1].ends_with(", reads x, writes logits")) << found[1];
    const auto n_before = program_.ropes.size() + 1;
    EXPECT_EQ(parts.n_on_device(), std::ssize(program_.ops) - static_cast<int64_t>(n_before));
}

/// Invariants of any selection: segments are maximal runs of operations, and every value that crosses a
/// border is an input or an output.
TEST_P(Partitions, CoverTheSelection) {
    const int64_t n_layer = std::ssize(program_.caches);
    for (const char* list : {"blk.*.ffn", "blk.*.attn", "blk.0", "output", "blk.0.attn,blk.1.ffn,output"}) {
        const Partition parts = partition_of(program_, *Selection::parse(list));
        std::vector<int32_t> of_op(program_.ops.size(), -1);
        for (size_t s = 0; s < parts.segments.size(); ++s) {
            const DeviceRange& range = parts.segments[s];
            ASSERT_LE(range.first_op, range.last_op);
            for (int32_t i = range.first_op; i <= range.last_op; ++i) {
                EXPECT_EQ(of_op[static_cast<size_t>(i)], -1);
                of_op[static_cast<size_t>(i)] = static_cast<int32_t>(s);
            }
            EXPECT_FALSE(range.inputs.empty());
            EXPECT_FALSE(range.outputs.empty());
            const auto graph = lower(program_, range, 64);
            ASSERT_TRUE(graph) << graph.error().message;
            EXPECT_EQ(graph->inputs.size(), range.inputs.size());
            EXPECT_EQ(graph->outputs.size(), range.outputs.size());
            for (size_t i = 0; i < range.outputs.size(); ++i)
                EXPECT_EQ((*graph)[graph->outputs[i]].dim, program_[program_[range.outputs[i]].slot].dim);
        }
        for (size_t i = 0; i < of_op.size(); ++i) {
            EXPECT_EQ(parts.ops[i].segment, of_op[i]) << i;
            EXPECT_EQ(parts.ops[i].why == LeftOut::No, of_op[i] >= 0) << i;
            EXPECT_EQ(parts.ops[i].reason.empty(), of_op[i] >= 0) << i;
        }
        if (std::string_view(list) == "blk.*.ffn") {
            EXPECT_FALSE(parts.attends());
        }
    }
    EXPECT_EQ(partition_of(program_, Selection::first_layers(0)).segments.size(), 0u);
    const auto wrong =
        partition(program_, Selection::first_layers(n_layer + 1), a_device(), *open_recipe("w4a16"));
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().message.find("expected 0 to " + std::to_string(n_layer - 1)), std::string::npos);
}

/// A range's values have the names of the whole graph.
TEST_P(Partitions, NamesAreThoseOfTheWhole) {
    const auto whole = lower(program_, 64);
    if (!whole) GTEST_SKIP() << whole.error().message;
    std::set<std::string> names;
    for (const GraphValue& value : whole->values) names.insert(value.name);
    size_t n_nodes = 0;
    for (const DeviceRange& range : partition_of(program_).segments) {
        const auto graph = lower(program_, range, 64);
        ASSERT_TRUE(graph) << graph.error().message;
        n_nodes += graph->nodes.size();
        for (const GraphValue& value : graph->values) EXPECT_TRUE(names.contains(value.name)) << value.name;
    }
    EXPECT_EQ(n_nodes, whole->nodes.size());
    const Partition ffn = partition_of(program_, *Selection::parse("blk.*.ffn"));
    for (const DeviceRange& range : ffn.segments) {
        const Graph graph = *lower(program_, range, 64);
        EXPECT_LT(graph.values.size(), 12u);
        for (const GraphValue& value : graph.values) EXPECT_TRUE(names.contains(value.name)) << value.name;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Partitions, testing::ValuesIn(kTestModels), name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, Partitions, testing::ValuesIn(kLayerModels), name_of);

/// All weights except lookup tables, those of the experts that a token takes, and attention.
TEST_P(Partitions, WorkAddsUpToTheModels) {
    constexpr int64_t n_ctx = 100;
    const Partition parts = partition_of(program_);
    const OffloadShare share = offload_share(program_, parts, n_ctx);
    int64_t others = 0;  // than the matrices of layers and head
    for (const record::Op& op : program_.ops) {
        const LayerSpec& layer = model_->hparams().layers[static_cast<size_t>(std::max(0, op.layer))];
        if (const auto* attend = std::get_if<record::AttendOp>(&op.verb))
            others += (layer.n_q() + layer.n_attn()) *
                      (attend->window > 0 ? std::min(attend->window, n_ctx) : n_ctx);
        if (const auto* gated = std::get_if<record::FfnGateUpOp>(&op.verb);
            gated && gated->shared_expert_gate)
            others += model_->hparams().n_embd;
    }
    EXPECT_EQ(share.device.products + share.processor.products,
              model_->macs_per_token() + model_->head_macs() + others);
    EXPECT_EQ(share.device.n_ops, parts.n_on_device());
    EXPECT_EQ(share.device.n_ops + share.processor.n_ops, std::ssize(program_.ops));
    EXPECT_EQ(share.processor.products == 0, left_out_text(program_, parts).empty());
    EXPECT_GT(share.device.weight_bytes, 0);
}

TEST(Selection, IsAListOfLayersAndParts) {
    using Part = Selection::Part;
    const Selection all;
    EXPECT_TRUE(all.has(99, Part::FeedForward) && all.has(-1, Part::Head));
    const Selection some = *Selection::parse("blk.2-3.ffn,blk.5,output,blk.7-7.attn");
    for (int64_t layer = 0; layer < 9; ++layer) {
        EXPECT_EQ(some.has(layer, Part::FeedForward), layer == 2 || layer == 3 || layer == 5) << layer;
        EXPECT_EQ(some.has(layer, Part::Attention), layer == 5 || layer == 7) << layer;
    }
    EXPECT_TRUE(some.has(-1, Part::Head));
    EXPECT_TRUE(some.check(8));
    EXPECT_FALSE(some.check(7));
    EXPECT_TRUE(Selection::parse("blk.*.attn")->check(1));
    EXPECT_FALSE(Selection::first_layers(2).has(2, Part::Attention));
    EXPECT_FALSE(Selection::first_layers(2).has(-1, Part::Head));
    for (const char* list :
         {"", ",", "blk", "blk.", "blk.1.", "blk.1.ff", "blk.1.ffn.x", "blk.2-1", "blk.-1", "blk.1-2-3",
          "blk.*-3", "blk.0x1", "output.", "blk.1,", "blk.99999999999999999999"}) {
        const auto parsed = Selection::parse(list);
        ASSERT_FALSE(parsed) << list;
        EXPECT_NE(parsed.error().message.find("expected output or layers"), std::string::npos);
    }
}

TEST(Partition, FollowsTheDevicesFeatures) {
    ThreadPool pool(1);
    auto model = load_model(model_file("llama"), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    const record::Program program = program_of(**model, 8, 64, RecordedLogits::All);
    HtpDevice device = a_device();
    device.lpbq = false;
    const Partition four = *partition(program, {}, device, *open_recipe("w4a16"));
    // The recipe has the head in 8 bits.
    EXPECT_EQ(texts_of(program, four), std::vector<std::string>{kHead});
    EXPECT_NE(left_out_text(program, four).find("blk.0.qkv: x-elite does not support 4-bit block weights"),
              std::string::npos);
    const Partition eight = *partition(program, {}, device, *open_recipe("w8a16"));
    EXPECT_EQ(eight.segments.size(), 2u);
    EXPECT_EQ(eight.boundary_bytes(program),
              4 * (3 * (*model)->hparams().n_embd + (*model)->hparams().n_vocab));
}

}  // namespace
}  // namespace tessera::npu
