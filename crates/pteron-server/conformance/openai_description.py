"""Compares answers of `pteron serve` with OpenAI's published OpenAPI description.

python openai_description.py path/to/pteron path/to/openapi.json [--examples 20]

The description is in the repository openai/openai-openapi. First, requests that this server serves are sent, and each answer and
each event of a stream is compared with its schema there. Then schemathesis sends what the description allows and what it does not:
no answer may have a status of 500 or above, and answers with status 200 must have their schema. Needs PyPI's schemathesis, and
pyyaml for a description in YAML.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema_rs

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests/clients"))

from served import KEY, served

# A chat template in the form of Hermes: with it the bundled model, which has none, takes tools.
TEMPLATE = """{% if tools %}{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}{% for message in messages %}{{ message.role }}: {{ message.content }}
{% for call in message.tool_calls %}<tool_call>{{ call | tojson }}</tool_call>
{% endfor %}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""
USER = {"role": "user", "content": "Ownership is"}
PARAMETERS = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}},
    "required": ["on"],
    "additionalProperties": False,
}
FUNCTION = {"name": "switch", "description": "A switch.", "parameters": PARAMETERS}
SCHEMA = {
    "type": "json_schema",
    "name": "answer",
    "json_schema": {"name": "answer", "schema": PARAMETERS},
    "schema": PARAMETERS,
}
CHAT = {"model": "bundled", "messages": [USER], "max_completion_tokens": 8}
TOOLS = {
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "required",
    "max_completion_tokens": 60,
}
RESPONSE = {"model": "bundled", "input": "Ownership is", "max_output_tokens": 16}
RESPONSE_TOOLS = {
    "tools": [{"type": "function", "strict": True, **FUNCTION}],
    "tool_choice": "required",
    "max_output_tokens": 60,
}
COMPLETION = {"model": "bundled", "prompt": "A thread is", "max_tokens": 8}
USAGE = {"stream_options": {"include_usage": True}}

# Path, body, and the name of the answer's schema; with `stream`, that of its events.
REQUESTS = [
    ("/models", None, "ListModelsResponse"),
    ("/models/bundled", None, "Model"),
    *[
        ("/chat/completions", CHAT | more, "CreateChatCompletionResponse")
        for more in (
            {},
            {"n": 3, "temperature": 1.5, "top_p": 0.5, "seed": 7},
            {"logprobs": True, "top_logprobs": 3},
            {"response_format": {"type": "json_object"}},
            {"response_format": SCHEMA, "max_completion_tokens": 60},
            TOOLS,
            {"stop": ["a", "e"], "logit_bias": {"50": -100}},
            {"messages": [{"role": "developer", "content": "Be brief."}, USER]},
        )
    ],
    *[
        (
            "/chat/completions",
            CHAT | {"stream": True} | more,
            "CreateChatCompletionStreamResponse",
        )
        for more in (
            {},
            USAGE,
            {"n": 2} | USAGE,
            {"logprobs": True, "top_logprobs": 2},
            TOOLS,
        )
    ],
    *[
        ("/completions", COMPLETION | more, "CreateCompletionResponse")
        for more in (
            {},
            {"n": 2, "logprobs": 2},
            {"prompt": ["A", "B"], "echo": True},
            {"prompt": [5, 6]},
        )
    ],
    *[
        ("/completions", COMPLETION | {"stream": True} | more, "CompletionChunk")
        for more in ({}, {"logprobs": 1} | USAGE)
    ],
    *[
        ("/responses", RESPONSE | more, "Response")
        for more in (
            {},
            {"instructions": "Be brief.", "metadata": {"a": "b"}},
            {"input": [{"type": "message", **USER}]},
            {"text": {"format": SCHEMA}, "max_output_tokens": 60},
            RESPONSE_TOOLS,
        )
    ],
    *[
        ("/responses", RESPONSE | {"stream": True} | more, "ResponseStreamEvent")
        for more in ({}, RESPONSE_TOOLS)
    ],
]


