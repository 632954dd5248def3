#pragma once
// Every architecture's spec, a file of this folder for each family; registry.cpp lists them.
#include "src/model/arch_spec.h"

namespace tessera::arch {

extern const ArchSpec kLlama;
extern const ArchSpec kQwen2, kQwen3, kQwen3Moe;

}  // namespace tessera::arch
