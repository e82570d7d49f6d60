"""Embeddings: of the model that is loaded, and of programs opened for them alone."""

import os
import signal
import threading

import pytest
from conftest import FIXTURES
from pteron import Array, Embedder
from pteron.errors import ForkError, InputError, UnsupportedError

np = pytest.importorskip("numpy", reason="numpy is not installed")

TEXTS = ["A thread is", "To read a file in Rust, you", "Ownership", "A thread is"]


def test_a_list_gives_the_vectors_of_each_text(llm):
    together = llm.embed(TEXTS)
    assert isinstance(together, np.ndarray) and together.dtype == np.float32 and together.shape == (4, 384)
    for text, vector in zip(TEXTS, together, strict=True):
        alone = llm.embed(text)
        assert alone.shape == (384,)
        np.testing.assert_allclose(alone, vector, atol=2e-3)
    np.testing.assert_allclose(together[0], together[3], atol=2e-3)
    assert float(together[0] @ together[1]) < 0.999
    assert llm.embed([]).shape == (0, 384)


def test_vectors_have_length_one_unless_told_otherwise(llm):
    vectors, whole = llm.embed(TEXTS), llm.embed(TEXTS, normalize=False)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (abs(lengths - 1) > 1e-2).all()
    np.testing.assert_allclose(vectors, whole / lengths, atol=2e-3)


def test_rows_are_pooled_as_asked(llm):
    tokens = llm._model.text_prompt("The borrow checker")
    # A decoder sees what comes before a token alone: the rows are the last ones of all beginnings.
    rows = llm.embed([tokens[:end] for end in range(1, len(tokens) + 1)], normalize=False)
    scale = abs(rows).max()
    for pooling, expected in [("last", rows[-1]), ("mean", rows.mean(axis=0)), ("first", rows[0]), (None, rows[-1])]:
        vector = llm.embed(tokens, pooling=pooling, normalize=False)
        np.testing.assert_allclose(vector / scale, expected / scale, atol=5e-3, err_msg=str(pooling))
    with pytest.raises(InputError, match='"last", "mean" or "first", not "middle"'):
        llm.embed("a", pooling="middle")


def test_the_last_vector_is_what_logits_are_computed_from(llm):
    """The most similar of many texts is the one with the most similar logits."""
    texts = [f"{word} is" for word in ("A thread", "A file", "The sea", "Rust", "A number", "The end")]
    vectors = llm.embed(texts)
    logits = np.array([llm.session().logits(text) for text in texts])
    logits /= np.linalg.norm(logits, axis=1, keepdims=True)
    pairs = np.triu_indices(len(texts), 1)
    assert np.corrcoef((vectors @ vectors.T)[pairs], (logits @ logits.T)[pairs])[0, 1] > 0.5


def test_an_embedder_gives_the_vectors_of_the_model(llm, demo_folder):
    embedder = Embedder(demo_folder, max_tokens=100)
    assert (embedder.dimensions, embedder.max_tokens, embedder.pooling) == (384, 100, "last")
    assert embedder.encode("A thread is") == llm._model.text_prompt("A thread is")
    np.testing.assert_allclose(embedder.embed(TEXTS), llm.embed(TEXTS), atol=2e-3)
    with pytest.raises(InputError, match="100"):
        embedder.embed([1] * 101)


def test_texts_that_no_vector_can_be_made_of_are_rejected(llm, demo_folder):
    with pytest.raises(InputError, match="99999999"):
        llm.embed([[1], [99_999_999]])
    with pytest.raises(InputError):
        llm.embed([[1], []])
    with pytest.raises(UnsupportedError):
        Embedder(FIXTURES / "ops/add_broadcast/program.pte", tokenizer=demo_folder / "tokenizer.json")


def test_without_numpy_the_vectors_are_an_array():
    import subprocess
    import sys

    program = """
import sys
sys.modules["numpy"] = None
from pteron import LLM
vectors = LLM().embed(["a", "b"])
print(type(vectors).__name__, vectors.shape, vectors.dtype, len(vectors.tolist()[1]))
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split("\n")[0] == f"{Array.__name__} (2, 384) float32 384"


def test_keyboard_interrupt_stops_a_long_list(llm):
    llm.embed("warm")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            llm.embed(["many words"] * 256)
    timer.join()
    assert llm.embed("again").shape == (384,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_embedding_after_a_fork_raises(llm):
    llm.embed("before")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            llm.embed("after")
        except ForkError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
