#!/usr/bin/env python3
"""A file includes the headers of the library names that it uses, itself or through headers of this tree.

Compilers do not check this: a third-party header may stop including another one in its next version, so only headers of
this tree count as a way. Names without a row below are not checked, such as those that several headers declare
(std::size, std::begin), nor are parts that are included in the middle of a unit (.inl).
"""
import re
import sys

import lintlib

# Header -> the names in namespace std that need it.
STANDARD = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count count_if equal
        equal_range fill fill_n find find_if find_if_not for_each generate includes is_sorted lexicographical_compare
        lower_bound make_heap max max_element merge min min_element minmax minmax_element mismatch next_permutation
        none_of nth_element partial_sort partition pop_heap push_heap remove_if replace reverse rotate search shuffle
        sort sort_heap stable_partition stable_sort transform unique upper_bound""",
    "array": "array to_array",
    "atomic": """atomic atomic_flag atomic_ref atomic_thread_fence memory_order memory_order_acq_rel memory_order_acquire
        memory_order_relaxed memory_order_release memory_order_seq_cst""",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero endian has_single_bit popcount rotl rotr",
    "bitset": "bitset",
    "charconv": "chars_format from_chars to_chars",
    "chrono": "chrono",
    "cmath": """ceil copysign cos erf exp exp2 fabs floor fma fmod frexp isfinite isinf isnan ldexp llrint llround log
        log10 log2 lrint lround nearbyint nextafter pow rint round signbit sin sqrt tanh trunc""",
    "condition_variable": "condition_variable",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t",
    "cstdint": "int16_t int32_t int64_t int8_t intptr_t uint16_t uint32_t uint64_t uint8_t uintptr_t",
    "cstdio": "FILE fclose fflush fopen fprintf fputc fputs fread fwrite printf putc puts snprintf sscanf vsnprintf",
    "cstdlib": "abort aligned_alloc atol exit free getenv malloc strtod strtof strtol strtoull system",
    "cstring": "memchr memcmp memcpy memmove memset strchr strcmp strerror strlen",
    "ctime": "strftime tm",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr rethrow_exception",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "function hash invoke less less_equal multiplies plus reference_wrapper",
    "future": "async future promise",
    "iostream": "cerr cin clog cout",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": """addressof const_pointer_cast enable_shared_from_this make_shared make_unique shared_ptr
        static_pointer_cast unique_ptr weak_ptr""",
    "mutex": "call_once lock_guard mutex once_flag scoped_lock unique_lock",
    "new": "align_val_t bad_alloc nothrow",
    "numeric": "accumulate gcd inner_product iota partial_sum reduce",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "random": """discrete_distribution minstd_rand mt19937 mt19937_64 normal_distribution random_device
        uniform_int_distribution uniform_real_distribution""",
    "ranges": "views",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "invalid_argument logic_error out_of_range runtime_error",
    "string": "getline stod stoi stol stoul stoull string to_string",
    "string_view": "string_view",
    "system_error": "errc error_code generic_category make_error_code system_error",
    "thread": "jthread this_thread thread",
    "tuple": "apply forward_as_tuple make_tuple tie tuple",
    "type_traits": """conditional_t decay_t enable_if_t invoke_result_t is_arithmetic_v is_enum_v is_floating_point_v
        is_integral_v is_same_v is_signed_v is_trivially_copyable_v is_unsigned_v make_unsigned_t remove_cvref_t
        remove_reference_t underlying_type_t""",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility": """as_const declval exchange forward in_range index_sequence make_index_sequence make_pair move pair swap
        unreachable""",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
HEADER_OF = {f"std::{name}": header for header, names in STANDARD.items() for name in names.split()}
HEADER_OF |= {"testing::": "gtest/gtest.h", "nlohmann::": "nlohmann/json.hpp", "httplib::": "httplib.h",
              "tl::": "tl/expected.hpp", "benchmark::": "benchmark/benchmark.h"}

# Other headers that give a header's names.
ALSO = {header: {header[1:] + ".h"} for header in ("cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring", "ctime")}

_NAME = re.compile(r"\b(?:std::\w+|(?:testing|nlohmann|httplib|tl|benchmark)::)")


class Tree:
    """Every file's includes; `reached` has the third-party headers that a file reaches through ours."""

    def __init__(self, root):
        self.text = {path.as_posix(): lintlib.read(root, path) for path in lintlib.source_files(root, lintlib.CPP_SUFFIXES)}
        self.includes = {path: list(lintlib.includes(text)) for path, text in self.text.items()}

    def reached(self, path):
        seen, others, waiting = {path}, set(), [path]
        while waiting:
            for _, other, own in self.includes[waiting.pop()]:
                others.add(other)
                if own in self.includes and own not in seen:
                    seen.add(own)
                    waiting.append(own)
        return others


def main():
    root = lintlib.arguments(__doc__).parse_args().root.resolve()
    findings = lintlib.Findings("lint_includes")
    tree = Tree(root)
    units = [path for path in tree.text if not path.endswith(".inl")]
    for path in units:
        reached, said = tree.reached(path), set()
        for number, line in enumerate(lintlib.strip_comments(tree.text[path], strings=False).split("\n"), 1):
            for name in _NAME.findall(line):
                header = HEADER_OF.get(name)
                if header and header not in said and not reached & ({header} | ALSO.get(header, set())):
                    said.add(header)
                    findings.add(path, number, f"{name} without its header", f"#include <{header}>")
    return findings.finish(f"{len(units)} files include what they name")


if __name__ == "__main__":
    sys.exit(main())
