#pragma once
// The specs of all architectures, one file of this folder per family; registry.cpp lists them.
#include "src/model/arch_spec.h"

namespace tessera::arch {

extern const ArchSpec kLlama, kMistral3, kSmolLm3;
extern const ArchSpec kQwen2, kQwen2Moe, kQwen3, kQwen3Moe;
extern const ArchSpec kGemma, kGemma2, kGemma3;
extern const ArchSpec kPhi3;
extern const ArchSpec kOlmo2;
extern const ArchSpec kGranite, kGraniteMoe;
extern const ArchSpec kGptOss;

}  // namespace tessera::arch
