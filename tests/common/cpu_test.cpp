#include "common/cpu.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/arena.h"
#include "common/cpu_detail.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using cpu_detail::add_cache_leaves;
using cpu_detail::CacheLeaf;
using cpu_detail::parse_cpu_list;
using cpu_detail::read_available_memory;
using cpu_detail::read_topology;
using cpu_detail::thread_count_for;
using cpu_detail::x86_features;
using cpu_detail::X86Leaves;

X86Leaves all_leaves() {
    return {.leaf1_ecx = ~0u, .leaf7_ebx = ~0u, .leaf7_ecx = ~0u, .leaf7_1_eax = ~0u, .xcr0 = 0xe7};
}

TEST(CpuCaches, AreReadFromCpuid) {
    // Leaf 4 of an Ice Lake: L1d of 48 KiB, L1i, L2 of 1.25 MiB, L3 of 24 MiB.
    const CacheLeaf leaves[] = {{0x1c004121, 0x02c0003f, 63},
                                {0x1c004122, 0x01c0003f, 63},
                                {0x1c004143, 0x04c0003f, 1023},
                                {0x1c03c163, 0x02c0003f, 32767}};
    CpuTopology topology;
    add_cache_leaves(leaves, topology);
    EXPECT_EQ(topology.l1d_bytes, 48u << 10);
    EXPECT_EQ(topology.l2_bytes, 1280u << 10);
    EXPECT_EQ(topology.l3_bytes, 24u << 20);
    // The values of /sys take precedence.
    topology = {};
    topology.l2_bytes = 512 << 10;
    add_cache_leaves(leaves, topology);
    EXPECT_EQ(topology.l2_bytes, 512u << 10);
    EXPECT_EQ(topology.l1d_bytes, 48u << 10);
}

TEST(CpuFeatures, EverythingPresent) {
    const CpuFeatures features = x86_features(all_leaves());
    EXPECT_TRUE(features.avx2 && features.avx_vnni && features.avx512 && features.avx512_vnni);
    EXPECT_FALSE(features.neon || features.dotprod || features.i8mm);
}

TEST(CpuFeatures, TheOperatingSystemDecidesToo) {
    X86Leaves leaves = all_leaves();
    leaves.xcr0 = 0x7;  // no ZMM state
    EXPECT_TRUE(x86_features(leaves).avx2);
    EXPECT_TRUE(x86_features(leaves).avx_vnni);
    EXPECT_FALSE(x86_features(leaves).avx512);
    EXPECT_FALSE(x86_features(leaves).avx512_vnni);
    leaves.xcr0 = 0x3;  // no YMM state
    EXPECT_FALSE(x86_features(leaves).avx2);
    EXPECT_FALSE(x86_features(leaves).avx_vnni);
    leaves = all_leaves();
    leaves.leaf1_ecx &= ~(1u << 27);  // XGETBV may not even be asked
    EXPECT_FALSE(x86_features(leaves).avx2);
    EXPECT_FALSE(x86_features(leaves).avx512);
}

TEST(CpuFeatures, EveryRequiredBitCounts) {
    for (const int bit : {12, 28, 29}) {
        X86Leaves leaves = all_leaves();
        leaves.leaf1_ecx &= ~(1u << bit);
        EXPECT_FALSE(x86_features(leaves).avx2) << bit;
    }
    for (const int bit : {5, 16, 17, 30, 31}) {
        X86Leaves leaves = all_leaves();
        leaves.leaf7_ebx &= ~(1u << bit);
        EXPECT_EQ(x86_features(leaves).avx2, bit != 5) << bit;
        EXPECT_FALSE(x86_features(leaves).avx512) << bit;
    }
    X86Leaves leaves = all_leaves();
    leaves.leaf7_ecx &= ~(1u << 11);
    leaves.leaf7_1_eax &= ~(1u << 4);
    EXPECT_TRUE(x86_features(leaves).avx512);
    EXPECT_FALSE(x86_features(leaves).avx512_vnni);
    EXPECT_FALSE(x86_features(leaves).avx_vnni);
    EXPECT_FALSE(x86_features({}).avx2);
}

