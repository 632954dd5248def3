#pragma once
// The parts of cpu.cpp that take their facts as arguments, so that tests can feed them other machines.
#include <cstdint>
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

/// "0-3,8" as numbers. A part that is no number or range is left out.
std::vector<int> parse_cpu_list(std::string_view text);

/// Reads /proc and /sys below `root` ("" for this machine) as seen by a process that may run on `cpus`.
/// Whatever is missing or unreadable there counts as unknown.
CpuTopology read_topology(const std::string& root, const std::vector<int>& cpus);

/// What available_memory_bytes() says on a machine like this.
size_t read_available_memory(const std::string& root);

/// What default_thread_count() says on a machine like this.
int thread_count_for(const CpuTopology& topology);

}  // namespace tessera::cpu_detail