def without_nullable(value: object) -> object:
    """The description is of version 3.1, but still says here and there in the words of 3.0 that a value may be null."""
    if isinstance(value, list):
        return [without_nullable(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {name: without_nullable(item) for name, item in value.items()}
    if changed.pop("nullable", None) is True:
        return {"anyOf": [changed, {"type": "null"}]}
    return changed


def as_streamed(components: dict) -> None:
    """Corrects what the description says of streamed completions: that every chunk has the form of a whole answer. Then each would
    have a reason why the text ended. OpenAI's own server, and its clients, have null until then, and null for the usage of chunks
    before the last one."""
    whole = components["schemas"]["CreateCompletionResponse"]
    chunk = json.loads(json.dumps(whole))
    finish = chunk["properties"]["choices"]["items"]["properties"]
    for place, name in ((finish, "finish_reason"), (chunk["properties"], "usage")):
        place[name] = {"anyOf": [place[name], {"type": "null"}]}
    components["schemas"]["CompletionChunk"] = chunk


def load(path: Path) -> dict:
    if path.suffix == ".json":
        return json.loads(path.read_text())
    import yaml

    return yaml.safe_load(path.read_text())


def call(url: str, path: str, body: dict | None) -> str:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/v1{path}", data, headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


def probe(url: str, components: dict) -> int:
    """Sends the requests, and returns how many answers are not as the description has them."""
    wrong = 0
    for path, body, name in REQUESTS:
        schema = {"$ref": f"#/components/schemas/{name}", "components": components}
        validator = jsonschema_rs.validator_for(schema)
        shown = f"{path} {json.dumps(body)}"
        try:
            text = call(url, path, body)
        except urllib.error.HTTPError as error:
            print(f"WRONG {shown}: {error.code} {error.read().decode()}")
            wrong += 1
            continue
        if body and body.get("stream"):
            lines = [line[6:] for line in text.splitlines() if line[:6] == "data: "]
            values = [json.loads(line) for line in lines if line != "[DONE]"]
        else:
            values = [json.loads(text)]
        assert values, shown
        found = {}
        for value in values:
            for error in validator.iter_errors(value):
                at = "/".join(map(str, error.instance_path))
                found.setdefault(f"{at}: {error.message[:300]}", value)
        print(f"{'WRONG' if found else 'ok   '} {name}: {shown}")
        for reason, value in list(found.items())[:5]:
            print(f"    {reason}\n      in {json.dumps(value)[:400]}")
        wrong += bool(found)
    return wrong


HOOKS = """
import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    # Otherwise most requests would end with an unknown model, and some would write until the context is full.
    if isinstance(case.body, dict):
        if isinstance(case.body.get("model"), str):
            case.body["model"] = "bundled"
"""


def fuzz(url: str, description: dict, examples: int) -> int:
    served_paths = ["/chat/completions", "/completions", "/responses", "/embeddings"]
    served_paths += ["/models", "/models/{model}"]
    paths = {path: description["paths"][path] for path in served_paths}
    # Stored completions are no part of this server, and no model is deleted.
    for operations in paths.values():
        operations.pop("delete", None)
    paths["/chat/completions"].pop("get", None)
    # What one may send: a subset of the description with what it refers to.
    smaller = description | {"paths": paths}
    with tempfile.TemporaryDirectory() as folder:
        file, hooks = Path(folder, "openapi.json"), Path(folder, "hooks.py")
        file.write_text(json.dumps(without_nullable(smaller)))
        hooks.write_text(HOOKS)
        tool = Path(sys.executable).with_name("schemathesis")
        checks = "not_a_server_error,response_schema_conformance"
        options = ["--url", f"{url}/v1", "--checks", checks, "--seed", "1"]
        options += ["--header", f"Authorization: Bearer {KEY}", "--no-color"]
        options += ["--max-examples", str(examples), "--phases", "examples,fuzzing"]
        options += ["--suppress-health-check", "all", "--continue-on-failure"]
        options += ["--generation-database", "none", "--workers", "2"]
        options += ["--warnings", "off"]
        environment = os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": folder}
        run = subprocess.run(
            [tool, "run", file, *options], check=False, env=environment, cwd=folder
        )
        return run.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pteron")
    parser.add_argument("description", type=Path)
    parser.add_argument("--examples", type=int, default=20)
    options = parser.parse_args()
    description = load(options.description)
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder, "template.jinja")
        template.write_text(TEMPLATE)
        with served(options.pteron, "--template", str(template)) as url:
            components = without_nullable(description["components"])
            as_streamed(components)
            wrong = probe(url, components)
        print(f"{len(REQUESTS) - wrong} of {len(REQUESTS)} answers conform")
        # The bundled model may write until its context is full.
        short = ["--template", str(template), "--timeout", "2"]
        with served(options.pteron, *short) as url:
            failed = fuzz(url, description, options.examples)
    sys.exit(1 if wrong or failed else 0)


if __name__ == "__main__":
    main()
