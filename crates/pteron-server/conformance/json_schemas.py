"""Texts of a public benchmark's JSON schemas, validated, and the time of the masks that make them so.

python json_schemas.py FOLDER VOCABULARY [--count 300] [--checkout PATH]

FOLDER has JSON schemas at any depth, as the repository of JSONSchemaBench has them. VOCABULARY is a tokenizer that Pteron reads:
a tokenizer.json, or a file of tiktoken with the base64 of a token and its rank on each line. No model is needed: of the tokens
that a mask allows, any one is taken. Needs PyPI's jsonschema, and cargo. The grammar engine is compiled with full optimisation,
as in a release; all else as in tests.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

HERE = Path(__file__).parent
OPTIMISED = ("llguidance", "toktrie", "derivre")


def generate(options: argparse.Namespace) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        environment = {
            "PTERON_SCHEMAS": str(options.folder.resolve()),
            "PTERON_SCHEMAS_COUNT": str(options.count),
            "PTERON_SCHEMAS_RESULTS": str(results),
            "PTERON_VOCABULARY": str(options.vocabulary.resolve()),
        }
        profile = [
            f"--config=profile.dev.package.{name}.opt-level=3" for name in OPTIMISED
        ]
        test = ["texts_of_a_folder_of_schemas", "--", "--ignored", "--nocapture"]
        subprocess.run(
            ["cargo", "test", "-p", "pteron-server", "--lib", *profile, *test],
            check=True,
            cwd=options.checkout,
            env=os.environ | environment,
        )
        return json.loads(results.read_text())


def problem(schema: object, text: str) -> str | None:
    """Why a text is not valid, if so."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"not JSON: {error}"
    default = jsonschema.Draft202012Validator
    kind = jsonschema.validators.validator_for(schema, default=default)
    # Patterns are those of JavaScript; Python has no \\p and another \\d.
    try:
        found = jsonschema.exceptions.best_match(kind(schema).iter_errors(value))
    except re.error as error:
        return f"unchecked: Python cannot compile a pattern: {error}"
    return found and f"{found.json_path}: {found.message[:200]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--checkout", type=Path, default=HERE.parents[2])
    options = parser.parse_args()
    # A schema without a bound allows integers of any length.
    sys.set_int_max_str_digits(0)
    found = generate(options)
    schemas: dict[str, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    for result in found["results"]:
        path, outcome, text = result["schema"], result["outcome"], result["text"]
        if outcome == "whole":
            reason = problem(json.loads(Path(path).read_text()), text)
            outcome = "valid" if reason is None else reason.split(":")[0]
            if reason is not None:
                outcome = "unchecked" if outcome == "unchecked" else "invalid"
                print(f"{outcome}: {path}: {reason}\n    {text[:300]}")
        else:
            print(f"{outcome}: {path}: {text[:300]}")
        counts[outcome] += 1
        # The worst of its texts is the schema's.
        order = ["valid", "unchecked", "endless", "refused", "failed", "invalid"]
        schemas[path] = max(schemas.get(path, "valid"), outcome, key=order.index)
    print("texts:", dict(counts))
    print("schemas:", dict(collections.Counter(schemas.values())))
    for name, times in found["times"].items():
        print(f"{name}: {times}")
    masks = found["times"]["masks"]
    wrong = counts["invalid"] + counts["failed"]
    print(
        f"masks within 100 µs at p50 and 1 ms at p99: {masks['p50'] < 100 and masks['p99'] < 1000}"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
