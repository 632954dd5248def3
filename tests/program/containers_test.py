"""Splitting, merging, comparing and digesting files: the same bytes in both directions, and digests that other
programs confirm."""
import hashlib
import json
import struct

from program_case import LLAMA, ROOT, TINY, ProgramCase, main

DEFAULT = ROOT / "models/tessera-tiny.gguf"


class Containers(ProgramCase):
    def digests(self, path):
        return json.loads(self.fine("hash", path, "--json"))

    def difference(self, a, b):
        return json.loads(self.fine("diff", a, b, "--json"))

    def test_split_and_merge_are_inverse(self):
        for limits, n_parts in ((("--max-tensors", 7), None), (("--max-size", "1M"), None), (("--max-size", "1T"), 1)):
            whole, merged = self.folder / "whole.gguf", self.folder / "merged.gguf"
            # Our writer's copy: merging removes the keys of a split.
            self.fine("merge", TINY, whole)
            self.fine("split", whole, self.folder / "part", *limits)
            parts = sorted(self.folder.glob("part-*"))
            count = len(parts)
            self.assertEqual([p.name for p in parts],
                             [f"part-{i + 1:05}-of-{count:05}.gguf" for i in range(count)])
            if n_parts:
                self.assertEqual(count, n_parts)
            else:
                self.assertGreater(count, 2)
            self.assertEqual(self.digests(parts[0]), self.digests(whole) | {"path": str(parts[0])})
            self.fine("merge", parts[0], merged)
            self.assertTrue(merged.read_bytes() == whole.read_bytes())
            self.assertTrue(self.difference(parts[0], whole)["same"] or count == 1 or
                            {k["key"] for k in self.difference(parts[0], whole)["keys"]} ==
                            {"split.no", "split.count", "split.tensors.count"})
            logits = [self.fine("logits", f, "--tokens", "1,5,300", "--out", "-") for f in (whole, parts[0])]
            self.assertEqual(*logits)
            for path in parts:
                path.unlink()

    def test_split_refuses(self):
        self.refused(2, "split", TINY, self.folder / "x", says="--max-size")
        self.refused(2, "split", TINY, self.folder / "x", "--max-size", "2X", says="2X")
        packed = self.folder / "packed.gguf"
        self.fine("pack", DEFAULT, packed)
        self.refused(1, "split", packed, self.folder / "x", "--max-tensors", 4, says="unpack it first")
        self.refused(1, "merge", TINY, TINY, says="is the input")
        self.fine("split", TINY, self.folder / "a", "--max-tensors", 8)
        first = sorted(self.folder.glob("a-*"))[0]
        self.refused(1, "split", first, self.folder / "a", "--max-tensors", 8, says="is the input")
        listed = self.fine("split", TINY, self.folder / "b", "--max-tensors", 8, "--dry-run").decode()
        self.assertIn("part 1 of", listed)
        self.assertEqual(list(self.folder.glob("b-*")), [])
        # A failure removes the parts written so far.
        (self.folder / "c-00002-of-00002.gguf").mkdir()
        n = len(json.loads(self.fine("inspect", TINY, "--json"))["tensors"])
        self.refused(1, "split", TINY, self.folder / "c", "--max-tensors", (n + 1) // 2, says="c-00002")
        self.assertFalse((self.folder / "c-00001-of-00002.gguf").exists())

    def test_digests_are_those_of_others(self):
        found = self.digests(DEFAULT)
        tensors = {t["name"]: t for t in json.loads(self.fine("inspect", DEFAULT, "--json"))["tensors"]}
        total = sum(t["bytes"] for t in tensors.values())
        # The data is at the end of the file, in its order, each tensor at a multiple of 32.
        data = DEFAULT.read_bytes()
        at = len(data) - sum((t["bytes"] + 31) // 32 * 32 for t in tensors.values())
        whole = hashlib.sha256()
        for row in found["tensors"]:
            n = tensors[row["name"]]["bytes"]
            self.assertEqual(row["sha256"], hashlib.sha256(data[at:at + n]).hexdigest(), row["name"])
            whole.update(data[at:at + n])
            at += (n + 31) // 32 * 32
        self.assertGreater(total, 0)
        self.assertEqual(found["sha256"], whole.hexdigest())
        line = self.fine("hash", DEFAULT, "--whole").decode().split()
        self.assertEqual(line[:2], [found["sha256"], found["xxh64"]])
        self.assertEqual(self.fine("hash", DEFAULT, "-t", 1), self.fine("hash", DEFAULT, "-t", 2))

    def test_diff(self):
        same = self.difference(TINY, TINY)
        self.assertTrue(same["same"])
        q8 = self.folder / "q8.gguf"
        report = json.loads(self.fine("quantize", TINY, q8, "Q8_0", "--json"))
        found = self.difference(TINY, q8)
        self.assertFalse(found["same"])
        self.assertIn("general.file_type", {k["key"] for k in found["keys"]})
        errors = {t["name"]: t["error"] for t in report["tensors"] if "error" in t}
        for tensor in found["tensors"]:
            if not tensor["same"]:
                self.assertAlmostEqual(tensor["error"], errors.pop(tensor["name"]), delta=1e-12)
        self.assertEqual(errors, {})
        text = self.fine("diff", TINY, q8).decode()
        self.assertIn("f16", text)
        self.assertIn("tensors are the same", text)
        other = self.difference(LLAMA, TINY)
        self.assertTrue(any(t["a"] is None for t in other["tensors"]))
        packed = self.folder / "packed.gguf"
        self.fine("pack", DEFAULT, packed)
        self.refused(1, "diff", DEFAULT, packed, says="unpack it first")

    def test_inspect_sums_up(self):
        found = json.loads(self.fine("inspect", DEFAULT, "--json"))
        self.assertEqual(found["tensor_bytes"], sum(t["bytes"] for t in found["tensors"]))
        self.assertEqual(found["tensor_bytes"] + found["metadata_bytes"], DEFAULT.stat().st_size)
        self.assertAlmostEqual(sum(t["share"] for t in found["types"].values()), 1, delta=0.001)
        self.assertEqual(found["types"]["q8_0"]["bits_per_weight"], 8.5)


if __name__ == "__main__":
    main()
