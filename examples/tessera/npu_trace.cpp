// Events of the trace: one for each instruction with its operands, one for each operation, and the use of
// VTCM as a counter. The format is the Trace Event Format, whose times are in microseconds.
#include "examples/tessera/npu_trace.h"

#include "examples/tessera/json.h"
#include "src/npu/graph_cost.h"
#include "src/npu/operands.h"

namespace tessera {

namespace {

using namespace npu;

constexpr int kProcess = 0, kOperations = kUnits;  // threads: the units, and then the operations

void add_operand(Json& out, const char* name, const Encoding& e) {
    out[name] = {{"bits", e.bits}, {"scale", e.scale}, {"zero", e.zero}};
}
void add_operand(Json& out, const char* name, const Multiplier& m) {
    out[name] = {{"mult", m.mult}, {"shift", m.shift}};
}
template <class T>
void add_operand(Json& out, const char* name, const T& value) {
    if constexpr (std::is_enum_v<T>)
        out[name] = static_cast<int>(value);
    else
        out[name] = value;
}

Json arguments(const Instruction& instruction, const std::string& operation) {
    Json out = {{"of", operation}};
    if (const int64_t bytes = bytes_moved(instruction)) out["bytes"] = bytes;
    Instruction::visit(instruction, [&out](const auto& operands) {
        std::remove_cvref_t<decltype(operands)>::fields(
            operands, [&out](const char* name, const auto& value) { add_operand(out, name, value); });
    });
    return out;
}

/// One event per line, so that the file can be searched.
class Trace {
  public:
    Trace() {
        text_ =
            "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"times\": \"a model of the device, not "
            "measured\"},\n\"traceEvents\": [";
        name("process_name", 0, "NPU (model)");
        constexpr const char* kThreads[] = {"DMA", "HVX", "HMX", "operations"};
        for (int i = 0; i <= kOperations; ++i) name("thread_name", i, kThreads[i]);
    }

    void span(int thread, const std::string& name, double begin_us, double end_us, const Json& args) {
        add({{"ph", "X"},
             {"pid", kProcess},
             {"tid", thread},
             {"name", name},
             {"ts", rounded(begin_us)},
             {"dur", rounded(end_us - begin_us)},
             {"args", args}});
    }
    void counter(const char* name, double at_us, int64_t bytes) {
        add({{"ph", "C"},
             {"pid", kProcess},
             {"name", name},
             {"ts", rounded(at_us)},
             {"args", {{"bytes", bytes}}}});
    }
    std::string take() { return text_ + "\n]}\n"; }

  private:
    void name(const char* what, int thread, const char* value) {
        add({{"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"name", what}, {"args", {{"name", value}}}});
    }
    void add(const Json& event) {
        const std::string line = json_line(event);
        text_ += (first_ ? "\n" : ",\n") + line.substr(0, line.size() - 1);
        first_ = false;
    }

    std::string text_;
    bool first_ = true;
};

/// Returns the end time.
double add_graph(Trace& trace, const DeviceGraph& graph, const HtpDevice& device, size_t segment,
                 double start_us) {
    const GraphCost cost = graph_cost(graph, device);
    double done_us = start_us;
    for (const NodeCost& node : cost.nodes) {
        for (uint32_t i = 0; i < node.n_instructions; ++i) {
            const Instruction& instruction = graph.stream[node.first + i];
            const Interval& time = cost.timeline.intervals[node.first + i];
            trace.span(static_cast<int>(unit_of(instruction.op)), opcode_name(instruction.op),
                       start_us + time.begin_us, start_us + time.end_us, arguments(instruction, node.name));
        }
        trace.span(kOperations, node.name, done_us, done_us + node.predicted_us,
                   {{"segment", segment}, {"rows", graph.n_tok}, {"positions", graph.n_ctx}});
        done_us += node.predicted_us;
    }
    for (const VtcmUse& use : vtcm_use(graph, cost.timeline))
        trace.counter("vtcm_used", start_us + use.at_us, use.bytes);
    return start_us + cost.timeline.total_us;
}

}  // namespace

std::string npu_trace(const ContextFile& file, int64_t rows, int64_t n_ctx) {
    Trace trace;
    double at_us = 0;
    for (size_t i = 0; i < file.model().segments.size(); ++i) {
        const DeviceGraph& graph = graph_for(file.model().segments[i], rows, n_ctx);
        trace.span(kOperations, "start of a graph", at_us, at_us + file.device().graph_us, {{"segment", i}});
        at_us = add_graph(trace, graph, file.device(), i, at_us + file.device().graph_us);
    }
    return trace.take();
}

}  // namespace tessera
