"""The names of `executorch.extension.llm.runner` for text models.

>>> from pteron.extension.llm.runner import GenerationConfig
>>> GenerationConfig(max_new_tokens=100).resolve_max_new_tokens(1024, 1000)
24
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from pteron.errors import Error
from pteron.llm import LLM, Session

__all__ = ["GenerationConfig", "Stats", "TextLLMRunner"]


@dataclass(kw_only=True)
class GenerationConfig:
    """How a text is generated.

    Attributes:
        echo: Whether the callback gets the prompt first.
        max_new_tokens: The most tokens to generate; -1 for as many as there is room for.
        warming: Whether the run is a warm-up, whose statistics do not matter.
        seq_len: The most tokens of prompt and text; -1 for the model's context.
        temperature: 0 for the most likely token, 1 for the model's own distribution.
        num_bos: The number of start tokens before the prompt.
        num_eos: The number of end tokens after the prompt.
    """

    echo: bool = True
    max_new_tokens: int = -1
    warming: bool = False
    seq_len: int = -1
    temperature: float = 0.8
    num_bos: int = 0
    num_eos: int = 0

    def resolve_max_new_tokens(self, max_context_len: int, num_tokens_occupied: int) -> int:
        """The number of tokens that may be generated after those that are in the context."""
        length = max_context_len if self.seq_len == -1 else min(self.seq_len, max_context_len)
        room = length - num_tokens_occupied
        return max(0, room if self.max_new_tokens == -1 else min(room, self.max_new_tokens))


@dataclass
class Stats:
    """Times of a generation in milliseconds since 1970, and counts of tokens."""

    model_load_start_ms: int = 0
    model_load_end_ms: int = 0
    inference_start_ms: int = 0
    token_encode_end_ms: int = 0
    model_execution_start_ms: int = 0
    model_execution_end_ms: int = 0
    prompt_eval_end_ms: int = 0
    first_token_ms: int = 0
    inference_end_ms: int = 0
    aggregate_sampling_time_ms: int = 0
    aggregate_model_execution_time_ms: int = 0
    num_prompt_tokens: int = 0
    num_generated_tokens: int = 0

    SCALING_FACTOR_UNITS_PER_SECOND = 1000

    def reset(self, all_stats: bool = False) -> None:
        """Sets everything to 0, the times of loading only with `all_stats`."""
        loading = (0, 0) if all_stats else (self.model_load_start_ms, self.model_load_end_ms)
        self.__init__(*loading)

    def to_json_string(self) -> str:
        """The statistics as a JSON object."""
        return json.dumps(asdict(self))


def _now() -> int:
    return time.time_ns() // 1_000_000


class TextLLMRunner:
    """Generates text with a model and its tokenizer.

    The tokens of earlier calls stay in the context until `reset()`, as in ExecuTorch.
    """

    def __init__(self, model_path: str, tokenizer_path: str, data_path: str | None = None) -> None:
        self._stats = Stats(model_load_start_ms=_now())
        self._llm = LLM(model_path, tokenizer=tokenizer_path, data_path=data_path)
        self._stats.model_load_end_ms = _now()
        self._session: Session = self._llm.session()
        # The tokens of all calls since the last reset.
        self._history: list[int] = []
        self._stopped = False
        self._seed = 0

    def _prompt(self, prompt: str, config: GenerationConfig) -> list[int]:
        model = self._llm._model
        tokens = self._llm.encode(prompt)
        start = [model.bos_id] * config.num_bos if model.bos_id is not None else []
        return self._history + start + tokens + self._llm.eos_ids[:1] * config.num_eos

    def generate(
        self,
        prompt: str,
        config: GenerationConfig,
        token_callback: Callable[[str], None] | None = None,
        stats_callback: Callable[[Stats], None] | None = None,
    ) -> None:
        """Generates text and passes it to the callback, piece by piece."""
        stats, self._stopped = self._stats, False
        stats.reset()
        stats.inference_start_ms = _now()
        tokens = self._prompt(prompt, config)
        if not tokens:
            raise Error("the prompt is empty: give at least one word")
        stats.token_encode_end_ms = stats.model_execution_start_ms = _now()
        most = config.resolve_max_new_tokens(self._llm.context_length, len(tokens))
        if config.echo and token_callback is not None:
            token_callback(prompt)
        self._seed += 1
        options = {"max_tokens": most, "temperature": max(config.temperature, 0.0), "seed": self._seed}
        generated: list[int] = []
        with self._session.stream(tokens, **options) as running:
            for token in running:
                if not generated:
                    stats.prompt_eval_end_ms = stats.first_token_ms = _now()
                generated.append(token.id)
                if token_callback is not None and token.text:
                    token_callback(token.text)
                if self._stopped:
                    break
        stats.model_execution_end_ms = stats.inference_end_ms = _now()
        stats.aggregate_model_execution_time_ms = stats.model_execution_end_ms - stats.model_execution_start_ms
        stats.num_prompt_tokens, stats.num_generated_tokens = len(tokens) - len(self._history), len(generated)
        self._history = tokens + generated
        if stats_callback is not None:
            stats_callback(stats)

    def prefill(self, prompt: str, config: GenerationConfig) -> None:
        """Runs a text without generating any."""
        tokens = self._prompt(prompt, config)
        self._session.logits(tokens)
        self._history = tokens

    def stop(self) -> None:
        """Stops a generation that another thread, or the callback, is in."""
        self._stopped = True

    def reset(self) -> None:
        """Empties the context."""
        self._session.rewind(0)
        self._history = []

    def get_vocab_size(self) -> int:
        """The number of tokens that the model knows."""
        return self._llm.vocab_size

    def __repr__(self) -> str:
        return f"TextLLMRunner(vocab_size={self._llm.vocab_size}, context_length={self._llm.context_length})"
