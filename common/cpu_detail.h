#pragma once
// The parts of cpu.cpp that take their facts as arguments, so that tests can feed them other machines.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/cpu.h"

namespace tessera::cpu_detail {

/// Registers of CPUID as Intel's manual (volume 2A, CPUID) names them; zero where the processor lacks the
/// leaf.
struct X86Leaves {
    uint32_t leaf0_ebx = 0;
    uint32_t leaf1_eax = 0, leaf1_ecx = 0;
    uint32_t leaf7_ebx = 0, leaf7_ecx = 0;
    uint32_t leaf7_1_eax = 0;
    uint64_t xcr0 = 0;  ///< register state the OS saves; read only where leaf 1 says OSXSAVE
};

/// A feature counts only when the OS saves the registers that it uses.
CpuFeatures x86_features(const X86Leaves& leaves);

/// One sub-leaf of CPUID leaf 4 (Intel) or 0x8000001D (AMD), which describe a cache each in the same fields.
struct CacheLeaf {
    uint32_t eax = 0, ebx = 0, ecx = 0;
};

/// Fills in the sizes that `topology` does not have yet. Virtual machines often hide the caches in /sys.
void add_cache_leaves(std::span<const CacheLeaf> leaves, CpuTopology& topology);

/// "0-3,8" as numbers. Parts that are neither a number nor a range are left out.
std::vector<int> parse_cpu_list(std::string_view text);

/// Reads /proc and /sys below `root` ("" for this machine) as seen by a process that may run on `cpus`.
/// Facts that are missing or unreadable there count as unknown.
CpuTopology read_topology(const std::string& root, const std::vector<int>& cpus);

/// available_memory_bytes() of such a machine.
size_t read_available_memory(const std::string& root);

/// default_thread_count() on such a machine.
int thread_count_for(const CpuTopology& topology);

}  // namespace tessera::cpu_detail
