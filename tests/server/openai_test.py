"""OpenAI's client from npm against the server. Usage: openai_test.py PROGRAM WORK_DIR. Exits with 77, which is a skip,
where node, npm or the registry are missing."""
import os
import pathlib
import subprocess
import sys
import tempfile

from server_case import Running

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from npm import node_with  # noqa: E402

PACKAGES = ["openai@6.49.0"]


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    node = node_with(work, PACKAGES)
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("right\n")
        keys.flush()
        with Running(program, "-c", 1024) as open_one, \
                Running(program, "-c", 256, "--parallel", 1, "--queue", 1) as small, \
                Running(program, "--api-key-file", keys.name) as locked:
            servers = {"URL": open_one, "URL_SMALL": small, "URL_KEYS": locked}
            urls = {name: f"http://127.0.0.1:{server.port}" for name, server in servers.items()}
            done = subprocess.run([node, "--test", str(HERE / "openai_client.mjs")], cwd=work, env=os.environ | urls)
            logs = [server.stop() for server in servers.values()]
    failures = [line for _, log in logs for line in log.splitlines() if '"level":"error"' in line]
    sys.exit(1 if done.returncode or failures or any(status for status, _ in logs) else 0)


if __name__ == "__main__":
    main()