TEST(CpuFeatures, VendorsAndFamiliesAreToldApart) {
    // Turin, Granite Ridge; the letters are those of CPUID's leaf 0, "Auth" and "Genu".
    const uint32_t auth = 0x68747541, genu = 0x756e6547;
    EXPECT_TRUE(x86_features({.leaf0_ebx = auth, .leaf1_eax = 0x00b00f21}).zen5);
    EXPECT_TRUE(x86_features({.leaf0_ebx = auth, .leaf1_eax = 0x00b40f40}).zen5);
    EXPECT_FALSE(x86_features({.leaf0_ebx = auth, .leaf1_eax = 0x00a10f11}).zen5);  // Zen 4, family 25
    EXPECT_FALSE(x86_features({.leaf0_ebx = auth, .leaf1_eax = 0x00a00f11}).zen5);  // Zen 3, family 25
    EXPECT_FALSE(x86_features({.leaf0_ebx = genu, .leaf1_eax = 0x00b00f21}).zen5);
    EXPECT_FALSE(x86_features({.leaf0_ebx = genu, .leaf1_eax = 0x000806f8}).zen5);  // Sapphire Rapids
    // Milan, Vermeer, Rembrandt, Cezanne; Zen 4's are Genoa, Raphael, Phoenix, Bergamo.
    for (const uint32_t zen3 : {0x00a00f11, 0x00a20f12, 0x00a40f41, 0x00a50f00})
        EXPECT_TRUE(x86_features({.leaf0_ebx = auth, .leaf1_eax = zen3}).zen3) << std::hex << zen3;
    for (const uint32_t other : {0x00a10f11, 0x00a60f12, 0x00a70f41, 0x00aa0f01, 0x00b00f21, 0x00830f10})
        EXPECT_FALSE(x86_features({.leaf0_ebx = auth, .leaf1_eax = other}).zen3) << std::hex << other;
    EXPECT_FALSE(x86_features({.leaf0_ebx = genu, .leaf1_eax = 0x00a00f11}).zen3);
    EXPECT_TRUE(x86_features({.leaf0_ebx = genu, .leaf1_eax = 0x000806f8}).intel);
    EXPECT_FALSE(x86_features({.leaf0_ebx = auth, .leaf1_eax = 0x00b00f21}).intel);
    EXPECT_FALSE(x86_features({}).intel);
}

