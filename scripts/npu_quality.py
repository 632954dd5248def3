#!/usr/bin/env python3
"""Loss of quality on the NPU: perplexity and KL divergence from the model in floats, for each recipe, as Markdown.

  npu_quality.py build/release/examples/tessera/tessera MODEL TEXT [--ctx 256] [--windows 40] [--samples 32]

The ranges come from the first quarter of TEXT, the figures from its second half. Keys and values have 8 bits on the NPU.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

RECIPES = ("w8a16", "w8a16-hmx", "w4a16-block16", "w4a16", "w4a16-hmx", "w4a16-block64", "w8a8")


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--ctx", type=int, default=256)
    parser.add_argument("--windows", type=int, default=40)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--device", default="x-elite")
    args = parser.parse_args()
    lines = args.text.read_bytes().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        seen, judged = folder / "seen.txt", folder / "judged.txt"
        seen.write_bytes(b"".join(lines[:len(lines) // 4]))
        judged.write_bytes(b"".join(lines[len(lines) // 2:]))
        ranges, base = folder / "ranges.json", folder / "base"
        run(args.program, "npu", "calibrate", args.model, "-f", seen, "-c", args.ctx, "--samples", args.samples,
            "-o", ranges)

        def row(recipe, part, *options):
            found = json.loads(run(args.program, "perplexity", args.model, *options, "--json"))
            cells = (recipe, part, f"{found['perplexity']:.3f}",
                     f"{found['ratio']:.4f}" if "ratio" in found else "1", f"{found.get('kl_mean', 0):.6f}")
            print("| " + " | ".join(cells) + " |", flush=True)

        print("| recipe | on the NPU | perplexity | ratio | KL |\n|---|---|---|---|---|")
        row("floats", "nothing", "--precise", "--kv", "f32", "-f", judged, "-c", args.ctx, "--windows", args.windows,
            "--save-base", base)
        for recipe in RECIPES:
            for part, offload in (("all", ()), ("feed-forward parts", ("--offload", "blk.*.ffn"))):
                row(recipe, part, "--precise", "--kv", "f32", "--kl-base", base, "--npu-device", args.device,
                    "--npu-ranges", ranges, "--npu-recipe", recipe, *offload)


if __name__ == "__main__":
    main()
