#!/usr/bin/env python3
"""Compares the speed of two builds on the same machine: interleaves several runs of `tessera bench` of both, and
prints the ratio of the medians. Interleaving lets drift of the machine affect both alike.

  scripts/perf_compare.py BASE HEAD MODEL [--rounds 5] [--tolerance 0.03] [-- BENCH OPTIONS...]

BASE and HEAD are tessera programs, e.g. build/base/examples/tessera/tessera. Exit status 1 when HEAD is slower than
BASE by more than the tolerance in any test.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path


def run(command):
    """The output of a command. A failure ends the script."""
    command = list(map(str, command))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {command[0]}: {error.strerror}")
    if done.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).stem}: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def bench(program, model, *options):
    """The results of one run of `tessera bench`, a dictionary a test."""
    return list(map(json.loads, run([program, "bench", model, "--json", *options]).splitlines()))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("base")
    arguments.add_argument("head")
    arguments.add_argument("model")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--tolerance", type=float, default=0.03)
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, bench_options = arguments.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    if args.rounds < 1:
        arguments.error(f"--rounds: expected at least 1, found {args.rounds}")

    speeds = {}  # test -> ([base], [head])
    for i in range(args.rounds):
        # The order alternates, so that neither build always runs on the warmer machine.
        for which in ((0, 1), (1, 0))[i % 2]:
            program = (args.base, args.head)[which]
            for result in bench(program, args.model, *bench_options):
                speeds.setdefault(result["test"], ([], []))[which].append(result["tokens_per_s"])

    slower = False
    print(f"{'test':16} {'base':>10} {'head':>10} {'ratio':>7}  (medians of {args.rounds}, tokens/s)")
    for test, (base, head) in speeds.items():
        ratio = statistics.median(head) / statistics.median(base)
        worse = ratio < 1 - args.tolerance
        slower = slower or worse
        print(f"{test:16} {statistics.median(base):10.2f} {statistics.median(head):10.2f} {ratio:7.3f}"
              + ("  slower" if worse else ""))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
