"""Sends what our own OpenAPI description allows, and what it does not, and compares the answers with it.

python description.py path/to/pteron [examples per route]
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from served import KEY, served

# Valid by its schema and refused all the same: a model that is not there, a prompt that is too long, a choice of tools without
# any. Unknown fields are taken.
LEFT_OUT = "positive_data_acceptance"


def main() -> None:
    examples = sys.argv[2] if len(sys.argv) > 2 else "8"
    # Texts end early: the bundled model may write until its context is full.
    with (
        served(sys.argv[1], "--max-sequences", "8", "--timeout", "1") as url,
        # The tool keeps what it finds in the folder in which it runs.
        tempfile.TemporaryDirectory() as folder,
    ):
        tool = Path(sys.executable).absolute().with_name("schemathesis")
        options = {
            "--header": f"Authorization: Bearer {KEY}",
            "--exclude-checks": LEFT_OUT,
            "--phases": "examples,coverage,fuzzing",
            "--max-examples": examples,
            "--seed": "1",
            "--generation-database": "none",
            "--workers": "1",
            "--request-timeout": "60",
            "--suppress-health-check": "all",
            "--warnings": "off",
        }
        flags = [text for pair in options.items() for text in pair]
        command = [tool, "run", f"{url}/openapi.json", "--continue-on-failure"]
        subprocess.run([*command, "--no-color", *flags], check=True, cwd=folder)


if __name__ == "__main__":
    main()
