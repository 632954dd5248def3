"""Many clients at once, some of them hostile: all are served, only invalid requests are refused, memory does not grow.

Usage: load_test.py PROGRAM [--streams N] [--seconds N] [--parallel N] [--queue N] [--mutations N] [--model FILE]
Clients stream completions, and one in ten disconnects midway. Meanwhile others send heads byte by byte, garbage after good
requests, and mutations of good requests; and one measures the latency of /health. The last line of output is a JSON object
of the measurements.
"""
import argparse
import asyncio
import json
import pathlib
import random
import sys
import time

from server_case import MODEL, Running, raw

SEEDS = [raw("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "stream": True}),
         raw("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "tools": [
             {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
                 "a": {"type": "string", "pattern": "^a+$"}}}}}], "tool_choice": "auto", "max_tokens": 2, "n": 2}),
         raw("/v1/completions", {"prompt": ["a", [1, 2]], "max_tokens": 2, "logprobs": 2, "stop": ["x"], "json_schema": {
             "type": "object", "properties": {"a": {"enum": [1, "b", None]}}, "required": ["a"]}}),
         raw("/completion", {"prompt": [1, "b"], "n_predict": 2, "logit_bias": [[5, -1.5]], "samplers": ["top_k", "min_p"]}),
         raw("/infill", {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "x", "text": "y"}]}),
         raw("/tokenize", {"content": "Hi \u00e9", "with_pieces": True}),
         raw("/detokenize", {"tokens": [5, 6, 7]}),
         raw("/apply-template", {"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"a": 1}}),
         raw("/v1/embeddings", {"input": ["a", "b"], "encoding_format": "base64"}),
         b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\r\nOrigin: http://x\r\n\r\n"]
PIECES = [b"\r\n", b'"', b"[" * 80, b"\x00", b"{}", b"99999999999", b"\xff", b"null", b"-1", b"1e999", b"true", b"\\ud800",
          b"chunked", b"Content-Length: 5\r\n", b'"stream":true,', b"%00", b"\xf0\x9f\x98\x80"]


def mutated(rng):
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randint(1, 9)]
        elif kind == 2:
            data[at:at] = rng.choice(PIECES)
        else:
            data[at:at] = data[at:at + rng.randint(1, 40)]
    if rng.randrange(2):
        # A correct Content-Length, so that the body is the fault.
        head, _, body = bytes(data).partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
        data = b"\r\n".join(lines + [b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body
    return bytes(data)


def percentiles(times):
    ordered = sorted(times)
    return {f"p{p}": round(1000 * ordered[min(len(ordered) - 1, len(ordered) * p // 100)], 1)
            for p in (50, 90, 99, 100)} if ordered else {}


class Load:
    def __init__(self, server, args):
        self.server, self.args = server, args
        self.first, self.between, self.health, self.failures = [], [], [], []
        self.statuses = {}
        self.n_left = self.n_tokens = self.n_mutated = 0
        self.end = time.monotonic() + args.seconds

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 20)

    async def stream(self, rng):
        """One completion; the client sometimes disconnects midway."""
        words = " ".join(rng.choice("the old ship sea captain went home and then a little".split())
                         for _ in range(rng.randint(3, 120)))
        n = rng.randint(10, 80)
        leaves = rng.randrange(1, n) if rng.random() < 0.1 else None
        body = {"prompt": words, "max_tokens": n, "stream": True, "ignore_eos": True, "seed": rng.randrange(1000)}
        reader, writer = await self.connect()
        start = last = time.monotonic()
        writer.write(raw("/v1/completions", body, "Connection: close"))
        status = int((await reader.readline()).split()[1])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        n_events, ended = 0, False
        async for line in reader:
            if status == 429 and line.lower().startswith(b"retry-after"):
                ended = True
            if not line.startswith(b"data: "):
                continue
            ended = line == b"data: [DONE]\n"
            if b'"error"' in line:
                self.failures.append(line.decode())
            now = time.monotonic()
            (self.between if n_events else self.first).append(now - last)
            last, n_events = now, n_events + 1
            if n_events == leaves:
                self.n_left += 1
                break
        writer.close()
        self.n_tokens += n_events
        if n_events != leaves and not ended:
            self.failures.append(f"status {status}: the answer ended after {n_events} of {n} in {time.monotonic() - start:.1f} s")
        if status == 429:
            await asyncio.sleep(0.2)

    async def streams(self, number):
        rng = random.Random(number)
        while time.monotonic() < self.end:
            await self.stream(rng)
        self.streamed_s = time.monotonic() - self.end + self.args.seconds

    async def slow_head(self):
        """A head sent byte by byte; the server ends the connection."""
        while time.monotonic() < self.end:
            reader, writer = await self.connect()
            try:
                for byte in b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 1000:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.1)
                    if reader.at_eof() or writer.transport.is_closing() or time.monotonic() > self.end:
                        break
            except ConnectionError:
                pass
            writer.close()

    async def mutations(self, number, count):
        """Mutated requests, or valid ones followed by garbage: each gets an answer or the end of the connection."""
        rng = random.Random(1000 + number)
        for i in range(count):
            data = mutated(rng) if i % 10 else SEEDS[5] + rng.randbytes(200) + SEEDS[5]
            reader, writer = await self.connect()
            try:
                writer.write(data)
                writer.write_eof()
                answer = await asyncio.wait_for(reader.read(), 60)
                if answer and not answer.startswith(b"HTTP/1.1 "):
                    self.failures.append(f"{data!r}: {answer[:100]!r}")
                if answer.startswith(b"HTTP/1.1 5") and answer[9:12] not in (b"501", b"503", b"505"):
                    self.failures.append(f"{data!r}: {answer[:300]!r}")
            except ConnectionError:
                pass
            except asyncio.TimeoutError:
                self.failures.append(f"no answer to {data!r}")
            writer.close()
            self.n_mutated += 1

    async def watch(self):
        while time.monotonic() < self.end:
            start = time.monotonic()
            reader, writer = await self.connect()
            writer.write(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
            if b" 200 " not in await reader.readline():
                self.failures.append("/health is not well")
            await reader.read()
            writer.close()
            self.health.append(time.monotonic() - start)
            await asyncio.sleep(0.1)

    def memory_mib(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    async def run(self):
        tasks = [self.streams(i) for i in range(self.args.streams)]
        tasks += [self.slow_head() for _ in range(8)] + [self.watch()]
        tasks += [self.mutations(i, self.args.mutations // 4) for i in range(4)]
        running = asyncio.gather(*tasks)
        await asyncio.sleep(self.args.seconds * 0.3)
        early = self.memory_mib()
        await running
        return early

    def metric(self, name):
        text = self.server.ask("GET", "/metrics").body.decode()
        return float(text.split(f"\n{name} ")[1].split("\n")[0])

    def idle(self):
        """Seconds until no request is running or waiting."""
        start = time.monotonic()
        while self.metric("tessera_requests_running") + self.metric("tessera_requests_waiting") > 0:
            if time.monotonic() - start > 10:
                self.failures.append("completions of disconnected clients are still computed")
                break
            time.sleep(0.05)
        return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", default=MODEL)
    for name, default in (("streams", 16), ("seconds", 10), ("parallel", 8), ("queue", 256), ("mutations", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    with Running(args.program, "--parallel", args.parallel, "--queue", args.queue, "--read-timeout", 2, "-c", 512,
                 model=args.model) as server:
        load = Load(server, args)
        start = time.monotonic()
        early = asyncio.run(load.run())
        seconds = time.monotonic() - start
        idle = load.idle()
        late = load.memory_mib()
        used = load.metric("tessera_kv_usage_ratio")
        status, log = server.stop()
    expected = {200, 429} if args.queue + args.parallel < args.streams else {200}
    unexpected = {s: n for s, n in load.statuses.items() if s not in expected}
    checks = {"every failure": load.failures[:5], "statuses that are not meant": unexpected, "exit status": status,
              "errors in the log": [line for line in log.splitlines() if '"level":"error"' in line][:5],
              "cache in use at the end": used, "growth beyond 24 MiB": max(0, late - early - 24),
              "/health took longer than 5 s": max([0] + load.health) > 5}
    print(json.dumps({"streams": args.streams, "seconds": round(seconds, 1), "answers": load.statuses, "left": load.n_left,
                      "tokens_per_s": round(load.n_tokens / load.streamed_s), "first_token_ms": percentiles(load.first),
                      "between_tokens_ms": percentiles(load.between), "health_ms": percentiles(load.health),
                      "mutated": load.n_mutated, "idle_after_s": round(idle, 2),
                      "memory_mib": [round(early, 1), round(late, 1)]}))
    bad = {name: value for name, value in checks.items() if value}
    for name, value in bad.items():
        print(f"{name}: {value}", file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
