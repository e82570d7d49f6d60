"""The checker must pass what ExecuTorch wrote, and must not pass anything else."""

import contextlib
import io
import shutil
import tempfile
import unittest
from pathlib import Path

from executorch.backends.vulkan.serialization.vulkan_graph_serialize import VulkanDelegateHeader
from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

from pteron_export.written import check_written

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
OPS = FIXTURES / "ops"


def run(paths: list[Path], against: Path | None = None) -> tuple[int, str]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = check_written(paths, against)
    return status, output.getvalue()


def moved(blob: bytes) -> bytes:
    """The same delegate with a gap between header and flatbuffer."""
    header = VulkanDelegateHeader.from_bytes(blob[: VulkanDelegateHeader.EXPECTED_LENGTH])
    rest = blob[header.flatbuffer_offset :]
    header.flatbuffer_offset += 16
    header.bytes_offset += 16
    return header.to_bytes().ljust(header.flatbuffer_offset, b"\0") + rest


class CheckWritten(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.copy = Path(folder.name)

    def take(self, *names: str) -> None:
        for name in names:
            shutil.copytree(OPS / name, self.copy / name)

    def originals(self, *names: str) -> Path:
        """Only these, so that the rest does not count as missing."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in names:
            shutil.copytree(OPS / name, Path(folder.name) / name)
        return Path(folder.name)

    def damage(self, file: str, at: int) -> None:
        path = self.copy / file
        data = bytearray(path.read_bytes())
        data[at] ^= 0x5A
        path.write_bytes(data)

    def test_passes_every_fixture_against_itself(self) -> None:
        status, output = run([FIXTURES], FIXTURES)
        self.assertEqual(status, 0, output)

    def test_accepts_programs_rewritten_by_executorch(self) -> None:
        """Read and written by ExecuTorch, the bytes may move but the content must not."""
        self.take("linear_bias")
        path = self.copy / "linear_bias/program.pte"
        file = deserialize_pte_binary(path.read_bytes())
        path.write_bytes(bytes(serialize_pte_binary(file, extract_delegate_segments=True)))
        status, output = run([self.copy], self.originals("linear_bias"))
        self.assertEqual(status, 0, output)

    def test_passes_a_delegate_laid_out_in_another_way(self) -> None:
        self.take("linear_bias")
        path = self.copy / "linear_bias/program.pte"
        file = deserialize_pte_binary(path.read_bytes())
        data = file.program.backend_delegate_data[0]
        data.data = moved(data.data)
        path.write_bytes(bytes(serialize_pte_binary(file, extract_delegate_segments=True)))
        status, output = run([self.copy], self.originals("linear_bias"))
        self.assertEqual(status, 0, output)

    def test_refuses_a_cut_file(self) -> None:
        self.take("linear_bias")
        path = self.copy / "linear_bias/program.pte"
        path.write_bytes(path.read_bytes()[:-1])
        status, output = run([self.copy])
        self.assertEqual(status, 1)
        self.assertIn("not readable", output)

    def test_refuses_a_bad_root(self) -> None:
        self.take("linear_bias")
        self.damage("linear_bias/program.pte", 0)
        self.assertEqual(run([self.copy])[0], 1)

    def test_refuses_a_bad_delegate_header(self) -> None:
        self.take("linear_bias")
        data = (self.copy / "linear_bias/program.pte").read_bytes()
        self.damage("linear_bias/program.pte", data.index(b"VH00"))
        status, output = run([self.copy])
        self.assertEqual(status, 1)
        self.assertIn("magic", output)

    def test_finds_a_changed_weight(self) -> None:
        self.take("linear_bias")
        self.damage("linear_bias/program.pte", -1)
        self.assertEqual(run([self.copy])[0], 0)
        status, output = run([self.copy], self.originals("linear_bias"))
        self.assertEqual(status, 1)
        self.assertIn("named data", output)

    def test_finds_a_changed_operator(self) -> None:
        self.take("add_same")
        path = self.copy / "add_same/program.pte"
        path.write_bytes(path.read_bytes().replace(b"aten.add.Tensor", b"aten.sub.Tensor"))
        status, output = run([self.copy], self.originals("add_same"))
        self.assertEqual(status, 1)
        self.assertIn("['graph'].chain[0].name: 'aten.sub.Tensor' is not 'aten.add.Tensor'", output)

    def test_finds_a_changed_external_constant(self) -> None:
        self.take("constants_external_portable")
        self.damage("constants_external_portable/_default_external_constant.ptd", -1)
        self.assertEqual(run([self.copy], self.originals("constants_external_portable"))[0], 1)

    def test_finds_a_missing_file(self) -> None:
        self.take("add_same")
        status, output = run([self.copy], self.originals("add_same", "linear_bias"))
        self.assertEqual(status, 1)
        self.assertIn("was not written", output)

    def test_nothing_to_check_is_a_failure(self) -> None:
        self.assertEqual(run([self.copy])[0], 1)


if __name__ == "__main__":
    unittest.main()
