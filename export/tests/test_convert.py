"""The checkpoints must be what Hugging Face and GGUF mean by their files, and the outputs must be those models'."""

import dataclasses
import json
import unittest
from pathlib import Path
from typing import Any

import gguf
import numpy
import torch
from gguf import GGUFReader
from safetensors.torch import load_file

from pteron_export.checkpoint import meta_name, rotary, shapes
from pteron_export.conversions import CONVERSIONS
from pteron_export.convert import Conversion
from pteron_export.exporter import Export, eager_model
from pteron_export.gguf_model import GGUF_MODELS

CONVERT = Path(__file__).resolve().parents[2] / "fixtures/convert"


def manifest(folder: Path, name: str = "manifest.json") -> dict[str, Any]:
    return json.loads((folder / name).read_text())


def tensor(folder: Path, entry: dict[str, Any]) -> torch.Tensor:
    values = numpy.fromfile(folder / entry["path"], dtype=entry["dtype"])
    return torch.from_numpy(values.reshape(entry["shape"]))


def stored_weights(folder: Path) -> dict[str, torch.Tensor]:
    """As Hugging Face's library finds them."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return load_file(folder / "model.safetensors")
    files = json.loads(index.read_text())["weight_map"]
    return {name: load_file(folder / file)[name] for name, file in files.items()}


class HuggingFace(unittest.TestCase):
    def test_files_hold_the_weights(self) -> None:
        for conversion in CONVERSIONS:
            with self.subTest(conversion.name):
                found = stored_weights(CONVERT / conversion.name / "checkpoint")
                unread = {name for name in found if name.endswith("rotary_emb.inv_freq")}
                self.assertEqual(found.keys() - unread, shapes(conversion.checkpoint.config).keys())
                for name, values in conversion.weights().items():
                    self.assertEqual(found[name].dtype, values.dtype)
                    self.assertTrue(torch.equal(found[name], values), name)

    def test_outputs_follow_the_row_order_of_the_files(self) -> None:
        """Rotating halves, as Hugging Face does it, with the rows where the checkpoint has them."""
        plain = [row for row in CONVERSIONS if rotary(row.checkpoint.config).get("rope_type") != "llama3"]
        self.assertGreater(len(plain), 4)
        for conversion in plain:
            with self.subTest(conversion.name):
                self.compare(conversion, self.halves(conversion))

    def halves(self, conversion: Conversion) -> Export:
        found = stored_weights(CONVERT / conversion.name / "checkpoint")
        names = shapes(conversion.checkpoint.config)
        weights = {meta_name(name): found[name].float() for name in names}
        weights.setdefault("output.weight", weights["tok_embeddings.weight"])
        export = conversion.export()
        return dataclasses.replace(export, weights=weights, params={**export.params, "use_hf_rope": True})

    def compare(self, conversion: Conversion, export: Export) -> None:
        folder = CONVERT / conversion.name
        model = eager_model(export)
        for call in manifest(folder)["sequences"][0]["calls"]:
            tokens, position = (tensor(folder, entry) for entry in call["inputs"])
            with torch.no_grad():
                found = model(tokens, {"input_pos": position})
            expected = tensor(folder, call["goldens"][0])
            self.assertLess(float((found - expected).abs().max()), 1e-4)


class Gguf(unittest.TestCase):
    def test_files_hold_the_tensors(self) -> None:
        for name in ("gguf/types", "gguf/llama"):
            folder = CONVERT / name
            expected = manifest(folder, "expected.json")
            found = {entry.name: entry for entry in GGUFReader(folder / expected["checkpoint"]).tensors}
            for entry in expected["tensors"]:
                with self.subTest(f"{name} {entry['name']}"):
                    stored = found[entry["name"]]
                    values = gguf.dequantize(stored.data, stored.tensor_type)
                    self.assertEqual(list(reversed(stored.shape.tolist())), entry["shape"])
                    self.assertEqual(values.tobytes(), (folder / entry["path"]).read_bytes())

    def test_every_row_is_written(self) -> None:
        written = {str(path.parent.relative_to(CONVERT)) for path in CONVERT.glob("gguf/*/expected.json")}
        self.assertEqual(written, {"gguf/types", *(model.name for model in GGUF_MODELS)})


if __name__ == "__main__":
    unittest.main()
