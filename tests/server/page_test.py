"""The chat page in a headless Chromium, driven by playwright-core from npm. Usage: page_test.py PROGRAM WORK_DIR;
leaves screenshots in WORK_DIR. Exits with 77, which is a skip, where Chromium, node, npm or the registry are
missing."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from server_case import MODEL, Running

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from npm import node_with, skip  # noqa: E402

# Later versions need node 20; Debian 12 has 18.
PACKAGES = ["playwright-core@1.53.2"]
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        skip("no Chromium is installed (scripts/setup.sh --test installs it, where the distribution has it)")
    node = node_with(work, PACKAGES)
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("key-7391\n")
        keys.flush()
        with Running(program, "-c", 1024) as open_one, Running(program, "-c", 100000) as long, \
                Running(program, "--api-key-file", keys.name) as locked:
            servers = {"URL": open_one, "URL_LONG": long, "URL_KEYS": locked}
            environment = {name: f"http://127.0.0.1:{server.port}" for name, server in servers.items()}
            environment |= {"BROWSER": browser, "SHOTS": str(work.resolve())}
            done = subprocess.run([node, "--test", str(HERE / "page_test.mjs")], cwd=work, env=os.environ | environment)
            logs = [server.stop() for server in servers.values()]
    # The chat loads the page's export.
    chat = subprocess.run([program, "chat", MODEL, "--load", work / "Mine.json"], input=b"/show\n", capture_output=True)
    if chat.stdout != b"> The second\nKept.\n\n":
        sys.exit(f"the chat does not read what the page exports: {chat}")
    failures = [line for _, log in logs for line in log.splitlines() if '"level":"error"' in line]
    print(*failures, sep="\n")
    sys.exit(1 if done.returncode or failures or any(status for status, _ in logs) else 0)


if __name__ == "__main__":
    main()
