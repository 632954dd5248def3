// Recorded programs: parameters by name, data flow, layers, lifetimes, and places that never overlap.
// Recording the run of a program gives the same program.
#include "ggml-like/record/program.h"

#include <set>

#include "ggml-like/record/recorder.h"
#include "ggml-like/record/replay.h"
#include "src/model/tensor_names.h"
#include "tests/record/support.h"

namespace tessera::record {

namespace {

using test::TestModel;

std::vector<TestModel> all_models() {
    std::vector<TestModel> models(std::begin(test::kTestModels), std::end(test::kTestModels));
    models.push_back(test::kTinyModel);
    return models;
}

constexpr RecordedLogits kLogits[] = {RecordedLogits::None, RecordedLogits::Last, RecordedLogits::All};

class Programs : public testing::TestWithParam<TestModel> {
  protected:
    /// A bound model, which suffices for recording.
    void SetUp() override {
        auto file = gguf::File::open(test::path_of(GetParam()));
        ASSERT_TRUE(file) << file.error().message;
        auto model = Model::bind(std::move(*file), test::kernel_table(), true);
        ASSERT_TRUE(model) << model.error().message;
        model_ = std::move(*model);
        const Hparams& h = model_->hparams();
        layout_ = kv::Layout::create(h.layers, Type::F16, Type::F16);
    }

    Program program(int64_t n_tok, RecordedLogits logits) const {
        return record_forward(*model_, layout_, {.n_tok = n_tok, .n_ctx = 64, .logits = logits});
    }

    std::unique_ptr<Model> model_;
    kv::Layout layout_;
};

/// Values by their use in an operation.
struct Uses {
    std::vector<ValueId> read = {}, written = {};

    void operator()(FieldName, const Read& role) { add(read, role.value); }
    void operator()(FieldName, const Write& role) { add(written, role.value); }
    void operator()(FieldName, const Scratch& role) { add(written, role.value); }
    void operator()(FieldName, const Update& role) {
        add(read, role.before);
        add(written, role.after);
    }
    template <class... Other>
    void operator()(FieldName, const Other&...) {}

