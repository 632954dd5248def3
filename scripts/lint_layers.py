#!/usr/bin/env python3
"""Dependencies between folders: the table of allowed includes, and of files that may include third-party headers.

The tables below are the rule; docs/design/architecture.md explains it. Paths are prefixes, and the longest row that fits a
file decides. Includes of ours are written from the repository root.
"""
import re
import sys

import lintlib

BELOW_3 = ("common/", "quants/", "ggml-like/")
MODEL = ("src/model/", "src/arch/", "src/forward/", "src/kv/")
TEXT = ("src/text/",)
SAMPLE = ("src/sample/", "src/grammar/")
LAYER_3 = MODEL + TEXT + SAMPLE + ("src/npu/", "src/convert/")
ANY = ("",)

# Files under the prefix -> the prefixes they may include besides their own row's.
LAYERS = [
    (("common/",), ()),
    (("quants/",), ("common/",)),
    (("ggml-like/",), ("common/", "quants/")),
    (MODEL, BELOW_3),
    (TEXT, ("common/", "ggml-like/gguf/")),
    (SAMPLE, ("common/", "ggml-like/gguf/") + TEXT),
    (("src/npu/",), BELOW_3),
    (("src/convert/",), BELOW_3 + ("src/model/", "src/arch/") + TEXT),
    (("src/engine/",), BELOW_3 + LAYER_3),
    (("src/measure/",), BELOW_3 + LAYER_3 + ("src/engine/",)),
    (("src/capi/",), ("common/", "src/engine/", "include/")),
    (("include/",), ()),
    (("examples/embed-",), ()),
    (("server/",), ("include/",)),
    (("examples/tessera/",), BELOW_3 + LAYER_3 + ("src/engine/", "src/measure/", "include/", "server/")),
    (("examples/tessera/chat", "examples/tessera/serve"),
     ("examples/tessera/", "include/", "server/", "common/expected.h", "common/strings.h", "common/utf8.h")),
    (("examples/",), ("include/",)),
    (("tests/",), ANY),
    (("benches/",), ANY),
]

APPS = ("server/", "examples/")
TESTS = ("tests/", "benches/")

# (header pattern, library, where it may appear, in how many files at most, may those be headers)
# Tests and benches may include what they like. The count keeps a library behind one wrapper.
THIRD_PARTY = [
    (r"tl/expected\.hpp", "tl-expected", ("common/expected.h",), 1, True),
    (r"sentencepiece\w*\.h|sentencepiece.*\.pb\.h", "SentencePiece", TEXT, 1, False),
    (r"pcre2\w*\.h", "PCRE2", ("common/pattern.cpp",) + TEXT, 2, False),
    (r"tessera\.hp?p?", "the installed interface", ("include/", "examples/embed-"), 4, True),
    (r"cblas\.h|openblas.*\.h", "OpenBLAS", ("ggml-like/blas/",), 1, False),
    (r"nlohmann/.*", "nlohmann-json", ("common/json.cpp", "src/text/jinja/"), 3, False),
    (r"nlohmann/.*", "nlohmann-json", APPS, 99, True),
    (r"CLI/.*", "CLI11", ("examples/",), 99, True),
    (r"httplib\.h", "cpp-httplib", ("server/",), 3, False),
    (r"openssl/.*", "OpenSSL", ("server/",), 1, False),
    (r"histedit\.h", "libedit", ("examples/",), 1, False),
    (r"gtest/.*|gmock/.*", "GoogleTest", ("tests/",), 999, True),
    (r"benchmark/.*", "Google Benchmark", ("benches/",), 999, True),
    (r"\w*mmintrin\.h|immintrin\.h|x86intrin\.h|arm_\w+\.h", "vector intrinsics",
     ("quants/arch/", "ggml-like/cpu/arch/", "src/npu/arch/"), 999, True),
    (r"cpuid\.h|sys/auxv\.h|asm/hwcap\.h", "processor detection", ("common/cpu.cpp",), 1, False),
]

STANDARD = set("""algorithm array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes
climits clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint
cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem forward_list fstream functional
future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource
mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
source_location span sstream stack stdexcept stop_token streambuf string string_view strstream syncstream
system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
version
assert.h ctype.h errno.h fenv.h float.h inttypes.h limits.h locale.h math.h setjmp.h signal.h stdalign.h stdarg.h
stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h tgmath.h time.h
cxxabi.h dirent.h dlfcn.h execinfo.h fcntl.h getopt.h libgen.h malloc.h netdb.h poll.h pthread.h pwd.h regex.h sched.h
semaphore.h spawn.h termios.h ucontext.h unistd.h""".split())
SYSTEM_FOLDERS = ("sys/", "linux/", "arpa/", "netinet/", "net/")

# Library code reports through values and the log callback; these headers print, or cost every includer dearly.
BANNED_BELOW_6 = {"iostream": "common/log.h", "regex": "a hand-written matcher"}


def row_of(path):
    """The most specific row for a file: (its own prefixes, the prefixes it may include), or None."""
    rows = [(max(len(p) for p in own if path.startswith(p)), own, allowed)
            for own, allowed in LAYERS if path.startswith(own)]
    return max(rows, default=None)


def check_own(findings, root, path, number, name):
    row = row_of(path)
    if not (root / name).is_file():
        findings.add(path, number, f'include "{name}" is no file of the tree', "the path from the repository root")
    elif row is not None and not name.startswith(row[1] + row[2]):
        allowed = ", ".join(sorted(row[1] + row[2]))
        findings.add(path, number, f'include "{name}" goes against the layers', f"one of {allowed}")


def check_third_party(findings, users, path, number, name):
    rows = [row for row in THIRD_PARTY if re.fullmatch(row[0], name)]
    for pattern, library, where, _, headers in rows:
        if path.startswith(where) and (headers or path.endswith((".cpp", ".c"))):
            users.setdefault((pattern, where), set()).add((path, number))
            return
    if rows and not path.startswith(TESTS):
        places = " or ".join(w + ("" if row[4] or w.endswith((".h", ".cpp")) else "*.cpp") for row in rows for w in row[2])
        findings.add(path, number, f"include <{name}> ({rows[0][1]})", f"it only in {places}")
    elif not rows and name not in STANDARD and not name.startswith(SYSTEM_FOLDERS):
        findings.add(path, number, f"include <{name}> is in no table", "a row in scripts/lint_layers.py, or another way")
    elif name in BANNED_BELOW_6 and not path.startswith(APPS + TESTS):
        findings.add(path, number, f"include <{name}> in a library", BANNED_BELOW_6[name])


def main():
    root = lintlib.arguments(__doc__).parse_args().root.resolve()
    findings = lintlib.Findings("lint_layers")
    users, count = {}, 0
    for source in lintlib.source_files(root, lintlib.CPP_SUFFIXES + (".inc", ".def")):
        path = source.as_posix()
        if row_of(path) is None:
            findings.add(path, 1, "the folder is in no layer", "a row in scripts/lint_layers.py")
        for number, other, own in lintlib.includes(lintlib.read(root, source)):
            count += 1
            if own:
                check_own(findings, root, path, number, own)
            else:
                check_third_party(findings, users, path, number, other)
    for pattern, library, where, most, _ in THIRD_PARTY:
        places = sorted(users.get((pattern, where), ()))
        for path, number in places if len({p for p, _ in places}) > most else ():
            findings.add(path, number, f"{library} is included by {len(places)} files", f"at most {most}: use its wrapper")
    return findings.finish(f"{count} includes keep the layers")


if __name__ == "__main__":
    sys.exit(main())
