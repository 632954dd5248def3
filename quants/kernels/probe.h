#pragma once
// The rooflines of the kernels, as functions to be timed: streaming reads, and the two multiply-accumulate
// chains that products consist of. One table an instruction set. Included by ISA units: only C headers here.
#include <stddef.h>
#include <stdint.h>

namespace tessera::kernels {

/// Runs n_rounds of independent accumulators over operands in registers: the peak rate of a product's
/// instructions without loads.
struct ProbeChain {
    void (*run)(int64_t n_rounds);
    int64_t macs_per_round;  // multiply-accumulates
};

/// Reads n_bytes (a multiple of 4096) once. Which way reaches the higher bandwidth depends on a core's
/// prefetchers.
struct ReadProbes {
    void (*side_by_side)(const void* p, size_t n_bytes);  // as four streams
    void (*in_order)(const void* p, size_t n_bytes);
};

struct ProbeTable {
    const char* name;  // of the kernel table it belongs to
    ReadProbes read;
    ProbeChain int8;  // as the integer kernels: products of bytes, summed in pairs twice, added
    ProbeChain fma;   // as the float kernels
};

extern const ProbeTable kScalarProbe;
extern const ProbeTable kAvx2Probe;
extern const ProbeTable kAvxVnniProbe;
extern const ProbeTable kAvx512VnniProbe;
extern const ProbeTable kNeonProbe;
extern const ProbeTable kDotprodProbe;
extern const ProbeTable kI8mmProbe;

/// The table of this name, or null.
const ProbeTable* probe_table(const char* isa_name);

}  // namespace tessera::kernels
