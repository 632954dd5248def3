// Detection of the machine: CPUID or HWCAP for instruction sets, /proc and /sys for cores, caches and limits.
// Built without ISA flags. Every file may be missing (containers, other kernels); its facts are then unknown.
// quants/dispatch chooses the kernels for the features.
#include "common/cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>

#include "common/cpu_detail.h"
#include "common/strings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tessera {

namespace cpu_detail {

namespace {

// The file's text without surrounding space, empty when it cannot be read. Files in /proc report no size.
std::string read_text(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    std::string text;
    char chunk[4096];
    for (size_t n = 1; file && n > 0; text.append(chunk, n))
        n = std::fread(chunk, 1, sizeof chunk, file.get());
    return std::string(trim(text));
}

// The value of the first line "key: value", empty when there is none.
std::string_view find_field(std::string_view text, std::string_view key) {
    for (const std::string_view line : split(text, '\n')) {
        const size_t colon = line.find(':');
        if (colon != std::string_view::npos && trim(line.substr(0, colon)) == key)
            return trim(line.substr(colon + 1));
    }
    return {};
}

// "32 kB" of /proc and "48K" of /sys in bytes, 0 when it is no such number.
size_t parse_size(std::string_view text) {
    size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') digits++;
    const std::string unit = to_lower(trim(text.substr(digits)));
    const int shift = unit.starts_with('k')   ? 10
                      : unit.starts_with('m') ? 20
                      : unit.starts_with('g') ? 30
                                              : 0;
    const auto number = static_cast<size_t>(parse_int(text.substr(0, digits)).value_or(0));
    return number > SIZE_MAX >> shift ? 0 : number << shift;
}

// --- cgroups
// --------------------------------------------------------------------------------------------------

struct CgroupMount {
    bool v2;
    std::string_view root, point;  // views into mountinfo: the cgroup that is mounted, and where
};

// Where `controller` can be read: lines of mountinfo are "id parent device root point options... - type
// source options" (proc(5)); a v1 hierarchy names its controllers in the last field.
std::vector<CgroupMount> cgroup_mounts(std::string_view mountinfo, std::string_view controller) {
    std::vector<CgroupMount> mounts;
    for (const std::string_view line : split(mountinfo, '\n')) {
        const size_t dash = line.find(" - ");
        if (dash == std::string_view::npos) continue;
        const auto front = split(line.substr(0, dash), ' ');
        const auto back = split(line.substr(dash + 3), ' ');
        if (front.size() < 5 || back.size() < 3) continue;
        const auto options = split(back[2], ',');
        const bool v2 = back[0] == "cgroup2";
        const bool v1 =
            back[0] == "cgroup" && std::find(options.begin(), options.end(), controller) != options.end();
        if (v1 || v2) mounts.push_back({v2, front[3], front[4]});
    }
    return mounts;
}

// This process's path in the hierarchy: lines of /proc/self/cgroup are "id:controllers:path"; v2 is
// "0::path".
std::string_view cgroup_path(std::string_view self_cgroup, bool v2, std::string_view controller) {
    for (const std::string_view line : split(self_cgroup, '\n')) {
        const size_t first = line.find(':');
        const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        const std::string_view names = line.substr(first + 1, second - first - 1);
        const auto list = split(names, ',');
        const bool ours = v2 ? names.empty() : std::find(list.begin(), list.end(), controller) != list.end();
        if (ours) return line.substr(second + 1);
    }
    return {};
}

// The part of `path` below the mounted cgroup. Inside a container the path may lie outside the mount; the
// mount point itself is then the process's own cgroup.
std::string_view below_mount(std::string_view path, std::string_view mount_root) {
    if (mount_root == "/") mount_root = {};
    if (!path.starts_with(mount_root)) return {};
    path.remove_prefix(mount_root.size());
    while (path.ends_with('/')) path.remove_suffix(1);
    if (!path.starts_with('/') || path.find("/..") != std::string_view::npos) return {};
    return path;
}

// The smallest limit that `read(folder, v2)` finds in the process's cgroup or any of its ancestors; 0 for
// none.
template <class Read>
double tightest_limit(const std::string& root, std::string_view controller, Read&& read) {
    const std::string mountinfo = read_text(root + "/proc/self/mountinfo");
    const std::string self_cgroup = read_text(root + "/proc/self/cgroup");
    double tightest = 0;
    for (const CgroupMount& mount : cgroup_mounts(mountinfo, controller)) {
        std::string_view below = below_mount(cgroup_path(self_cgroup, mount.v2, controller), mount.root);
        for (;;) {
            const double limit = read(root + std::string(mount.point) + std::string(below), mount.v2);
            if (limit > 0 && (tightest == 0 || limit < tightest)) tightest = limit;
            if (below.empty()) break;
            below = below.substr(0, below.rfind('/'));
        }
    }
    return tightest;
}

double read_quota(const std::string& folder, bool v2) {
    std::string quota, period;
    if (v2) {
        const std::string text = read_text(folder + "/cpu.max");  // "max 100000" or "150000 100000"
        const size_t space = text.find(' ');
        if (space == std::string::npos) return 0;
        quota = text.substr(0, space);
        period = text.substr(space + 1);
    } else {
        quota = read_text(folder + "/cpu.cfs_quota_us");  // -1 for none
        period = read_text(folder + "/cpu.cfs_period_us");
    }
    const double used = static_cast<double>(parse_int(quota).value_or(0));
    const double each = static_cast<double>(parse_int(period).value_or(0));
    return used > 0 && each > 0 ? used / each : 0;
}

double read_memory_limit(const std::string& folder, bool v2) {
    const std::string text = read_text(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    return static_cast<double>(std::max<int64_t>(0, parse_int(text).value_or(0)));
}

// The number behind "name " in memory.stat, 0 where there is none.
double read_stat(std::string_view stat, std::string_view name) {
    for (const std::string_view line : split(stat, '\n'))
        if (line.starts_with(name) && line.substr(name.size()).starts_with(' '))
            return static_cast<double>(parse_int(trim(line.substr(name.size()))).value_or(0));
    return 0;
}

// Memory left below the group's limit, counting pages of files, which can be dropped, as free. At least 1
// where there is a limit.
double read_memory_left(const std::string& folder, bool v2) {
    const double limit = read_memory_limit(folder, v2);
    if (limit <= 0) return 0;
    const std::string used = read_text(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    const std::string stat = read_text(folder + "/memory.stat");
    const std::string prefix = v2 ? "" : "total_";
    const double of_files =
        read_stat(stat, prefix + "inactive_file") + read_stat(stat, prefix + "active_file");
    return std::max(1.0, limit - static_cast<double>(parse_int(used).value_or(0)) + of_files);
}

// --- cores, caches, names
// ---------------------------------------------------------------------------------------

std::string cpu_folder(const std::string& root, int cpu) {
    return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
}

int count_cores(const std::string& root, const std::vector<int>& cpus) {
    std::set<std::string> cores;
    for (const int cpu : cpus) {
        const std::string siblings = read_text(cpu_folder(root, cpu) + "/topology/thread_siblings_list");
        cores.insert(siblings.empty() ? "cpu " + std::to_string(cpu) : siblings);
    }
    return std::max(1, static_cast<int>(cores.size()));
}

void read_caches(const std::string& root, int cpu, CpuTopology& topology) {
    for (int index = 0; index < 16; index++) {
        const std::string folder = cpu_folder(root, cpu) + "/cache/index" + std::to_string(index);
        const std::string level = read_text(folder + "/level");
        if (level.empty()) return;
        if (read_text(folder + "/type") == "Instruction") continue;
        const size_t size = parse_size(read_text(folder + "/size"));
        if (level == "1") topology.l1d_bytes = size;
        if (level == "2") topology.l2_bytes = size;
        if (level == "3") topology.l3_bytes = size;
    }
}

std::string read_model_name(const std::string& root) {
    const std::string cpuinfo = read_text(root + "/proc/cpuinfo");
    for (const char* key : {"model name", "Model", "Hardware"})
        if (const std::string_view name = find_field(cpuinfo, key); !name.empty()) return std::string(name);
    // Boards of other processors name themselves in the device tree, with a zero byte at the end.
    const std::string board = read_text(root + "/proc/device-tree/model");
    return board.substr(0, board.find('\0'));
}

std::vector<int> allowed_cpus() {
    // The kernel refuses a mask that is shorter than its own.
    for (size_t n_cpus = 1024; n_cpus <= size_t{1} << 20; n_cpus *= 4) {
        const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(n_cpus),
                                                                    [](cpu_set_t* m) { CPU_FREE(m); });
        const size_t n_bytes = CPU_ALLOC_SIZE(n_cpus);
        if (!mask) break;
        CPU_ZERO_S(n_bytes, mask.get());
        if (sched_getaffinity(0, n_bytes, mask.get()) == 0) {
            std::vector<int> cpus;
            for (size_t cpu = 0; cpu < n_cpus; cpu++)
                if (CPU_ISSET_S(cpu, n_bytes, mask.get())) cpus.push_back(static_cast<int>(cpu));
            return cpus;
        }
        if (errno != EINVAL) break;
    }
    return {0};
}

std::vector<CacheLeaf> read_cache_leaves() {
    std::vector<CacheLeaf> leaves;
#if defined(__x86_64__)
    for (const unsigned leaf : {4u, 0x8000001du})
        for (unsigned index = 0; index < 16; index++) {
            unsigned a = 0, b = 0, c = 0, d = 0;
            if (!__get_cpuid_count(leaf, index, &a, &b, &c, &d) || (a & 31) == 0) break;
            leaves.push_back({a, b, c});
        }
#endif
    return leaves;
}

CpuFeatures detect_features() {
#if defined(__x86_64__)
    X86Leaves leaves;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(0, &a, &b, &c, &d)) leaves.leaf0_ebx = b;
    if (__get_cpuid(1, &a, &b, &c, &d)) leaves.leaf1_eax = a, leaves.leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        const unsigned last_subleaf = a;
        leaves.leaf7_ebx = b;
        leaves.leaf7_ecx = c;
        if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) leaves.leaf7_1_eax = a;
    }
    if (leaves.leaf1_ecx & bit_OSXSAVE) {
        unsigned low = 0, high = 0;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        leaves.xcr0 = low | static_cast<uint64_t>(high) << 32;
    }
    return x86_features(leaves);
#elif defined(__aarch64__)
    CpuFeatures features;
    features.neon = (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
    features.dotprod = features.neon && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    features.i8mm = features.dotprod && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
    return features;
#else
    return {};
#endif
}

}  // namespace

