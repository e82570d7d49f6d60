"""Calls `pteron serve` with the clients of OpenAI, Anthropic and LangChain, and the bundled model.

python clients.py path/to/pteron [path/to/node_modules]
"""

import json
import subprocess
import sys
from pathlib import Path

import anthropic
import langchain_client
import openai
from served import KEY, served

HERE = Path(__file__).parent
SCHEMA = {
    "type": "object",
    "required": ["ok", "kind"],
    "additionalProperties": False,
    "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["thread", "task"]}},
}
# Clients do not offer the parameter any more; the API has it.
EXACT = {"temperature": 0}
USER = {"role": "user", "content": "Ownership is"}


def chat(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="bundled",
        messages=[USER],
        max_tokens=8,
        n=2,
        logprobs=True,
        top_logprobs=2,
    )
    assert len(reply.choices) == 2 and reply.choices[0].finish_reason == "length"
    assert (
        reply.usage.completion_tokens == 16
        and reply.usage.prompt_tokens_details.cached_tokens >= 0
    )
    assert len(reply.choices[1].logprobs.content) == 8
    assert len(reply.choices[1].logprobs.content[0].top_logprobs) == 2

    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model="bundled",
        messages=[USER],
        max_tokens=8,
        temperature=0,
        stream=True,
        stream_options=options,
    )
    chunks = list(stream)
    streamed = "".join(
        chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices
    )
    whole = client.chat.completions.create(
        model="bundled", messages=[USER], max_tokens=8, temperature=0
    )
    assert streamed == whole.choices[0].message.content != ""
    assert chunks[-1].usage.completion_tokens == 8

    form = {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
    }
    reply = client.chat.completions.create(
        model="bundled", messages=[USER], max_tokens=60, response_format=form
    )
    value = json.loads(reply.choices[0].message.content)
    assert isinstance(value["ok"], bool) and value["kind"] in ("thread", "task"), value


def completions(client: openai.OpenAI) -> None:
    reply = client.completions.create(
        model="bundled",
        prompt=["A thread is", "A task is"],
        max_tokens=4,
        stop=["never"],
    )
    assert [choice.index for choice in reply.choices] == [0, 1]
    assert all(choice.text for choice in reply.choices)
    assert "bundled" in [model.id for model in client.models.list()]
    assert client.models.retrieve("bundled").object == "model"


def responses(client: openai.OpenAI) -> None:
    reply = client.responses.create(
        model="bundled", input="A thread is", max_output_tokens=6, temperature=0
    )
    assert (
        reply.status == "incomplete"
        and reply.incomplete_details.reason == "max_output_tokens"
    )
    events = list(
        client.responses.create(
            model="bundled",
            input="A thread is",
            max_output_tokens=6,
            temperature=0,
            stream=True,
        )
    )
    streamed = "".join(
        event.delta for event in events if event.type == "response.output_text.delta"
    )
    assert streamed == reply.output_text != ""
    assert events[-1].response.usage.output_tokens == 6


def errors(client: openai.OpenAI) -> None:
    try:
        client.chat.completions.create(model="bundled", messages=[USER], temperature=9)
    except openai.BadRequestError as error:
        assert error.param == "temperature", error
    else:
        raise AssertionError("a temperature of 9 was taken")
    try:
        client.chat.completions.create(model="other", messages=[USER])
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("another model was found")
    try:
        client.with_options(api_key="wrong").models.list()
    except openai.AuthenticationError:
        pass
    else:
        raise AssertionError("a wrong key was taken")


def messages(client: anthropic.Anthropic) -> None:
    reply = client.messages.create(
        model="bundled", max_tokens=6, messages=[USER], extra_body=EXACT
    )
    assert (
        reply.stop_reason == "max_tokens"
        and reply.content[0].type == "text"
        and reply.usage.output_tokens == 6
    )
    with client.messages.stream(
        model="bundled", max_tokens=6, messages=[USER], extra_body=EXACT
    ) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert streamed == reply.content[0].text == final.content[0].text
    assert (
        client.messages.count_tokens(model="bundled", messages=[USER]).input_tokens > 0
    )
    try:
        client.messages.create(model="bundled", max_tokens=0, messages=[USER])
    except anthropic.BadRequestError as error:
        assert "max_tokens" in str(error), error
    else:
        raise AssertionError("a limit of 0 tokens was taken")


def main() -> None:
    with served(sys.argv[1], "--max-sequences", "4") as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
        for check in (chat, completions, responses, errors):
            check(client)
            print(f"openai: {check.__name__}")
        messages(anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0))
        print("anthropic: messages")
        for check in langchain_client.CHECKS:
            check(url, KEY)
            print(f"langchain: {check.__name__}")
        if len(sys.argv) > 2:
            subprocess.run(
                ["node", HERE / "clients.mjs", sys.argv[2], f"{url}/v1"], check=True
            )


if __name__ == "__main__":
    main()
