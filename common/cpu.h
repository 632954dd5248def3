#pragma once
// The machine: instruction sets that processor and operating system allow, cores, caches, limits. Compiled
// without ISA flags, so that it runs everywhere.
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
    // Vendor and family, independent of the flags above.
    bool zen3 = false;  // AMD's family 25 without Zen 4's models
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

/// Memory that this process may still allocate without swapping: MemAvailable of the system, or the rest
/// below the tightest cgroup limit if that is less. 0 where unknown.
size_t available_memory_bytes();

/// Peak and current resident set of this process in bytes (0 where unknown).
size_t peak_rss_bytes();
size_t current_rss_bytes();
/// Restarts the measurement of peak_rss_bytes(); false where the system cannot.
bool restart_peak_rss();

/// The resident set by the kind of its pages; the system can drop those of files and read them again.
struct ResidentSet {
    size_t anonymous_bytes = 0, file_bytes = 0;
};
/// Zeros where unknown.
ResidentSet resident_set();

}  // namespace tessera
