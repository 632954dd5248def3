#!/usr/bin/env python3
"""Overhead of HTTP: the same requests by `tessera bench` and by clients of `tessera serve`, interleaved.

Usage: server_speed.py PROGRAM MODEL [-p TOKENS] [-n TOKENS] [--concurrency N] [--requests N] [--rounds N]
Prints for each round tokens per second over all clients, and the median time to the first token; then the ratios of the
best rounds, server to bench, since other load on the machine only makes rounds slower.
"""
import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time


def bench(args):
    done = subprocess.run([args.program, "bench", args.model, "-p", str(args.p), "-n", str(args.n), "--concurrency",
                           str(args.concurrency), "--requests", str(args.requests), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    row = json.loads(done.stdout.splitlines()[-1])
    return row["tokens_per_s"], row["first_token_ms"]["p50"]


async def ask(port, tokens, n):
    """Milliseconds to the first token; the number of tokens received."""
    body = json.dumps({"prompt": tokens, "max_tokens": n, "ignore_eos": True, "stream": True}).encode()
    start = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /completion HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    first, n_came = None, 0
    async for line in reader:
        if line.startswith(b"data: ") and b'"stop":false' in line:
            first = first or 1000 * (time.monotonic() - start)
            n_came += 1
    writer.close()
    if n_came != n:
        sys.exit(f"expected {n} tokens, found {n_came}")
    return first


async def clients(port, args):
    rng = random.Random(7)
    prompts = [[rng.randrange(3, 1000) for _ in range(args.p)] for _ in range(args.requests)]
    first = []

    async def client():
        while prompts:
            first.append(await ask(port, prompts.pop(), args.n))

    start = time.monotonic()
    await asyncio.gather(*(client() for _ in range(args.concurrency)))
    return args.requests * args.n / (time.monotonic() - start), statistics.median(first)


def serve(args):
    """A server of its own each time, so that two copies of the weights are never in memory at once."""
    server = subprocess.Popen([args.program, "serve", args.model, "--port", "0", "-c", str(args.p + args.n), "--parallel",
                               str(args.concurrency)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        port = int(server.stdout.readline().decode().rsplit(":", 1)[1])
        return asyncio.run(clients(port, args))
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    for name, default in (("-p", 32), ("-n", 32), ("--concurrency", 1), ("--requests", 2), ("--rounds", 1)):
        parser.add_argument(name, type=int, default=default)
    args = parser.parse_args()
    rows = {"bench": [], "server": []}
    for _ in range(args.rounds):
        rows["bench"].append(bench(args))
        rows["server"].append(serve(args))
    for name, found in rows.items():
        for speed, first in found:
            print(f"{name:7} {speed:8.2f} tokens/s, first token after {first:8.1f} ms")
    for i, (what, best) in enumerate((("tokens/s", max), ("time to the first token", min))):
        print(f"{what}: {best(r[i] for r in rows['server']) / best(r[i] for r in rows['bench']):.3f}")


if __name__ == "__main__":
    main()
