// The program's commands, in the order in which the help text lists them. A new one is a file, its line in
// commands.h and its row here.
#include "examples/tessera/commands.h"

int main(int argc, char** argv) {
    using namespace tessera;
    const Command* const commands[] = {
        &kRun,
        &kChat,
        &kServe,
        &kPlan,
        &kTokenize,
        &kDetokenize,
        &kTemplate,
        &kInspect,
        &kDiff,
        &kHash,
        &kSplit,
        &kMerge,
        &kPack,
        &kUnpack,
        &kConvert,
        &kQuantize,
        &kImatrix,
        &kLogits,
        &kPerplexity,
        &kBench,
        &kProgram,
        &kInfo,
#if defined(TSR_NPU)
        &kNpuDevices,
        &kNpuCalibrate,
        &kNpuCompile,
        &kNpuInspect,
        &kNpuReport,
#endif
    };
    return run_program(argc, argv, commands);
}
