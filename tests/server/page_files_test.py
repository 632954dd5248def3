"""The files of the chat page as they are served, without a browser: headers, references, --no-page."""
import re

from server_case import Running, ServerCase, main


class Files(ServerCase):
    def get(self, path):
        answer = self.server.ask("GET", path)
        self.assertEqual(answer.status, 200, path)
        return answer

    def references(self, path):
        """The files that the file at the path loads, as paths from the root."""
        text = self.get(path).body.decode()
        if path == "/":
            return ["/" + name for name in re.findall(r'(?:src|href)="([^"#]+)"', text)]
        return ["/page/" + name for name in re.findall(r'from "\./([^"]+)"', text)]

    def test_all_that_is_loaded_is_there(self):
        seen, left = set(), ["/"]
        while left:
            path = left.pop()
            if path not in seen:
                seen.add(path)
                left += self.references(path)
        self.assertGreater(len(seen), 5)
        served = {"text/html": 0, "text/javascript": 0, "text/css": 0, "image/svg+xml": 0}
        for path in seen:
            headers = self.get(path).headers
            served[headers["Content-Type"].split(";")[0]] += 1
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            policy = headers["Content-Security-Policy"]
            self.assertTrue(policy.startswith("default-src 'none';"))
            self.assertNotIn("unsafe", policy)
        self.assertTrue(all(served.values()), served)

    def test_nothing_from_elsewhere_and_nothing_inline(self):
        page = self.get("/").body.decode()
        self.assertNotRegex(page, r"<style|\son\w+=|\sstyle=|<script(?![^>]*\ssrc=)|https?://")

    def test_described(self):
        paths = self.server.ask("GET", "/openapi.json").json()["paths"]
        self.assertIn("/", paths)
        self.assertFalse([path for path in paths if path.startswith("/page/")])

    def test_other_methods(self):
        head = self.server.ask("HEAD", "/")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(self.server.ask("POST", "/", {}).status, 405)
        self.assertEqual(self.server.ask("GET", "/page/none.js").status, 404)


class Switched(ServerCase):
    options = ("--no-page",)

    def test_off(self):
        for path in ("/", "/page/main.js"):
            answer = self.server.ask("GET", path)
            self.assertEqual(answer.status, 404)
            self.assertIn("--no-page", answer.json()["error"]["message"])


class Locked(ServerCase):
    def test_the_page_needs_no_key(self):
        with Running(self.program, env={"TESSERA_API_KEY": "key"}) as server:
            statuses = [server.ask("GET", path).status for path in ("/", "/page/main.js", "/props")]
        self.assertEqual(statuses, [200, 200, 401])


if __name__ == "__main__":
    main()