CpuFeatures x86_features(const X86Leaves& leaves) {
    const auto all = [](uint64_t word, uint64_t bits) { return (word & bits) == bits; };
    const auto bit = [](int n) { return uint64_t{1} << n; };
    CpuFeatures features;
    // Leaf 1 ECX: FMA 12, OSXSAVE 27, AVX 28, F16C 29. XCR0: SSE 1, YMM 2, mask 5, upper ZMM 6, ZMM16-31 7.
    const bool os_avx = all(leaves.leaf1_ecx, bit(27)) && all(leaves.xcr0, bit(1) | bit(2));
    const bool os_avx512 = os_avx && all(leaves.xcr0, bit(5) | bit(6) | bit(7));
    // Leaf 7 EBX: AVX2 5, AVX512 F 16, DQ 17, BW 30, VL 31; ECX: VNNI 11. Leaf 7.1 EAX: AVX-VNNI 4.
    features.avx2 =
        os_avx && all(leaves.leaf1_ecx, bit(12) | bit(28) | bit(29)) && all(leaves.leaf7_ebx, bit(5));
    features.avx_vnni = features.avx2 && all(leaves.leaf7_1_eax, bit(4));
    features.avx512 =
        features.avx2 && os_avx512 && all(leaves.leaf7_ebx, bit(16) | bit(17) | bit(30) | bit(31));
    features.avx512_vnni = features.avx512 && all(leaves.leaf7_ecx, bit(11));
    // The vendor's name begins with "Genu" or with "Auth". The latter's families of this century: bits 8 to
    // 11, which are 15, plus 20 to 27; models: bits 4 to 7 below 16 to 19.
    const uint32_t family = (leaves.leaf1_eax >> 8 & 15) + (leaves.leaf1_eax >> 20 & 255);
    const uint32_t models = leaves.leaf1_eax >> 16 & 15;  // sixteen of them
    const bool amd = leaves.leaf0_ebx == 0x68747541;
    features.intel = leaves.leaf0_ebx == 0x756e6547;
    features.zen3 = amd && family == 25 && (models == 0 || (models >= 2 && models <= 5));
    features.zen5 = amd && family == 26;
    return features;
}

