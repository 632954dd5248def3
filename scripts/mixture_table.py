#!/usr/bin/env python3
"""Loss of quality by quantization type. Quantizes MODEL (F16) to every type, and prints as Markdown bytes, bits
per weight, perplexity and KL divergence from MODEL on each TEXT, and tokens per second of decoding on one thread.

  mixture_table.py build/release/examples/tessera/tessera MODEL TEXT[:WINDOWS] ... [--ctx 256] [--only Q4_K_M,Q6_K]

WINDOWS limits the number of windows of a text. --imatrix FILE is passed to the quantizer; --no-speed omits the last column.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments), "--json"], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def all_mixtures(program):
    text = subprocess.run([program, "quantize", "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    names = re.search(r"TYPE\s+One of ([^.]*)\.", text).group(1).split()
    return [name for name in names if name not in ("F32", "F16")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--ctx", type=int, default=256)
    parser.add_argument("--only", default="")
    parser.add_argument("--imatrix", default="")
    parser.add_argument("--no-speed", action="store_true")
    args = parser.parse_args()
    mixtures = args.only.split(",") if args.only else all_mixtures(args.program)
    texts = [text.rpartition(":")[::2] if ":" in text else (text, "0") for text in args.texts]
    head = ["mixture", "bytes", "bits a weight"]
    for text, _ in texts:
        head += [f"perplexity, {pathlib.Path(text).name}", "KL"]
    if not args.no_speed:
        head.append("tokens/s")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bases = []
        for i, (text, n_windows) in enumerate(texts):
            bases.append(pathlib.Path(folder) / f"base{i}")
            run(args.program, "perplexity", args.model, "-f", text, "-c", args.ctx, "--windows", n_windows,
                "--save-base", bases[-1])

        def row(name, path, size):
            cells = [name, str(size["bytes"]), f"{size['bits_per_weight']:.2f}"]
            for base in bases:
                found = run(args.program, "perplexity", path, "--kl-base", base)[0]
                cells += [f"{found['perplexity']:.3f}", f"{found['kl_mean']:.6f}"]
            if not args.no_speed:
                # The best of several short samples, since other load on the machine only makes samples slower.
                bench = run(args.program, "bench", path, "-t", 1, "-p", 0, "-n", 8, "-r", 40)[0]
                cells.append(f"{bench['best']:.0f}")
            print("| " + " | ".join(cells) + " |", flush=True)

        row("F16", args.model, run(args.program, "inspect", args.model, "--keys")[0])
        for name in mixtures:
            out = pathlib.Path(folder) / "out.gguf"
            options = ["--imatrix", args.imatrix] if args.imatrix else []
            row(name, out, run(args.program, "quantize", args.model, out, name, "--quiet", *options)[0])


if __name__ == "__main__":
    main()
