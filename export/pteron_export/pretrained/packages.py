"""Files inside wheels of PyPI, by pinned version and hash: `pretrained.lock` beside this package."""

import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

LOCK = Path(__file__).resolve().parents[2] / "pretrained.lock"


@cache
def _wheels() -> tuple[tempfile.TemporaryDirectory[str], dict[str, Path]]:
    """Downloads all wheels of the lock file. pip compares their hashes; nothing is installed or run."""
    folder = tempfile.TemporaryDirectory()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--require-hashes", "--requirement", str(LOCK), "--dest", folder.name], check=True)
    return folder, {wheel.name.split("-")[0]: wheel for wheel in Path(folder.name).glob("*.whl")}


def read(package: str, member: str) -> bytes:
    """Returns a file of a package, such as `facenet_pytorch/data/pnet.pt` of `facenet_pytorch`."""
    with zipfile.ZipFile(_wheels()[1][package]) as wheel:
        return wheel.read(member)


def licence(package: str) -> str:
    """Returns the text of a package's licence."""
    with zipfile.ZipFile(_wheels()[1][package]) as wheel:
        (name,) = (name for name in wheel.namelist() if ".dist-info/" in name and "/LICENSE" in name)
        return wheel.read(name).decode().replace("\r\n", "\n")
