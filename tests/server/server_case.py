"""Base of the server's tests: starts `tessera serve` on a free port over the default model."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/tessera-tiny.gguf"


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The data of a stream's events as JSON, and its final [DONE]."""
        lines = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


class Running:
    """A running server, stopped at the end of the `with`."""

    def __init__(self, program, *options, env=None, model=MODEL):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
        self.log = tempfile.TemporaryFile()  # a pipe without a reader would block the server
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", *map(str, options)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
                                        env=clean | (env or {}))
        line = self.process.stdout.readline().decode().strip()
        if not line:
            self.process.communicate()
            with self.log:
                raise RuntimeError(self.read_log())
        self.port = int(line.rsplit(":", 1)[1]) if line.startswith("http") else 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.log.close()

    def read_log(self):
        self.log.seek(0)
        return self.log.read().decode()

    def stop(self, timeout=60):
        """(exit status, log) after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=timeout)
        return self.process.returncode, self.read_log()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def post(self, path, **body):
        return self.ask("POST", path, body)

    def send(self, data):
        """The bytes received over a plain socket until the server closes it or is silent."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)

    def accepts(self):
        """Whether the server takes connections."""
        try:
            self.connect().close()
            return True
        except ConnectionError:
            return False

    def connect(self, timeout=10):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)


def wait_for(condition, seconds=30):
    """Whether the condition held before the deadline, which only a failing test reaches."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def raw(path, body, *headers):
    """A POST as bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def read_all(connection):
    out = b""
    try:
        while chunk := connection.recv(65536):
            out += chunk
    except (TimeoutError, ConnectionResetError):
        pass
    return out


class ServerCase(unittest.TestCase):
    program = ""
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Running(cls.program, *cls.options)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            status, log = cls.server.stop()
        assert status == 0, (status, log)
        failures = [line for line in log.splitlines() if '"level":"error"' in line]
        assert not failures, failures

    def fine(self, path, **body):
        answer = self.server.post(path, **body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def refused(self, status, path, param=None, says=(), **body):
        answer = self.server.post(path, **body)
        self.assertEqual(answer.status, status, answer.body)
        error = answer.json()["error"]
        self.assertEqual(error["param"], param, error)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, error["message"])
        return answer


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: NAME_test.py PROGRAM [options of unittest]")
    ServerCase.program = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(module="__main__")
