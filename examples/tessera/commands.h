#pragma once
// The commands, each in the file of its name. main.cpp puts them in order.
#include "examples/tessera/options.h"

namespace tessera {

extern const Command kRun, kChat, kServe, kTokenize, kDetokenize, kLogits, kInspect, kInfo, kBench, kPack,
    kUnpack, kPerplexity, kQuantize, kConvert, kTemplate, kPlan, kImatrix, kDiff, kSplit, kMerge, kHash,
    kProgram, kNpuDevices, kNpuCalibrate, kNpuInspect, kNpuCompile, kNpuReport;

}  // namespace tessera
