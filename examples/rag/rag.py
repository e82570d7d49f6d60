"""Answers questions from notes: `python examples/rag/rag.py [question] [folder of a model]`.

The notes are cut into paragraphs, and an encoder makes a vector of each. The paragraph nearest to the question goes into the
prompt, before it. The bundled model has not learnt to answer; with a model that has, name its folder.
"""

import sys
from pathlib import Path

import numpy as np
from pteron import LLM
from pteron.runtime import Runtime

HERE = Path(__file__).parent
QUESTIONS = ["What does a member pay each month?", "Which materials may go into the laser cutter?", "Where are lost keys kept?"]


class Index:
    """Paragraphs and their vectors."""

    def __init__(self, paragraphs):
        # The encoder has the vocabulary of the bundled model.
        self.tokenizer = LLM()
        self.encoder = Runtime.get().load_program(HERE / "encoder.pte").load_method("forward")
        self.paragraphs = paragraphs
        self.vectors = np.concatenate([self.embed(paragraph) for paragraph in paragraphs])

    def embed(self, text):
        """The vector of a text, of length one."""
        tokens = self.tokenizer.encode(f" {text.lower()}")[:256]
        return self.encoder.execute([np.array([tokens], np.int64)])[0]

    def nearest(self, question):
        """The paragraph with the smallest angle to the question."""
        return self.paragraphs[int((self.vectors @ self.embed(question)[0]).argmax())]


def main():
    """Prints the paragraph and the answer for each question."""
    index = Index([note.strip() for note in (HERE / "notes.md").read_text(encoding="utf-8").split("\n\n")])
    llm = LLM(sys.argv[2]) if len(sys.argv) > 2 else index.tokenizer
    for question in sys.argv[1:2] or QUESTIONS:
        paragraph = index.nearest(question)
        answer = llm.generate(f"{paragraph}\n\nQuestion: {question}\n\nAnswer:", max_tokens=30, stop="\n")
        print(f"{question}\n  {paragraph}\n  {answer.strip()}\n")


if __name__ == "__main__":
    main()