#if defined(__x86_64__)
TEST(CpuFeatures, AgreeWithTheCompilersRuntime) {
    __builtin_cpu_init();
    EXPECT_EQ(cpu_features().avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    EXPECT_EQ(cpu_features().avx512,
              __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
    EXPECT_EQ(cpu_features().avx512_vnni, cpu_features().avx512 && __builtin_cpu_supports("avx512vnni"));
}
#endif

TEST(CpuList, ParsesRangesAndSkipsNonsense) {
    EXPECT_EQ(parse_cpu_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
    EXPECT_EQ(parse_cpu_list(""), std::vector<int>{});
    EXPECT_EQ(parse_cpu_list("x,3-1,-2,5-,7,0-99999999999"), std::vector<int>{7});
}

/// A fake machine: files laid out like the kernel's /sys and /proc.
class FakeMachine {
  public:
    FakeMachine& file(const std::string& path, const std::string& text) {
        folder_.write(path, text + "\n");
        return *this;
    }
    /// `n` CPUs; CPU i and CPU i + n / 2 are threads of one core.
    FakeMachine& smt_cpus(int n) {
        for (int cpu = 0; cpu < n; cpu++) {
            const int core = cpu % (n / 2);
            file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
                 std::to_string(core) + "," + std::to_string(core + n / 2));
        }
        return *this;
    }
    FakeMachine& cgroup_v2(const std::string& own_path) {
        return file("proc/self/cgroup", "0::" + own_path)
            .file("proc/self/mountinfo",
                  "22 1 0:20 / /proc rw,nosuid - proc proc rw\n"
                  "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate");
    }
    CpuTopology read(const std::string& cpus) const {
        return read_topology(folder_.path(), parse_cpu_list(cpus));
    }
    size_t available() const { return read_available_memory(folder_.path()); }

  private:
    test::TempFolder folder_;
};

TEST(CpuTopology, SiblingsCountOnceAndOnlyWithinTheMask) {
    FakeMachine machine;
    machine.smt_cpus(8);
    EXPECT_EQ(machine.read("0-7").n_logical, 8);
    EXPECT_EQ(machine.read("0-7").n_physical, 4);
    EXPECT_EQ(machine.read("0,4,5").n_physical, 2);
    EXPECT_EQ(machine.read("1-2").n_physical, 2);
    EXPECT_EQ(machine.read("6").n_physical, 1);
}

TEST(CpuTopology, AMachineWithoutFilesHasDefaults) {
    const FakeMachine machine;
    const CpuTopology topology = machine.read("0-2");
    EXPECT_EQ(topology.n_logical, 3);
    EXPECT_EQ(topology.n_physical, 3);
    EXPECT_EQ(topology.quota, 0);
    EXPECT_EQ(topology.memory_bytes, 0u);
    EXPECT_EQ(topology.l3_bytes, 0u);
    EXPECT_EQ(topology.model_name, "");
    EXPECT_EQ(machine.read("").n_logical, 1);
    EXPECT_EQ(thread_count_for(machine.read("")), 1);
}

TEST(CpuTopology, CachesNameAndMemory) {
    FakeMachine machine;
    const std::string cache = "sys/devices/system/cpu/cpu3/cache/index";
    machine.file(cache + "0/level", "1").file(cache + "0/type", "Data").file(cache + "0/size", "48K");
    machine.file(cache + "1/level", "1").file(cache + "1/type", "Instruction").file(cache + "1/size", "32K");
    machine.file(cache + "2/level", "2").file(cache + "2/type", "Unified").file(cache + "2/size", "2048K");
    machine.file(cache + "3/level", "3").file(cache + "3/type", "Unified").file(cache + "3/size", "260M");
    machine.file("proc/cpuinfo",
                 "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Some CPU @ 2: fast\nflags : x");
    machine.file("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB");
    const CpuTopology topology = machine.read("3-5");
    EXPECT_EQ(topology.l1d_bytes, 48u << 10);
    EXPECT_EQ(topology.l2_bytes, 2u << 20);
    EXPECT_EQ(topology.l3_bytes, 260u << 20);
    EXPECT_EQ(topology.model_name, "Some CPU @ 2: fast");
    EXPECT_EQ(topology.memory_bytes, 16u << 20);
}

TEST(CpuTopology, QuotaV2IsTheTightestOfAllAncestors) {
    FakeMachine machine;
    machine.smt_cpus(16).cgroup_v2("/app.slice/job/inner");
    EXPECT_EQ(machine.read("0-15").quota, 0);
    machine.file("sys/fs/cgroup/app.slice/job/inner/cpu.max", "max 100000");
    EXPECT_EQ(machine.read("0-15").quota, 0);
    machine.file("sys/fs/cgroup/app.slice/cpu.max", "250000 100000");
    EXPECT_DOUBLE_EQ(machine.read("0-15").quota, 2.5);
    machine.file("sys/fs/cgroup/app.slice/job/cpu.max", "600000 100000");
    EXPECT_DOUBLE_EQ(machine.read("0-15").quota, 2.5);
    machine.file("sys/fs/cgroup/cpu.max", "75000 50000");
    EXPECT_DOUBLE_EQ(machine.read("0-15").quota, 1.5);
    EXPECT_EQ(thread_count_for(machine.read("0-15")), 1);
}

TEST(CpuTopology, MemoryLimitV2) {
    FakeMachine machine;
    machine.cgroup_v2("/a/b").file("proc/meminfo", "MemTotal: 1048576 kB");
    machine.file("sys/fs/cgroup/a/b/memory.max", "max");
    EXPECT_EQ(machine.read("0").memory_bytes, size_t{1} << 30);
    machine.file("sys/fs/cgroup/a/memory.max", "536870912");
    EXPECT_EQ(machine.read("0").memory_bytes, size_t{1} << 29);
    machine.file("sys/fs/cgroup/memory.max", "99999999999999");
    EXPECT_EQ(machine.read("0").memory_bytes, size_t{1} << 29);
}

TEST(CpuMemory, AvailableIsWhatTheTightestGroupLeaves) {
    FakeMachine machine;
    machine.cgroup_v2("/a/b").file("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable:  524288 kB");
    EXPECT_EQ(machine.available(), size_t{512} << 20);
    const std::string group = "sys/fs/cgroup/a/";
    machine.file(group + "memory.max", "400000000").file(group + "memory.current", "300000000");
    EXPECT_EQ(machine.available(), 100000000u);
    // The system can drop pages of files, so they count as available.
    machine.file(group + "memory.stat",
                 "anon 90000000\nfile 210000000\ninactive_file 150000000\nactive_file 50000000\n");
    EXPECT_EQ(machine.available(), 300000000u);
    machine.file("sys/fs/cgroup/a/b/memory.max", "100").file("sys/fs/cgroup/a/b/memory.current", "200");
    EXPECT_EQ(machine.available(), 1u);
}

TEST(CpuMemory, AvailableV1AndUnknown) {
    FakeMachine machine;
    EXPECT_EQ(machine.available(), 0u);
    machine.file("proc/self/cgroup", "4:memory:/job");
    machine.file("proc/self/mountinfo", "41 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
    const std::string group = "sys/fs/cgroup/memory/job/";
    machine.file(group + "memory.limit_in_bytes", "104857600")
        .file(group + "memory.usage_in_bytes", "94857600");
    machine.file(group + "memory.stat", "inactive_file 7\ntotal_inactive_file 1000000\ntotal_active_file 0");
    EXPECT_EQ(machine.available(), 11000000u);
}

TEST(CpuTopology, LimitsV1) {
    FakeMachine machine;
    machine.file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/x\n2:cpu,cpuacct:/job\n0::/");
    machine.file("proc/self/mountinfo",
                 "40 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n"
                 "41 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                 "42 30 0:32 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset");
    machine.file("proc/meminfo", "MemTotal: 1048576 kB");
    const std::string cpu = "sys/fs/cgroup/cpu,cpuacct/";
    machine.file(cpu + "cpu.cfs_quota_us", "-1").file(cpu + "cpu.cfs_period_us", "100000");
    machine.file(cpu + "job/cpu.cfs_quota_us", "300000").file(cpu + "job/cpu.cfs_period_us", "100000");
    machine.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
    machine.file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "104857600");
    machine.file("sys/fs/cgroup/memory/job/x/memory.limit_in_bytes", "9223372036854771712");
    const CpuTopology topology = machine.read("0-7");
    EXPECT_DOUBLE_EQ(topology.quota, 3.0);
    EXPECT_EQ(topology.memory_bytes, size_t{100} << 20);
}

TEST(CpuTopology, InAContainerTheMountIsOurOwnGroup) {
    FakeMachine machine;
    // The mount shows only the container's subtree, but /proc/self/cgroup gives the path on the host.
    machine.file("proc/self/cgroup", "2:cpu:/docker/abc/sub\n0::/../elsewhere");
    machine.file("proc/self/mountinfo",
                 "40 30 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
                 "41 30 0:31 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw");
    const std::string cpu = "sys/fs/cgroup/cpu/";
    machine.file(cpu + "sub/cpu.cfs_quota_us", "400000").file(cpu + "sub/cpu.cfs_period_us", "100000");
    EXPECT_DOUBLE_EQ(machine.read("0").quota, 4.0);
    machine.file(cpu + "cpu.cfs_quota_us", "200000").file(cpu + "cpu.cfs_period_us", "100000");
    EXPECT_DOUBLE_EQ(machine.read("0").quota, 2.0);
    machine.file("sys/fs/cgroup/unified/cpu.max", "100000 100000");
    EXPECT_DOUBLE_EQ(machine.read("0").quota, 1.0);
    // A path outside the mounted subtree.
    machine.file("proc/self/cgroup", "2:cpu:/docker/abcdef");
    EXPECT_DOUBLE_EQ(machine.read("0").quota, 1.0);
}

TEST(CpuTopology, NonsenseInTheFilesIsNoLimit) {
    FakeMachine machine;
    machine.cgroup_v2("/").file("proc/meminfo", "MemTotal: lots");
    for (const char* text :
         {"", "max", "x y", "100000 0", "-5 100000", "1e5 100000", "99999999999999999999 1"}) {
        machine.file("sys/fs/cgroup/cpu.max", text).file("sys/fs/cgroup/memory.max", text);
        EXPECT_EQ(machine.read("0").quota, 0) << text;
        EXPECT_EQ(machine.read("0").memory_bytes, 0u) << text;
    }
    machine.file("proc/self/mountinfo", "\n - \na b - cgroup2\n - cgroup2 cgroup2 rw")
        .file("proc/self/cgroup", "::\n:\nx");
    EXPECT_EQ(machine.read("0").quota, 0);
}

TEST(ThreadCount, PhysicalCoresWithinTheQuota) {
    CpuTopology topology;
    topology.n_logical = 16;
    topology.n_physical = 8;
    EXPECT_EQ(thread_count_for(topology), 8);
    topology.quota = 3.9;
    EXPECT_EQ(thread_count_for(topology), 3);
    topology.quota = 0.5;
    EXPECT_EQ(thread_count_for(topology), 1);
    topology.quota = 64;
    EXPECT_EQ(thread_count_for(topology), 8);
}

TEST(ThisMachine, IsPlausible) {
    const CpuTopology& topology = cpu_topology();
    EXPECT_GE(topology.n_logical, 1);
    EXPECT_GE(topology.n_physical, 1);
    EXPECT_LE(topology.n_physical, topology.n_logical);
    EXPECT_GT(topology.memory_bytes, size_t{16} << 20);
    EXPECT_GE(default_thread_count(), 1);
    EXPECT_LE(default_thread_count(), topology.n_physical);
}

/// Memory that returns to the system when it is freed. AddressSanitizer would keep a freed heap block.
Buffer touched_buffer(size_t n_bytes) {
    Buffer out = *Buffer::create(n_bytes, "test");
    std::memset(out.data(), 1, n_bytes);
    return out;
}

TEST(ThisProcess, MemoryIsMeasured) {
    constexpr size_t kSize = size_t{64} << 20;
    const size_t before = current_rss_bytes();
    ASSERT_GT(before, 0u);
    {
        const Buffer big = touched_buffer(kSize);
        EXPECT_GE(current_rss_bytes(), before + kSize / 2);
    }
    EXPECT_GE(peak_rss_bytes(), before + kSize / 2);
}

TEST(ThisProcess, MemoryByItsKind) {
    constexpr size_t kSize = size_t{64} << 20;
    if (!restart_peak_rss()) GTEST_SKIP() << "the system does not restart peaks";
    const ResidentSet before = resident_set();
    EXPECT_GT(before.anonymous_bytes, 0u);
    EXPECT_GT(before.file_bytes, 0u);
    {
        const Buffer big = touched_buffer(kSize);
        const ResidentSet with = resident_set();
        EXPECT_GE(with.anonymous_bytes, before.anonymous_bytes + kSize / 2);
        EXPECT_LT(with.file_bytes, before.file_bytes + kSize / 2);
    }
    const size_t peak = peak_rss_bytes();
    EXPECT_GE(peak, current_rss_bytes() + kSize / 2);
    ASSERT_TRUE(restart_peak_rss());
    EXPECT_LT(peak_rss_bytes(), peak - kSize / 2);
}

}  // namespace
}  // namespace tessera
