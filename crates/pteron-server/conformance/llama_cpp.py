"""Runs llama.cpp's tests of its server against `pteron serve` with the bundled model.

python llama_cpp.py path/to/pteron path/to/llama.cpp/tools/server/tests [pytest's options]

The folder is copied and changed where the servers differ on purpose: paths get their /v1, texts that only llama.cpp's model
writes are not compared, and a server is up when it is ready. Files about what only llama.cpp has are left out (FILES lists the
others); so are tests that assert llama.cpp's own fields (PRIVATE). Every other test is listed with its result. Needs PyPI's pytest,
requests, openai, wget and aiohttp; servers listen on the ports of the tests, from 8080.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

FILES = (
    "basic",
    "chat_completion",
    "compat_anthropic",
    "compat_oai_responses",
    "completion",
    "security",
    "tokenize",
)
# Patterns of tests, and what of llama.cpp's own they assert.
PRIVATE = {
    r"basic::.*(props|slots|no_ui|split_model|aliases_and_tags)": "routes, flags and models of llama.cpp",
    r"basic::test_server_models": "one entry for a model and its aliases",
    r"chat_completion::test_chat_completion\[": "system_fingerprint, and counts of its model's tokens",
    r"chat_completion::test_chat_completion_(cached|stream|with_openai)": "counts of its model's tokens, system_fingerprint, a first chunk without a text",
    r"chat_completion::test_(chat_template|verbose_debug)": "the field __verbose, and its template files",
    r"chat_completion::.*mutual_exclusion": "continue_final_message",
    r"chat_completion::test_apply_chat_template": "/apply-template",
    r"chat_completion::.*response_format2": "a schema without the name that OpenAI's API requires",
    r"chat_completion::.*invalid_grammar": "the field grammar, in GBNF",
    r"chat_completion::.*messages7": "two replies in a row are an error",
    r"chat_completion::.*(timings_per_token|return_progress)": "the fields timings and prompt_progress",
    r"chat_completion::test_logprobs_stream": "a first chunk without a text; OpenAI's has an empty one",
    r"chat_completion::test_context_size": "the type exceed_context_size_error",
    r"chat_completion::.*token_count": "/chat/completions/input_tokens",
    r"compat_anthropic::.*(tool_use_basic|tool_streaming|block_indices)": "a model with a template for tools",
    r"compat_anthropic::.*(image|vision)": "status 500 for pictures, or a model that takes them",
    r"compat_anthropic::.*empty_messages": "a conversation without a message is answered",
    r"compat_anthropic::test_anthropic_thinking_(history|with)": "its template files and a model that reasons",
    r"compat_oai_responses::.*telemetry": "the fields timings and prompt_progress",
    r"completion::test_(?!completion_.*openai)": "/completion and its fields",
    r"completion::test_completion_with_openai_library": "system_fingerprint",
    r"security::.*static_assets": "files of its page",
    r"security::test_correct_api_key": "the field content of its completions",
    r"security::test_openai_library": "routes without /v1",
    r"security::test_cors_o": "other origins are allowed by default",
    r"security::test_cors_proxy": "its proxy",
    r"security::test_local_media.*True": "pictures",
    r"tokenize::": "fields of /tokenize, and counts of its model's tokens",
}

# Stands for llama-server: translates its flags.
SHIM = """#!{python}
import os, sys
arguments, pteron = sys.argv[1:], ["serve", "--log", "text"]
TAKEN = {{"--host": "--host", "--port": "--port", "--api-key": "--api-key", "--parallel": "--max-sequences",
          "--chat-template-file": "--template"}}
names = set({names!r})
while arguments:
    flag = arguments.pop(0)
    if flag in TAKEN:
        pteron += [TAKEN[flag], arguments.pop(0)]
    elif flag == "--alias":
        names |= set(arguments.pop(0).split(","))
for name in sorted(names):
    pteron += ["--alias", name]
os.execv({pteron!r}, [{pteron!r}, *pteron])
"""

CHANGES = """

def match_regex(regex, text):
    # Another model writes other words.
    return isinstance(text, str)


ServerPreset.load_all = staticmethod(lambda: None)
"""
PATHS = r"""(["'])/(chat/completions|completions|models|embeddings|responses)\1"""


def prepare(tests: Path, folder: Path, pteron: str) -> None:
    """Copies the tests and changes what is said above."""
    shutil.copytree(tests, folder, dirs_exist_ok=True)
    names: set[str] = set()
    for file in folder.glob("unit/*.py"):
        text = file.read_text()
        # llama.cpp ignores the model's name; here it is an alias.
        names |= set(re.findall(r"""model"?\s*[=:]\s*"([^"]+)\"""", text))
        file.write_text(re.sub(PATHS, r"\1/v1/\2\1", text))
    utils = folder / "utils.py"
    text = utils.read_text().replace('"GET", "/health"', '"GET", "/ready"')
    utils.write_text(text + CHANGES)
    shim = folder / "llama-server"
    pteron = str(Path(pteron).resolve())
    shim.write_text(
        SHIM.format(python=sys.executable, names=sorted(names), pteron=pteron)
    )
    shim.chmod(0o755)


def results(report: Path) -> list[tuple[str, str, str]]:
    """Name, outcome and reason of each test."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}::{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = bad[0].tag if bad else "passed"
        reason = (bad[0].get("message") or "").split("\n")[0][:160] if bad else ""
        found.append((name, outcome, reason))
    return found


def main() -> None:
    pteron, tests, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(Path(tests), folder, pteron)
        report = folder / "report.xml"
        # Slow ones fetch models.
        options = ["-m", "not slow", *options]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", "--tb=line", *options]
        command += [f"unit/test_{file}.py" for file in FILES]
        environment = os.environ | {
            "LLAMA_SERVER_BIN_PATH": str(folder / "llama-server")
        }
        log = folder / "log"
        with log.open("w") as output:
            subprocess.run(
                command,
                check=False,
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=output,
            )
        if not report.exists():
            sys.exit(log.read_text())
        counts: collections.Counter[str] = collections.Counter()
        failed = 0
        for name, outcome, reason in results(report):
            private = [
                why for test, why in PRIVATE.items() if re.match(f"test_{test}", name)
            ]
            if outcome != "passed" and private:
                outcome, reason = "private", f"{private[0]} ({reason[:60]})"
            failed += outcome in ("failure", "error")
            counts[outcome] += 1
            print(f"{outcome:8} {name}{': ' if reason else ''}{reason}")
    print(dict(counts))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
