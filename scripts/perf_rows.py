#!/usr/bin/env python3
"""Measures the rows of docs/performance.md on this machine and prints them as Markdown: prompts and decoding of every
MODEL, and of the first one also eight sequences in a batch, a long context with a q8_0 cache, and the time from the file
to the first token, stock and packed.

  scripts/perf_rows.py MODEL.gguf... [--program PATH] [--threads 2] [--rounds 3] [--depth 4096] [--pause 10]

Models are interleaved round by round, so that drift of the machine affects all alike. Figures are medians, with the best
of the rounds in brackets; shares are medians of each sample's share of the measurements around it (docs/performance.md).
Before each test there is a pause: a virtual machine may return freed memory to its host, which slows the next test.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from perf_compare import bench, run

FLOATS = ("f32", "f16", "bf16")
SEQUENCES = 8
MIB = 1 << 20


class Figures:
    """The rounds' values of one figure."""

    def __init__(self):
        self.values = []

    def median(self):
        return statistics.median(self.values)

    def __str__(self):
        best, digits = max(self.values), 1 if self.median() < 100 else 0
        return f"{self.median():.{digits}f} ({best:.{digits}f})"


class Bench:
    """`tessera bench` of one model with some options, once a round: ppN and tgN by their first two letters."""

    def __init__(self, args, model, *options):
        self.arguments = [args.program, model, "-r", 1, "-t", args.threads, *options]
        self.speed, self.shares, self.type = {}, {}, ""

    def round(self):
        for result in bench(*self.arguments):
            test, self.type = result["test"][:2], result["type"]
            self.speed.setdefault(test, Figures()).values.append(result["tokens_per_s"])
            for what, share in result["in_turn"].items():
                self.shares.setdefault((test, what), Figures()).values.append(share)

    def share(self, test, what):
        return f"{self.shares[test, what].median():.2f}"


class Start:
    """Time from the start of the program to the end of one token, with the file in the page cache."""

    def __init__(self, args, model):
        self.model = model
        self.command = list(map(str, [args.program, "run", model, "-p", "a", "-n", 1, "-c", 512, "-t", args.threads]))
        self.seconds, self.peak = Figures(), Figures()

    def round(self):
        run(self.command)  # loads the file into the page cache
        start = time.monotonic()
        child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)  # this child's memory, not the largest of all
        child.returncode = os.waitstatus_to_exitcode(status)
        self.seconds.values.append(time.monotonic() - start)
        self.peak.values.append(usage.ru_maxrss / 1024)

    def beyond_file(self):
        return self.peak.median() - self.model.stat().st_size / MIB


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()


def row_of(model, bench):
    chain = "of_fma_peak" if bench.type in FLOATS else "of_int8_peak"
    kind = " (float)" if bench.type in FLOATS else ""
    return (model.stem, bench.speed["pp"], bench.share("pp", chain) + kind, bench.speed["tg"],
            bench.share("tg", "of_read_bw"))


def ratio(first, second, test="tg"):
    a, b = first.speed[test], second.speed[test]
    return f"{a} of {b}: {a.median() / b.median():.2f}"


def measure(args, packed):
    first, n = args.models[0], args.n_predict
    both = ["-p", args.prompt_tokens, "-n", n]
    models = [Bench(args, model, *both) for model in args.models]
    many = Bench(args, first, "-p", 0, "-n", n, "-b", SEQUENCES)
    shallow = Bench(args, first, *both, "--kv", "q8_0")
    deep = Bench(args, first, *both, "--kv", "q8_0", "-d", args.depth)
    stock, mapped = Start(args, first), Start(args, packed)
    for _ in range(args.rounds):
        for test in (models[0], many, shallow, deep, stock, mapped, *models[1:]):
            time.sleep(args.pause)
            test.round()

    print_table(("weights", f"prompt of {args.prompt_tokens}, tokens/s", "of int8 peak", "decoding, tokens/s",
                 "of bandwidth"), map(row_of, args.models, models))
    depth = f"at depth {args.depth}, q8_0 cache, of that at 0"
    print_table((first.stem, ""), (
        (f"{SEQUENCES} sequences, of one's tokens/s", ratio(many, models[0])),
        (f"decoding {depth}", ratio(deep, shallow)),
        ("  of bandwidth, at that depth and at 0",
         f"{deep.share('tg', 'of_read_bw')}, {shallow.share('tg', 'of_read_bw')}"),
        (f"prompt of {args.prompt_tokens} {depth}", ratio(deep, shallow, "pp")),
        ("from the file to one token, s, packed", f"{stock.seconds.median():.2f}, {mapped.seconds.median():.2f}"),
        ("peak resident memory beyond the file, MiB, packed",
         f"{stock.beyond_file():.0f}, {mapped.beyond_file():.0f}")))


def main():
    root = Path(__file__).resolve().parent.parent
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="GGUF files, the first one stock")
    arguments.add_argument("--program", default=root / "build/release/examples/tessera/tessera",
                           help="(default: the release build's)")
    for name, default in (("threads", 2), ("rounds", 3), ("depth", 4096), ("prompt-tokens", 512), ("n-predict", 64)):
        arguments.add_argument(f"--{name}", type=int, default=default, metavar="N",
                               help=f"at least 1 (default: {default})")
    arguments.add_argument("--pause", type=float, default=10, metavar="S",
                           help="seconds before each test (default: 10)")
    args = arguments.parse_args()
    for name, value in vars(args).items():
        if isinstance(value, int) and value < 1:
            arguments.error(f"--{name.replace('_', '-')}: expected at least 1, found {value}")
    if not 0 <= args.pause <= 3600:
        arguments.error(f"--pause: expected 0 to 3600, found {args.pause}")
    for model in args.models:
        if not model.is_file():
            arguments.error(f"{model} is not a file")
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "packed.gguf"
        run([args.program, "pack", args.models[0], packed])
        measure(args, packed)


if __name__ == "__main__":
    main()
