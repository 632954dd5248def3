#!/usr/bin/env python3
"""Random outputs under every reference schema are valid for a validator that is not ours (ajv, from npm).

Usage: random_outputs_test.py GENERATOR WORK_DIR RUNS. Exits with 77, which is a skip, where node, npm, the registry or
the reference data are missing.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from npm import node_with, skip  # noqa: E402

PACKAGES = ["ajv@8.17.1", "ajv-formats@3.0.1"]


def main():
    generator, work, runs = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    here = pathlib.Path(__file__).resolve().parent
    shared = pathlib.Path(os.environ.get("TESSERA_SHARED", here.parents[1].parent / "shared"))
    schemas = shared / "golden/json-schema/structured.json"
    if not schemas.exists():
        skip(f"reference data not present: {schemas}")
    node = node_with(work, PACKAGES)
    command = [generator, str(schemas), runs, "1"]
    vocabulary = shared / "data/vocab/rebuilt/ggml-vocab-llama-bpe.gguf"
    if vocabulary.exists():
        command.append(str(vocabulary))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as outputs:
        check = subprocess.run([node, str(here / "validate.mjs"), str(schemas)], cwd=work, stdin=outputs.stdout)
        outputs.stdout.close()
        generated = outputs.wait()
    sys.exit(1 if generated != 0 or check.returncode != 0 else 0)


if __name__ == "__main__":
    main()
