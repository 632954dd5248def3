#pragma once
// What this machine is: instruction sets the processor AND the operating system allow, cores, caches, limits.
// Compiled without ISA flags, so that asking is safe everywhere.
#include <cstddef>
#include <string>

namespace tessera {

struct CpuFeatures {
    bool avx2 = false;  // with FMA and F16C, and YMM state enabled by the OS
    bool avx_vnni = false;
    bool avx512 = false;  // F, BW, DQ, VL and ZMM state
    bool avx512_vnni = false;
    bool neon = false;
    bool dotprod = false;
    bool i8mm = false;
    // Who made it, whatever of the above the OS allows.
    bool zen3 = false;  // AMD's family 25 but for Zen 4's models
    bool zen5 = false;  // AMD's family 26
    bool intel = false;
};

struct CpuTopology {
    int n_logical = 1;   ///< CPUs this process may run on (affinity mask)
    int n_physical = 1;  ///< distinct cores among them (SMT siblings count once)
    double quota = 0;    ///< cgroup v1/v2 CPU quota in cores, 0 = none
    size_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  ///< of the first CPU; 0 = unknown
    size_t memory_bytes = 0;                           ///< physical memory, or the cgroup's limit where lower
    std::string model_name;
};

/// Detected once; thread-safe.
const CpuFeatures& cpu_features();
const CpuTopology& cpu_topology();

/// Physical cores within the affinity mask, no more than the quota rounded down, at least 1.
int default_thread_count();

/// What this process may still take without driving others out: what the system calls available, or what the
/// tightest cgroup leaves where that is less. 0 where unknown.
size_t available_memory_bytes();

/// Peak and current resident set of this process in bytes (0 where unknown).
size_t peak_rss_bytes();
size_t current_rss_bytes();
/// Has peak_rss_bytes() tell the peak from now on; false where the system does not.
bool restart_peak_rss();

/// The resident set by where its pages come from: the system can drop those of files and read them again.
struct ResidentSet {
    size_t anonymous_bytes = 0, file_bytes = 0;
};
/// Zeros where unknown.
ResidentSet resident_set();

}  // namespace tessera
