"""HTTP itself: malformed and hostile requests, slow clients, keys, origins, unix sockets, shutdown."""
import http.client
import json
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from server_case import MODEL, Running, ServerCase, main, raw, read_all, wait_for

LONG = {"prompt": "Once upon a time", "max_tokens": 90000, "ignore_eos": True, "stream": True}


class Framing(ServerCase):
    options = ("--max-body", 1, "--read-timeout", 2, "--connections", 40)

    def status(self, data):
        answer = self.server.send(data)
        return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else answer

    def test_malformed_heads(self):
        body = b"{}"
        cases = {
            b"garbage\r\n\r\n": 400, b"GET /health\r\n\r\n": 400, b"GET /health HTTP/3.0\r\n\r\n": 505,
            b"BREW /health HTTP/1.1\r\n\r\n": 501, b"GET health HTTP/1.1\r\n\r\n": 400,
            b"GET /health HTTP/1.1\r\nno colon\r\n\r\n": 400, b"GET /health HTTP/1.1\r\nA: \x01\r\n\r\n": 400,
            b"GET /health HTTP/1.1\r\nA : b\r\n\r\n": 400, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n": 414,
            b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n": 431, b"GET /health HTTP/1.1\r\nA: " + b"b" * 40000: 431,
            b"POST /tokenize HTTP/1.1\r\n\r\n" + body: 411,
            b"POST /tokenize HTTP/1.1\r\nContent-Length: -1\r\n\r\n" + body: 400,
            b"POST /tokenize HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n" + body: 400,
            b"POST /tokenize HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + body: 400,
            b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n" + body: 501,
            b"POST /tokenize HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n" + body: 415,
            b"POST /tokenize HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n": 413,
        }
        for data, status in cases.items():
            with self.subTest(data[:60]):
                self.assertEqual(self.status(data), status)

    def test_routes_and_methods(self):
        self.assertEqual(self.server.ask("GET", "/nothing").status, 404)
        answer = self.server.ask("GET", "/tokenize")
        self.assertEqual((answer.status, answer.headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.ask("DELETE", "/health").status, 405)
        self.assertEqual(self.server.ask("HEAD", "/health").body, b"")

    def test_request_ids(self):
        self.assertEqual(self.server.ask("GET", "/health", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"], "mine-1")
        other = self.server.ask("GET", "/health", headers={"X-Request-Id": "not mine %0d%0aA: b"})
        self.assertTrue(other.headers["X-Request-Id"].startswith("req-"))

    def test_chunked_and_pipelined(self):
        data = b'{"content": "Hi"}'
        chunked = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
            b"1\r\n" + data[i:i + 1] + b"\r\n" for i in range(len(data))) + b"0\r\n\r\n"
        answer = self.server.send(chunked + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertEqual(answer.count(b"HTTP/1.1 200"), 2, answer)
        self.assertEqual(self.status(b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"80000\r\n" +
                                     b" " * 0x80000 + b"\r\nfffff\r\n" + b" " * 0xfffff), 413)

    def test_form_type_of_curl(self):
        answer = self.server.ask("POST", "/tokenize", {"content": "x" * 20000},
                                 {"Content-Type": "application/x-www-form-urlencoded"})
        self.assertEqual(answer.status, 200, answer.body)

    def test_slow_clients(self):
        with self.server.connect(30) as head, self.server.connect(30) as body:
            body.sendall(b"POST /tokenize HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
            head.sendall(b"GET /hea")
            start = time.monotonic()
            self.assertEqual(self.server.ask("GET", "/health").status, 200)
            self.assertLess(time.monotonic() - start, 1.8)
            self.assertTrue(read_all(head).startswith(b"HTTP/1.1 408"))
            self.assertTrue(read_all(body).startswith(b"HTTP/1.1 408"))
            self.assertLess(time.monotonic() - start, 20)

    def test_too_many_connections(self):
        with Running(self.program, "--connections", 8, "--read-timeout", 60) as server:
            # Connections are accepted in order, so that the ninth finds eight.
            held = [server.connect() for _ in range(8)]
            self.assertIn(b"503", server.send(b"GET /health HTTP/1.1\r\n\r\n")[:20])
            for connection in held:
                connection.close()
            self.assertTrue(wait_for(
                lambda: b"200" in server.send(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")[:20]))

    def test_every_truncated_prefix(self):
        """A truncated request gets no answer or a client error."""
        chunked = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n" + b'{"content' + \
            b"\r\n6\r\n" + b'":"a"}' + b"\r\n0\r\n\r\n"
        for whole in (raw("/tokenize", {"content": "Hi \u00e9", "add_special": True}, "X-Request-Id: a", "Accept: */*"), chunked):
            for n in range(len(whole) + 1):
                with self.server.connect() as connection:
                    connection.sendall(whole[:n])
                    connection.shutdown(socket.SHUT_WR)
                    answer = read_all(connection)
                expected = (b"HTTP/1.1 200", ) if n == len(whole) else (b"HTTP/1.1 4", b"")
                self.assertTrue(any(answer.startswith(e) and (e or not answer) for e in expected), (n, answer))


class Streams(ServerCase):
    options = ("--parallel", 1, "--queue", 1, "-c", 100000)

    def gauge(self, *names):
        lines = map(str.split, self.server.ask("GET", "/metrics").body.decode().splitlines())
        return sum(int(line[1]) for line in lines if line[0] in [f"tessera_requests_{name}" for name in names])

    def test_full_queue_and_disconnects(self):
        held = []
        for kind in ("running", "waiting"):
            connection = self.server.connect()
            connection.sendall(raw("/v1/completions", LONG))
            held.append(connection)
            self.assertTrue(wait_for(lambda: self.gauge(kind) == 1), kind)
        answer = self.server.post("/v1/completions", prompt="x")
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (429, "1"), answer.body)
        for connection in held:
            connection.close()
        self.wait_until_idle()
        self.assertEqual(self.server.post("/v1/completions", prompt="x", max_tokens=2).status, 200)

    def wait_until_idle(self):
        self.assertTrue(wait_for(lambda: self.gauge("running", "waiting") == 0, 5))

    def test_leaving_while_the_prompt_is_read(self):
        """The slot is free at once, for every kind of answer, and the next request need not wait."""
        long = [5 + i % 400 for i in range(60000)]  # a minute
        whole = {"prompt": long, "max_tokens": 5}
        for body in (whole, whole | {"stream": True}, LONG | {"stream": False}):
            with self.server.connect() as connection:
                connection.sendall(raw("/v1/completions", body))
                self.assertTrue(wait_for(lambda: self.gauge("running") == 1))
            self.wait_until_idle()
            self.assertEqual(self.server.post("/v1/completions", prompt="x", max_tokens=2).status, 200)

    def test_leaving_an_embedding(self):
        body = {"input": [[5 + i % 400 for i in range(60000)]] * 8}
        with self.server.connect() as first, self.server.connect() as second:
            first.sendall(raw("/v1/embeddings", body))
            self.assertTrue(wait_for(lambda: self.gauge("running") == 1))
            second.sendall(raw("/v1/embeddings", body))
            self.assertTrue(wait_for(lambda: self.gauge("waiting") == 1))
        # The slot is free as soon as the server has seen that both clients are gone.
        answers = []

        def taken():
            answers.append(self.server.post("/v1/embeddings", input="x"))
            return answers[-1].status != 429

        self.assertTrue(wait_for(taken, 5))
        self.assertEqual(answers[-1].status, 200, answers[-1].body)


class Access(ServerCase):
    def test_keys(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("first\nsecond %41\n")
            keys.flush()
            with Running(self.program, "--api-key-file", keys.name, env={"TESSERA_API_KEY": "other"}) as server:
                for given, status in ((None, 401), ("first", 200), ("second %41", 200), ("second A", 401), ("firs", 401),
                                      ("other", 401)):
                    with self.subTest(given):
                        headers = {"Authorization": f"Bearer {given}"} if given else {}
                        self.assertEqual(server.ask("GET", "/v1/models", headers=headers).status, status)
                self.assertEqual(server.ask("GET", "/v1/models", headers={"X-Api-Key": "first"}).status, 200)
                self.assertEqual(server.ask("GET", "/health").status, 200)
                log = server.stop()[1]
                self.assertNotIn("second", log)

    def test_origins(self):
        body = {"content": "x"}
        self.assertEqual(self.server.ask("POST", "/tokenize", body, {"Origin": "https://elsewhere.example"}).status, 403)
        own = f"http://127.0.0.1:{self.server.port}"
        self.assertEqual(self.server.ask("POST", "/tokenize", body, {"Origin": own}).status, 200)
        # DNS rebinding: a site whose name resolves to this machine.
        for name, status in (("rebound.example", 403), ("localhost", 200), ("[::1]", 200)):
            headers = {"Host": f"{name}:{self.server.port}", "Origin": f"http://{name}:{self.server.port}"}
            self.assertEqual(self.server.ask("POST", "/tokenize", body, headers).status, status, name)
        with Running(self.program, "--cors-origin", "https://page.example") as server:
            origin = {"Origin": "https://page.example"}
            answer = server.ask("OPTIONS", "/tokenize", headers=origin)
            self.assertEqual((answer.status, answer.headers["Access-Control-Allow-Origin"]), (204, origin["Origin"]))
            self.assertEqual(server.ask("POST", "/tokenize", body, origin).headers["Access-Control-Allow-Origin"],
                             origin["Origin"])

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/socket"
            with Running(self.program, "--host", path) as server:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(path)
                connection.sendall(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
                self.assertIn(b"200", read_all(connection)[:20])
                connection.close()
                self.assertEqual(server.stop()[0], 0)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("mine", "other"):
                made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/{name}.key",
                                       "-out", f"{folder}/{name}.pem", "-days", "2", "-subj", "/CN=localhost", "-addext",
                                       "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True, text=True)
                self.assertEqual(made.returncode, 0, made.stderr)
            files = "--tls-cert", f"{folder}/mine.pem", "--tls-key", f"{folder}/mine.key"
            trusting = ssl.create_default_context(cafile=f"{folder}/mine.pem")
            with Running(self.program, *files, "-c", 4096, "--read-timeout", 2) as server:
                def over_tls(context=trusting):
                    return context.wrap_socket(server.connect(), server_hostname="localhost")

                with over_tls() as connection:
                    self.assertIn(connection.version(), ("TLSv1.2", "TLSv1.3"))
                    # A stream, two requests on one connection, and a body of many records.
                    connection.sendall(raw("/v1/completions", LONG | {"max_tokens": 40}))
                    connection.sendall(raw("/tokenize", {"content": "word " * 50000}, "Connection: close"))
                    answer = read_all(connection)
                    self.assertEqual(answer.count(b"HTTP/1.1 200"), 2, answer[:300])
                    self.assertIn(b"data: [DONE]", answer)
                    self.assertGreater(len(answer), 100000)
                # Clients without TLS, truncated or silent ones do not disturb others.
                silent = server.connect()
                self.assertEqual(server.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")[:4], b"")
                server.send(b"\x16\x03\x01\x02\x00\x01")
                with self.assertRaises(ssl.SSLError):
                    over_tls(ssl.create_default_context(cafile=f"{folder}/other.pem"))
                with over_tls() as slow:
                    slow.sendall(b"GET /hea")
                    self.assertIn(b"HTTP/1.1 408", read_all(slow))
                with over_tls() as leaving:
                    leaving.sendall(raw("/v1/completions", LONG | {"max_tokens": 4000}))
                    leaving.recv(10)
                silent.close()
                with over_tls() as connection:
                    connection.sendall(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
                    self.assertIn(b'{"status":"ok"}', read_all(connection))
                self.assertEqual(server.stop()[0], 0)
            for options, says in ((files[:2], "together"), (files[:3] + (f"{folder}/other.key",), "no PEM private key"),
                                  (("--tls-cert", MODEL) + files[2:], "has no PEM certificate"),
                                  (files[:3] + (f"{folder}/none.key",), "none.key")):
                with self.assertRaises(RuntimeError) as caught:
                    Running(self.program, *options)
                self.assertIn(says, str(caught.exception))

    def test_graceful_end(self):
        with Running(self.program, "--grace", 20) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps(LONG | {"max_tokens": 200}).encode())
            response = connection.getresponse()
            first = response.read(10)
            ended = []
            waiter = threading.Thread(target=lambda: ended.append(server.stop()))
            waiter.start()
            rest = response.read()
            waiter.join()
            self.assertTrue((first + rest).rstrip().endswith(b"data: [DONE]"), rest[-300:])
            self.assertEqual(ended[0][0], 0)

    def test_second_signal_ends_at_once(self):
        with Running(self.program, "--grace", 600, "-c", 1 << 17) as server:
            connection = server.connect()
            connection.sendall(raw("/v1/completions", LONG))
            connection.recv(10)
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(wait_for(lambda: not server.accepts()))
            status, log = server.stop(20)
            self.assertEqual(status, 0, log)
            self.assertIn(b"the server is stopping", read_all(connection))
            connection.close()

    def test_log_has_no_prompt(self):
        with Running(self.program) as server:
            server.post("/v1/completions", prompt="Rumpelstiltskin", max_tokens=2)
            log = server.stop()[1]
            self.assertNotIn("Rumpel", log)
            line = [json.loads(text) for text in log.splitlines() if text.startswith("{")][0]
            self.assertEqual((line["path"], line["status"], line["completion_tokens"]), ("/v1/completions", 200, 2))

    def test_port_in_use(self):
        with self.assertRaises(RuntimeError) as caught:
            Running(self.program, "--port", self.server.port)
        self.assertIn("cannot listen on 127.0.0.1", str(caught.exception))
        self.assertTrue(MODEL.exists())


if __name__ == "__main__":
    main()