void add_cache_leaves(std::span<const CacheLeaf> leaves, CpuTopology& topology) {
    for (const CacheLeaf& leaf : leaves) {
        // EAX: type in bits 0 to 4 (1 data, 2 instructions, 3 both), level in 5 to 7. Each of the others is
        // one less than a factor of the size: EBX line size (0 to 11), partitions (12 to 21), ways (22 to
        // 31); ECX sets.
        const uint32_t type = leaf.eax & 31, level = leaf.eax >> 5 & 7;
        if (type != 1 && type != 3) continue;
        const size_t size = ((leaf.ebx & 4095) + size_t{1}) * ((leaf.ebx >> 12 & 1023) + size_t{1}) *
                            ((leaf.ebx >> 22) + size_t{1}) * (leaf.ecx + size_t{1});
        size_t* const sizes[] = {&topology.l1d_bytes, &topology.l2_bytes, &topology.l3_bytes};
        if (level >= 1 && level <= 3 && *sizes[level - 1] == 0) *sizes[level - 1] = size;
    }
}

std::vector<int> parse_cpu_list(std::string_view text) {
    std::vector<int> cpus;
    for (const std::string_view part : split(trim(text), ',')) {
        const size_t dash = part.find('-');
        const auto first = parse_int(part.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first || *last >= 1 << 20) continue;
        for (int64_t cpu = *first; cpu <= *last; cpu++) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
}

CpuTopology read_topology(const std::string& root, const std::vector<int>& cpus) {
    CpuTopology topology;
    topology.n_logical = std::max(1, static_cast<int>(cpus.size()));
    topology.n_physical = count_cores(root, cpus);
    topology.quota = tightest_limit(root, "cpu", read_quota);
    read_caches(root, cpus.empty() ? 0 : cpus.front(), topology);
    topology.memory_bytes = parse_size(find_field(read_text(root + "/proc/meminfo"), "MemTotal"));
    // A v1 hierarchy without a limit shows a huge number, which the physical memory undercuts.
    const double limit = tightest_limit(root, "memory", read_memory_limit);
    if (limit > 0 && (topology.memory_bytes == 0 || limit < static_cast<double>(topology.memory_bytes)))
        topology.memory_bytes = static_cast<size_t>(limit);
    topology.model_name = read_model_name(root);
    return topology;
}

size_t read_available_memory(const std::string& root) {
    const size_t free = parse_size(find_field(read_text(root + "/proc/meminfo"), "MemAvailable"));
    const double left = tightest_limit(root, "memory", read_memory_left);
    if (left > 0 && (free == 0 || left < static_cast<double>(free))) return static_cast<size_t>(left);
    return free;
}

int thread_count_for(const CpuTopology& topology) {
    int count = topology.n_physical;
    if (topology.quota > 0 && topology.quota < count) count = static_cast<int>(std::floor(topology.quota));
    return std::max(1, count);
}

}  // namespace cpu_detail

