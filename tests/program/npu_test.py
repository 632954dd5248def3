"""`tessera npu`: the descriptions of devices, given and changed."""
import json

from program_case import ProgramCase, main


class Devices(ProgramCase):
    def test_list(self):
        names = [line.split()[0] for line in self.fine("npu", "devices").decode().splitlines()]
        self.assertEqual(names, ["x-elite", "sm8850", "sm8750", "sm8650", "sm8550", "sm8450", "xr-2mb", "toy"])
        objects = [json.loads(line) for line in self.fine("npu", "devices", "--json").splitlines()]
        self.assertEqual([o["name"] for o in objects], names)

    def test_a_description_can_be_changed_and_given_back(self):
        mine = json.loads(self.fine("npu", "devices", "toy", "--json"))
        path = self.folder / "mine.json"
        path.write_text(json.dumps(mine))
        self.assertEqual(self.fine("npu", "devices", path), self.fine("npu", "devices", "toy"))
        mine["dma"]["gb_per_s"] = 12.5
        path.write_text(json.dumps(mine))
        changed = self.fine("npu", "devices", path).decode()
        self.assertIn("dma.gb_per_s               12.5", changed)
        self.assertNotEqual(changed.splitlines()[0], self.fine("npu", "devices", "toy").decode().splitlines()[0])
        mine["dma"]["speed"] = 1
        path.write_text(json.dumps(mine))
        self.refused(1, "npu", "devices", path, says=("mine.json", "unknown field 'dma.speed'"))

    def test_usage(self):
        self.refused(1, "npu", "devices", "nothing", says=("nothing", "x-elite"))
        self.refused(2, "npu", "device", says="unknown command 'npu device'; expected npu devices")
        self.refused(2, "npu", says="unknown command 'npu'; expected npu devices")
        self.assertIn(b"\n  npu devices ", self.fine("npu", "--help"))
        self.assertIn(b"Usage: tessera npu devices ", self.fine("npu", "devices", "--help"))


if __name__ == "__main__":
    main()
