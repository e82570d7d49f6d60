"""The gallery's programs in Python, as a user runs them."""

import subprocess
import sys

import pytest
from conftest import ROOT

GALLERY = ROOT / "examples"


def run(path, *arguments, **options):
    command = [sys.executable, str(GALLERY / path), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_chat_replies_to_each_line():
    replies = run("chat/chat.py", input="A thread is\nA lifetime is\n").splitlines()
    assert len([reply for reply in replies if len(reply) > 20]) >= 2
    # A model by its folder replies the same.
    assert run("chat/chat.py", ROOT / "models/demo", input="A thread is\n").splitlines()[0] == replies[0]


def test_the_notes_of_a_melody_are_found():
    pytest.importorskip("numpy", reason="numpy is not installed")
    notes = [line.split(": ")[1] for line in run("speech/melody.py").splitlines()]
    # Vibrato may cut a note in two.
    assert [note for index, note in enumerate(notes) if notes[index - 1 : index] != [note]] == ["A3", "C♯4", "E4", "A4"]


def test_the_paragraphs_that_answer_are_found():
    pytest.importorskip("numpy", reason="numpy is not installed")
    found = [part.splitlines()[1].strip() for part in run("rag/rag.py").strip().split("\n\n")]
    assert [paragraph.split(" ")[:2] for paragraph in found] == [["Members", "pay"], ["The", "laser"], ["Lost", "keys"]]
    assert "may work at every bench" in run("rag/rag.py", "May children use the lathe?")
