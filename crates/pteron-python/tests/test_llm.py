"""`pteron.LLM` with the bundled model, and ExecuTorch's names for it."""

import asyncio
import json
import os
import signal
import threading

import pytest
from pteron import LLM
from pteron.errors import Error, FileError, InputError
from pteron.extension.llm.runner import GenerationConfig, TextLLMRunner

PROMPT = "To read a file in Rust, you"


def test_texts_are_those_of_pytorch(llm, demo_folder):
    golden = json.loads((demo_folder / "goldens.json").read_text())["prompts"][0]
    text = llm.generate(golden["prompt_ids"], max_tokens=16)
    assert [token.id for token in text.tokens] == golden["ids"][:16]


def test_a_completion_is_a_string_with_tokens(llm):
    text = llm.generate(PROMPT, max_tokens=6, logprobs=2)
    assert isinstance(text, str) and text == "".join(map(str, text.tokens))
    assert (text.finish_reason, len(text.tokens)) == ("length", 6)
    assert all(logprob < 0 for logprob in text.logprobs)
    for token in text.tokens:
        assert token.top_logprobs[0] == (token.id, token.logprob)
    assert text.prompt_tokens == len(llm._model.text_prompt(PROMPT))


def test_streams_give_the_same_text_with_for_and_async_for(llm):
    expected = llm.generate(PROMPT, max_tokens=6)

    async def collect():
        return "".join([token.text async for token in llm.stream(PROMPT, max_tokens=6)])

    assert "".join(token.text for token in llm.stream(PROMPT, max_tokens=6)) == expected
    assert asyncio.run(collect()) == expected


def test_options_sample_and_stop(llm):
    sampled = [llm.generate(PROMPT, max_tokens=8, temperature=1.5, seed=seed) for seed in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2]
    text = llm.generate(PROMPT, max_tokens=12)
    stopped = llm.generate(PROMPT, max_tokens=12, stop=str(text)[4:8])
    assert stopped == text[:4] and stopped.finish_reason == "stop"
    first = text.tokens[0].id
    assert llm.generate(PROMPT, max_tokens=1, logit_bias={first: float("-inf")}).tokens[0].id != first
    with pytest.raises(InputError, match="temperature is -1"):
        llm.generate(PROMPT, temperature=-1)
    with pytest.raises(TypeError, match="beams"):
        llm.generate(PROMPT, beams=4)


def test_sessions_fork_and_rewind(llm):
    session = llm.session()
    text = session.generate(PROMPT, max_tokens=4)
    fork = session.fork()
    assert fork.tokens == session.tokens
    session.rewind(2)
    assert len(session.tokens) == 2 < len(fork.tokens)
    assert session.generate(PROMPT, max_tokens=4) == text == fork.generate(PROMPT, max_tokens=4)
    with pytest.raises(InputError, match="cannot go back to token 999"):
        session.rewind(999)
    logits = session.logits(PROMPT)
    assert logits.index(max(logits)) == text.tokens[0].id


def test_a_session_serves_one_generation_at_a_time(llm):
    session = llm.session()
    generation = session.stream(PROMPT, max_tokens=50)
    next(generation)
    with pytest.raises(Error, match="used by a generation"):
        session.generate(PROMPT)
    generation.close()
    assert next(generation, None) is None
    assert session.generate(PROMPT, max_tokens=1).tokens
    # An option that is rejected leaves the session usable.
    with pytest.raises(InputError):
        session.generate(PROMPT, top_p=9)
    assert session.generate(PROMPT, max_tokens=1).tokens


def test_sessions_are_used_again(llm):
    llm.generate(PROMPT, max_tokens=1)
    idle = len(llm._idle)
    with llm.stream(PROMPT, max_tokens=99) as stream:
        next(stream)
        assert len(llm._idle) == idle - 1
    assert len(llm._idle) == idle
    for _ in llm.stream(PROMPT, max_tokens=99):
        break
    with pytest.raises(InputError):
        llm.generate([99_999_999])
    assert len(llm._idle) == idle


def test_chat_joins_messages_where_there_is_no_template(llm):
    assert not llm.has_chat_template
    messages = [{"role": "user", "content": "A thread is"}]
    reply = llm.chat(messages, max_tokens=3)
    assert reply == "".join(token.text for token in llm.stream_chat(messages, max_tokens=3))
    with pytest.raises(InputError, match="role"):
        llm.chat([{"content": "no role"}])
    with pytest.raises(RuntimeError, match="chat template"):
        llm.chat(messages, tools=[{"name": "search"}])


def test_keyboard_interrupt_stops_a_generation(llm):
    idle = len(llm._idle)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            llm.generate(PROMPT, max_tokens=900, ignore_eos=True)
    timer.join()
    assert len(llm._idle) >= max(idle, 1)
    assert llm.generate(PROMPT, max_tokens=1).tokens


def test_threads_generate_what_one_does(llm):
    expected = llm.generate(PROMPT, max_tokens=4)
    found = []
    threads = [threading.Thread(target=lambda: found.append(llm.generate(PROMPT, max_tokens=4))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_folders_and_files_are_opened(demo_folder, tmp_path):
    assert LLM(demo_folder).generate(PROMPT, max_tokens=2) == LLM(demo_folder / "model.pte").generate(PROMPT, max_tokens=2)
    with pytest.raises(FileError, match="contains 0 programs"):
        LLM(tmp_path)


def test_text_is_encoded_and_decoded(llm):
    assert llm.decode(llm.encode("fn main() {}")) == "fn main() {}"


def test_runner_has_the_names_of_executorch(demo_folder):
    runner = TextLLMRunner(str(demo_folder / "model.pte"), str(demo_folder / "tokenizer.json"))
    config = GenerationConfig(max_new_tokens=4, temperature=0, num_bos=1)
    pieces, stats = [], []
    runner.generate(PROMPT, config, pieces.append, stats.append)
    assert pieces[0] == PROMPT
    assert "".join(pieces[1:]) == LLM().generate(PROMPT, max_tokens=4)
    assert stats[0].num_generated_tokens == 4 and stats[0].num_prompt_tokens > 1
    assert json.loads(stats[0].to_json_string())["num_generated_tokens"] == 4
    # The context goes on, and starts again after a reset.
    runner.generate(" and", GenerationConfig(max_new_tokens=2, echo=False), None, stats.append)
    runner.reset()
    again = []
    runner.prefill("Some text", config)
    runner.reset()
    runner.generate(PROMPT, config, again.append)
    assert again == pieces
    runner.generate("More", GenerationConfig(max_new_tokens=500, temperature=0), lambda _: runner.stop())
    assert runner.get_vocab_size() == 6144


def test_generation_config_resolves_the_number_of_tokens():
    config = GenerationConfig()
    assert (config.echo, config.max_new_tokens, config.seq_len, config.temperature) == (True, -1, -1, 0.8)
    assert config.resolve_max_new_tokens(1024, 100) == 924
    assert GenerationConfig(max_new_tokens=200).resolve_max_new_tokens(1024, 100) == 200
    assert GenerationConfig(seq_len=512).resolve_max_new_tokens(1024, 100) == 412
    assert GenerationConfig(seq_len=50).resolve_max_new_tokens(1024, 100) == 0
    assert "max_new_tokens=-1" in repr(config)
