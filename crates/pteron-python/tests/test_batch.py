"""Batches of prompts, and texts of a given form: alone and in batches."""

import json
import os
import re
import signal
import threading

import pytest
from pteron.errors import Error, ForkError, InputError

PROMPTS = ["To read a file in Rust, you", "A thread is", "Ownership means", "A thread is"]
SCHEMA = {
    "type": "object",
    "properties": {"safe": {"type": "boolean"}, "years": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}},
    "required": ["safe", "years"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "top_p": 0.9, "seed": 7}, {"logprobs": 2}])
def test_a_batch_gives_the_texts_of_each_prompt_alone(llm, options):
    texts = llm.generate(PROMPTS, max_tokens=6, **options)
    alone = [llm.generate(prompt, max_tokens=6, **options) for prompt in PROMPTS]
    assert texts == alone
    for text, one in zip(texts, alone, strict=True):
        assert [token.id for token in text.tokens] == [token.id for token in one.tokens]
        assert (text.finish_reason, text.prompt_tokens) == (one.finish_reason, one.prompt_tokens)
        if options.get("logprobs"):
            assert text.logprobs == pytest.approx(one.logprobs, abs=1e-3)


def test_the_texts_of_a_batch_share_steps(llm):
    llm.generate(["warm", "up"], max_tokens=1)
    _, before, _ = llm._engine.statistics()
    texts = llm.generate([f"{number} threads are" for number in range(6)], max_tokens=8)
    _, after, _ = llm._engine.statistics()
    tokens = sum(len(text.tokens) for text in texts)
    assert tokens == 48 and after - before < tokens / 2


def test_tokens_and_conversations_make_batches_too(llm):
    tokens = [llm._model.text_prompt(prompt) for prompt in PROMPTS[:2]]
    assert llm.generate(tokens, max_tokens=3) == llm.generate(PROMPTS[:2], max_tokens=3)
    talks = [[{"role": "user", "content": prompt}] for prompt in PROMPTS[:2]]
    assert llm.chat(talks, max_tokens=3) == [llm.chat(talk, max_tokens=3) for talk in talks]


def test_a_batch_with_a_wrong_prompt_is_rejected_and_cancelled(llm):
    with pytest.raises(InputError, match="99999999"):
        llm.generate([[1, 2, 3], [99_999_999]], max_tokens=500)
    with pytest.raises(InputError):
        llm.generate(PROMPTS, keep=4)
    assert llm.generate(PROMPTS[:2], max_tokens=1)


def test_keyboard_interrupt_cancels_a_batch(llm):
    llm.generate(PROMPTS[:2], max_tokens=1)
    _, _, before = llm._engine.statistics()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            llm.generate(PROMPTS, max_tokens=900, ignore_eos=True)
    timer.join()
    _, _, after = llm._engine.statistics()
    assert after > before
    assert [len(text.tokens) for text in llm.generate(PROMPTS[:2], max_tokens=1)] == [1, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_batch_after_a_fork_raises(llm):
    llm.generate(PROMPTS[:2], max_tokens=1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            llm.generate(PROMPTS[:2], max_tokens=1)
        except ForkError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


class Described:
    """A class of pydantic, as far as it matters here."""

    @staticmethod
    def model_json_schema():
        return SCHEMA


@pytest.mark.parametrize("schema", [SCHEMA, json.dumps(SCHEMA), Described])
def test_a_text_matches_a_schema(llm, schema):
    text = llm.generate("As JSON: ", schema=schema, temperature=1.0, seed=3, logprobs=1)
    found = json.loads(text)
    assert list(found) == ["safe", "years"]
    assert isinstance(found["safe"], bool) and all(isinstance(year, int) for year in found["years"])
    assert text.finish_reason == "stop" and len(text.logprobs) == len(text.tokens)


def test_batches_sessions_and_replies_have_forms_too(llm):
    alone = llm.generate(PROMPTS[0], schema=SCHEMA)
    texts = llm.generate(PROMPTS[:3], schema=SCHEMA)
    assert texts[0] == alone
    assert all(list(json.loads(text)) == ["safe", "years"] for text in texts)
    assert llm.session().generate(PROMPTS[0], schema=SCHEMA) == alone
    reply = llm.chat([{"role": "user", "content": "Yes or no?"}], schema={"enum": ["yes", "no"]})
    assert json.loads(reply) in ("yes", "no")


def test_a_text_matches_an_expression_or_a_grammar(llm):
    assert re.fullmatch(r"\d{3}-\d{2}", llm.generate("The number is ", regex=r"\d{3}-\d{2}"))
    assert llm.generate("Is it safe? ", grammar='start: "of course" | "not at all"') in ("of course", "not at all")
    # A limit ends a text of a form, too.
    cut = llm.generate("The number is ", regex=r"\d{300}", max_tokens=2)
    assert cut.finish_reason == "length" and len(cut.tokens) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"schema": "{"}, "the schema cannot be compiled"),
        ({"schema": {"type": "day"}}, "the schema cannot be compiled"),
        ({"regex": "("}, "the regex cannot be compiled"),
        ({"grammar": "start: nothing"}, "the grammar cannot be compiled"),
        ({"schema": {}, "regex": "a"}, "regex cannot be combined with schema"),
    ],
)
def test_a_form_that_cannot_be_compiled_is_rejected(llm, options, sentence):
    idle = len(llm._idle)
    with pytest.raises(InputError, match=sentence):
        llm.generate("The number is ", **options)
    with pytest.raises(Error, match=sentence):
        llm.generate(PROMPTS, **options)
    assert len(llm._idle) == max(idle, 1)
