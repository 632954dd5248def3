// The program's commands, in the groups and the order in which the help text lists them. A new one is a file,
// its line in commands.h and its place here.
#include "examples/tessera/commands.h"

int main(int argc, char** argv) {
    using namespace tessera;
    const CommandGroup groups[] = {
        {"Generate text", {&kRun, &kChat, &kServe}},
        {"Look at a model", {&kInspect, &kPlan, &kTokenize, &kDetokenize, &kTemplate, &kProgram}},
        {"Make model files",
         {&kConvert, &kQuantize, &kImatrix, &kPack, &kUnpack, &kSplit, &kMerge, &kDiff, &kHash}},
        {"Measure", {&kBench, &kPerplexity, &kLogits, &kInfo}},
#if defined(TSR_NPU)
        {"Emulated NPU", {&kNpuDevices, &kNpuCalibrate, &kNpuCompile, &kNpuInspect, &kNpuReport}},
#endif
    };
    return run_program(argc, argv, groups);
}