    static void add(std::vector<ValueId>& to, ValueId id) {
        if (id) to.push_back(id);
    }
};

Uses uses_of(const Op& op) {
    Uses uses;
    op.fields(uses);
    return uses;
}

TEST_P(Programs, ValuesAreWrittenOnceAndBeforeTheyAreRead) {
    for (const RecordedLogits logits : kLogits) {
        const Program p = program(8, logits);
        std::vector<int> n_writes(p.values.size());
        std::vector<int32_t> holder(p.slots.size(), -1);  // the value that a slot holds
        for (size_t i = 0; i < p.ops.size(); ++i) {
            const Uses uses = uses_of(p.ops[i]);
            for (const ValueId id : uses.read) {
                EXPECT_EQ(holder[static_cast<size_t>(p[id].slot.at)], id.at) << "operation " << i;
                EXPECT_LT(p[id].first, static_cast<int32_t>(i));
                EXPECT_GE(p[id].last, static_cast<int32_t>(i));
            }
            for (const ValueId id : uses.written) {
                ++n_writes[static_cast<size_t>(id.at)];
                holder[static_cast<size_t>(p[id].slot.at)] = id.at;
                EXPECT_EQ(p[id].first, static_cast<int32_t>(i));
                EXPECT_LE(p[id].rows, p[p[id].slot].rows);
            }
        }
        for (const int n : n_writes) EXPECT_EQ(n, 1);
        EXPECT_EQ(static_cast<bool>(p.output), logits != RecordedLogits::None);
        if (!p.output) continue;
        EXPECT_EQ(p[p.output].rows, logits == RecordedLogits::All ? 8 : 1);
        EXPECT_EQ(p[p[p.output].slot].dim, model_->hparams().n_vocab);
        EXPECT_EQ(p[p.output].last, static_cast<int32_t>(p.ops.size()) - 1);
    }
}

TEST_P(Programs, ValuesAliveAtOnceDoNotOverlap) {
    for (const int64_t n_tok : {1, 8, 32}) {
        const Program p = program(n_tok, RecordedLogits::All);
        for (size_t i = 0; i < p.slots.size(); ++i) {
            const Slot& a = p.slots[i];
            EXPECT_EQ(a.offset % 64, 0u);
            EXPECT_LE(a.offset + a.n_bytes, p.arena_bytes);
            for (size_t j = 0; j < i; ++j) {
                const Slot& b = p.slots[j];
                if (a.first > b.last || b.first > a.last) continue;
                EXPECT_TRUE(a.offset + a.n_bytes <= b.offset || b.offset + b.n_bytes <= a.offset)
                    << a.name << " of operations " << a.first << " to " << a.last << " and " << b.name
                    << " of " << b.first << " to " << b.last;
            }
        }
        EXPECT_LE(p.least_bytes, p.arena_bytes);
        EXPECT_LE(p.arena_bytes, p.least_bytes * 5 / 4);
        EXPECT_LT(p.arena_bytes, Activations::bytes(*model_, n_tok, n_tok));
    }
}

/// Each tensor of the file that takes part in a product, a lookup or a sum occurs with its shape and type.
TEST_P(Programs, ParametersAreTheFilesTensors) {
    const Program p = program(4, RecordedLogits::All);
    const gguf::File& file = model_->file();
    std::map<std::string, int64_t> rows;  // of each tensor that occurs
    for (const auto& param : p.weights) {
        const gguf::TensorInfo* tensor = file.find_tensor(param.tensor.name);
        ASSERT_TRUE(tensor) << param.tensor.name;
        const Weight& w = param.view;
        EXPECT_EQ(w.type, tensor->type) << param.tensor.name;
        EXPECT_EQ(w.n_in, tensor->n_cols()) << param.tensor.name;
        EXPECT_EQ(w.n_expert, tensor->n_dims == 3 ? tensor->shape[0] : 0) << param.tensor.name;
        const size_t row_at = static_cast<size_t>(param.tensor.row0) * w.row_bytes;
        EXPECT_EQ(w.data, tensor->data.data() + row_at) << param.tensor.name;
        rows[param.tensor.name] += w.n_out * std::max<int64_t>(1, w.n_expert);
    }
    for (const auto& param : p.vectors) rows[param.tensor.name] += param.view.n;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        const std::string name(tensor.name);
        if (name.starts_with("rope_")) continue;  // in the angles
        const bool is_matrix = tensor.n_elements() != rows[name];
        EXPECT_EQ(rows[name] * (is_matrix ? tensor.n_cols() : 1), tensor.n_elements()) << name;
    }
    ASSERT_FALSE(p.ropes.empty());
    const RopeSpec rope = model_->rope(64);
    EXPECT_EQ(p.ropes[0].freq, std::vector<double>(rope.freq, rope.freq + rope.n_rot / 2));
}

TEST_P(Programs, OperationsKnowTheirLayer) {
    const Program p = program(8, RecordedLogits::Last);
    const Hparams& h = model_->hparams();
    int32_t layer = -1;
    int64_t n_qkv = 0, n_attend = 0;
    for (size_t i = 0; i < p.ops.size(); ++i) {
        const Op& op = p.ops[i];
        if (const auto* qkv = std::get_if<QkvOp>(&op.verb)) {
            EXPECT_EQ(op.layer, n_qkv++);
            EXPECT_EQ(qkv->cache.at, op.layer);
            EXPECT_EQ(qkv->rope == RopeKind::None,
                      h.layers[static_cast<size_t>(op.layer)].rope == LayerRope::None ||
                          model_->arch().rope == RopeKind::None);
        }
        if (const auto* attend = std::get_if<AttendOp>(&op.verb)) {
            EXPECT_EQ(op.layer, n_attend++);
            EXPECT_EQ(attend->cache.at, op.layer);
            EXPECT_EQ(attend->window, h.layers[static_cast<size_t>(op.layer)].window);
            EXPECT_EQ(attend->segments, op.layer + 1 == h.n_layer ? Rows::Last : Rows::All);
        }
        // Operations before the first layer and after the last one belong to no layer; in between the layers
        // rise.
        if (op.layer >= 0) {
            EXPECT_TRUE(op.layer == layer || op.layer == layer + 1) << "operation " << i;
            layer = op.layer;
        } else {
            EXPECT_TRUE(layer == -1 || layer + 1 == h.n_layer) << "operation " << i << " " << op.name();
        }
    }
    EXPECT_EQ(n_qkv, h.n_layer);
    EXPECT_EQ(n_attend, h.n_layer);
}

TEST_P(Programs, ARecordedReplayIsTheProgramAgain) {
    const TensorNames names = tensor_names(*model_);
    for (const int64_t n_tok : {1, 8})
        for (const RecordedLogits logits : kLogits) {
            const Program p = program(n_tok, logits);
            auto replay = Replay::create(p);
            ASSERT_TRUE(replay) << replay.error().message;
            RecordBackend recorder(n_tok, p.n_layer_groups, names);
            std::vector<std::byte* const*> pages;
            for (const Segment& segment : recorder.segments()) pages.push_back(segment.pages);
            replay->run(recorder, recorder.tokens(), 0, pages);
            const Program again = recorder.finish(p.output ? &replay->act(p.output) : nullptr);
            EXPECT_EQ(to_text(again), to_text(p));
        }
}

INSTANTIATE_TEST_SUITE_P(Models, Programs, testing::ValuesIn(all_models()), test::name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, Programs, testing::ValuesIn(test::kLayerModels), test::name_of);

}  // namespace

}  // namespace tessera::record
