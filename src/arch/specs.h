#pragma once
// Every architecture's spec, one per file of this folder; registry.cpp lists them.
#include "src/model/arch_spec.h"

namespace tessera::arch {

extern const ArchSpec kLlama;

}  // namespace tessera::arch
