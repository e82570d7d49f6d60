"""LangChain's client of OpenAI's API, with the bundled model."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel


class Verdict(BaseModel):
    """What a reply must have."""

    ok: bool
    count: int


CONVERSATION = [SystemMessage("Be brief."), HumanMessage("Ownership is")]


def model(url: str, key: str, **more: object) -> ChatOpenAI:
    # Without it LangChain counts tokens with a vocabulary that it would fetch.
    return ChatOpenAI(
        model="bundled",
        base_url=f"{url}/v1",
        api_key=key,
        temperature=0,
        max_retries=0,
        stream_usage=True,
        **more,
    )


def chat(url: str, key: str) -> None:
    llm = model(url, key, max_tokens=8)
    reply = llm.invoke(CONVERSATION)
    assert isinstance(reply, AIMessage) and reply.content
    assert reply.response_metadata["finish_reason"] == "length"
    assert reply.usage_metadata["output_tokens"] == 8

    chunks = list(llm.stream(CONVERSATION))
    assert "".join(chunk.content for chunk in chunks) == reply.content
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert total.usage_metadata["output_tokens"] == 8, total

    several = llm.batch([CONVERSATION, "A thread is"])
    assert several[0].content == reply.content and several[1].content


def structured(url: str, key: str) -> None:
    llm = model(url, key, max_tokens=200, seed=1).bind(temperature=1.0)
    for method in ("json_schema", "json_mode"):
        form = model(url, key, max_tokens=200).with_structured_output(
            Verdict if method == "json_schema" else None, method=method
        )
        value = form.invoke("Reply with ok and count.")
        if method == "json_schema":
            assert isinstance(value, Verdict), value
        else:
            assert isinstance(value, dict), value
    assert llm.invoke("A task is").content


def completion(url: str, key: str) -> None:
    llm = OpenAI(
        model="bundled",
        base_url=f"{url}/v1",
        api_key=key,
        temperature=0,
        max_tokens=6,
        max_retries=0,
    )
    text = llm.invoke("A thread is")
    assert text and "".join(llm.stream("A thread is")) == text


CHECKS = (chat, structured, completion)
