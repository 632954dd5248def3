#!/usr/bin/env python3
"""Measures on this machine what docs/performance.md has tables of, and prints them as Markdown: prompts and decoding
of every MODEL, and of the first one also eight sequences side by side, a long context behind a q8_0 cache, and what
it takes from the file to the first token, stock and packed.

  scripts/perf_rows.py MODEL.gguf... [--program PATH] [--threads 2] [--rounds 3] [--depth 4096]

Models take turns, round after round, so that a machine whose speed wanders treats them alike. Figures are medians,
with the best of the rounds in brackets; shares are medians of those "in turn" (docs/performance.md).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLOATS = ("f32", "f16", "bf16")
SEQUENCES = 8
MIB = 1 << 20


def run(command):
    """What a command prints, the seconds that it takes, and its peak resident memory in MiB."""
    command = list(map(str, command))
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        except OSError as error:
            sys.exit(f"perf_rows: {command[0]}: {error.strerror}")
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if child.returncode != 0:
            sys.exit(f"perf_rows: {' '.join(command)} ended with {child.returncode}: {errors.read().strip()}")
        return out.read(), seconds, usage.ru_maxrss / 1024


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
        self.command = [args.program, "bench", model, "--json", "-r", 1, "-t", args.threads, *options]
        self.speed, self.shares, self.type = {}, {}, ""

    def round(self):
        for line in run(self.command)[0].splitlines():
            result = json.loads(line)
            test, self.type = result["test"][:2], result["type"]
            self.speed.setdefault(test, Figures()).values.append(result["tokens_per_s"])
            for what, share in result["in_turn"].items():
                self.shares.setdefault((test, what), Figures()).values.append(share)

    def share(self, test, what):
        return f"{self.shares[test, what].median():.2f}"


class Start:
    """From the start of the program to the end of one token, of a file that is in memory."""

    def __init__(self, args, model):
        self.model = model
        self.command = [args.program, "run", model, "-p", "a", "-n", 1, "-c", 512, "-t", args.threads]
        self.seconds, self.peak = Figures(), Figures()

    def round(self):
        run(self.command)  # other models' files may have taken this one's place
        _, seconds, peak = run(self.command)
        self.seconds.values.append(seconds)
        self.peak.values.append(peak)

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
    one = Bench(args, first, "-p", 0, "-n", n)
    many = Bench(args, first, "-p", 0, "-n", n, "-b", SEQUENCES)
    shallow, deep = Bench(args, first, *both, "--kv", "q8_0"), Bench(args, first, *both, "--kv", "q8_0", "-d", args.depth)
    stock, mapped = Start(args, first), Start(args, packed)
    for _ in range(args.rounds):
        for test in (*models, one, many, shallow, deep, stock, mapped):
            test.round()

    print_table(("weights", f"prompt of {args.prompt_tokens}, tokens/s", "of the int8 chain", "decoding, tokens/s",
                 "of the read"), map(row_of, args.models, models))
    depth = f"at depth {args.depth}, q8_0 cache, of that at 0"
    print_table((first.stem, ""), (
        (f"{SEQUENCES} sequences, of one's tokens/s", ratio(many, one)),
        (f"decoding {depth}", ratio(deep, shallow)),
        ("  of the read, at that depth and at 0",
         f"{deep.share('tg', 'of_read_bw')}, {shallow.share('tg', 'of_read_bw')}"),
        (f"prompt of {args.prompt_tokens} {depth}", ratio(deep, shallow, "pp")),
        ("from the file to one token, s, packed", f"{stock.seconds.median():.2f}, {mapped.seconds.median():.2f}"),
        ("peak resident memory beyond the file, MiB, packed",
         f"{stock.beyond_file():.0f}, {mapped.beyond_file():.0f}")))


def main():
    root = Path(__file__).resolve().parent.parent
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    arguments.add_argument("--program", default=root / "build/release/examples/tessera/tessera")
    for name, default in (("threads", 2), ("rounds", 3), ("depth", 4096), ("prompt-tokens", 512), ("n-predict", 64)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    args = arguments.parse_args()
    for model in args.models:
        if not model.is_file():
            sys.exit(f"perf_rows: {model} is not a file")
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "packed.gguf"
        run([args.program, "pack", args.models[0], packed])
        measure(args, packed)


if __name__ == "__main__":
    main()