const CpuFeatures& cpu_features() {
    static const CpuFeatures features = cpu_detail::detect_features();
    return features;
}

const CpuTopology& cpu_topology() {
    static const CpuTopology topology = [] {
        CpuTopology found = cpu_detail::read_topology("", cpu_detail::allowed_cpus());
        cpu_detail::add_cache_leaves(cpu_detail::read_cache_leaves(), found);
        return found;
    }();
    return topology;
}

int default_thread_count() { return cpu_detail::thread_count_for(cpu_topology()); }

size_t available_memory_bytes() { return cpu_detail::read_available_memory(""); }

size_t peak_rss_bytes() {
    // ru_maxrss is a fallback only: a process inherits the peak of the larger process that started it.
    const std::string status = cpu_detail::read_text("/proc/self/status");
    if (const size_t peak = cpu_detail::parse_size(cpu_detail::find_field(status, "VmHWM"))) return peak;
    struct rusage usage {};
    return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<size_t>(usage.ru_maxrss) * 1024 : 0;
}

size_t current_rss_bytes() {
    const std::string status = cpu_detail::read_text("/proc/self/status");
    return cpu_detail::parse_size(cpu_detail::find_field(status, "VmRSS"));
}

bool restart_peak_rss() {
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool written = write(fd, "5", 1) == 1;
    close(fd);
    return written;
}

ResidentSet resident_set() {
    const std::string status = cpu_detail::read_text("/proc/self/status");
    const auto field = [&status](const char* name) {
        return cpu_detail::parse_size(cpu_detail::find_field(status, name));
    };
    return {field("RssAnon"), field("RssFile") + field("RssShmem")};
}

}  // namespace tessera
