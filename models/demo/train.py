#!/usr/bin/env python3
"""Trains the model. One GPU, PyTorch and NumPy, a few minutes.

    python train.py --out run                  # the whole training, as recorded in the model card
    python train.py --out run --minutes 9      # the same, shortened if it would take longer than that
    python train.py --out try --tiny           # a toy, to see that everything works on this machine

Warm-up, a long stretch at full rate, then a decay to zero during which the model computes with weights quantised to 4 bits. The
stretch ends early if documents held out for that purpose stop getting easier. From where the decay begins, a second decay
without quantisation gives the number to compare with: how well the same training does in float32.
"""

import argparse
import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

import weights
from batches import PARTS, Batches, HeldOut
from model import Config, Llama
from optimise import Optimiser, Rates
from samples import write_samples

HERE = Path(__file__).parent
# How often a part is read, compared with the others. There is little documentation and it is what the model should sound like.
WEIGHTS = {"docs": 2.0, "crates": 1.3, "code": 0.8, "manuals": 1.3}
WEIGHTS_AT_THE_END = {"docs": 4.0, "crates": 1.5, "code": 0.8, "manuals": 1.2}
# What each part's held-out text counts for when weights are chosen.
SCORE = {"docs": 0.4, "crates": 0.2, "code": 0.15, "manuals": 0.25}
DEV_BYTES = 160_000  # of each part; all of the documentation's
TINY = Config(dim=64, n_layers=2, n_heads=2, n_kv_heads=1, head_dim=32, hidden_dim=128)
EVALUATE_EVERY = 250
EVALUATION = 2.0  # seconds, roughly
CALIBRATE = (10, 30)  # steps between which a step is timed
RESERVE = 70.0  # seconds kept for the last evaluation, samples and files


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=Path, default=HERE / "build" / "tokens.npz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, help="wall-clock limit; the schedule is shortened to fit")
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--decay", type=float, default=0.35, help="the part of the steps that the decay takes")
    parser.add_argument("--decay-at", type=int, help="the step at which the decay begins, instead of a part of the steps")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=1024, help="tokens in a window; also the model's context")
    parser.add_argument("--dropout", type=float, help="default: by how often the text is read")
    parser.add_argument("--rate", type=float, default=1.0, help="factor on all learning rates")
    parser.add_argument("--weight-decay", type=float, default=Rates.decay)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument(
        "--patience", type=int, default=8, help="evaluations without progress before the decay begins early; 0: never"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-reference", action="store_true", help="leave out the second decay, without quantisation")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if args.tiny:
        args.steps, args.batch, args.length, args.warmup = min(args.steps, 60), 8, 128, 10
    return args


class Run:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.began = args, time.monotonic()
        self.limit = args.minutes * 60 - RESERVE if args.minutes else math.inf
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(args.seed)
        args.out.mkdir(parents=True, exist_ok=True)
        with np.load(args.tokens) as file:
            self.arrays = dict(file)
        self.sizes = {part: len(self.arrays[f"{part}_train"]) for part in PARTS}
        if args.dropout is None:
            epochs = args.steps * args.batch * args.length / sum(self.sizes.values())
            args.dropout = 0.0 if epochs < 6 else 0.05 if epochs < 15 else 0.15
        config = TINY if args.tiny else Config()
        self.config = replace(config, vocab_size=len(self.arrays["token_ends"]))
        self.model = Llama(self.config, args.length, args.dropout).to(self.device)
        rates = Rates()
        self.rates = Rates(rates.matrices * args.rate, rates.embedding * args.rate, rates.norms * args.rate, args.weight_decay)
        self.optimiser = Optimiser(self.model, self.rates)
        self.batches = Batches(self.arrays, args.length, args.seed, self.device)
        self.dev = {part: self.held_out(part, "dev", DEV_BYTES) for part in PARTS}
        self.log = (args.out / "log.jsonl").open("w")
        self.compiled: Callable[..., torch.Tensor] = self.model
        if not args.no_compile and self.device.type == "cuda":
            self.compiled = self._compile()
        self.step, self.steps = 0, args.steps
        self.decay_at = args.decay_at or round(args.steps * (1 - args.decay))
        self.best, self.best_step, self.reference = math.inf, 0, not args.no_reference
        self.since_progress, self.progress = 0, math.inf

    def _compile(self) -> Callable[..., torch.Tensor]:
        """Compilation needs a compiler and luck; without them training is slower and otherwise the same."""
        try:
            compiled = torch.compile(self.model)
            with self.autocast():
                compiled(*self.batches.next(self.counts(WEIGHTS))).backward()
            for parameter in self.model.parameters():
                parameter.grad = None
            return compiled
        except Exception as error:  # whatever the compiler throws, the answer is the same
            print(f"not compiled: {type(error).__name__}: {str(error)[:300]}", flush=True)
            return self.model
        finally:
            self.batches.restore({part: 0 for part in PARTS})
            torch.manual_seed(self.args.seed)

    # Small things

    def held_out(self, part: str, split: str, most_bytes: int | None = None) -> HeldOut:
        documents = 4 if self.args.tiny else None
        return HeldOut(self.arrays, part, split, self.args.length, self.device, documents, most_bytes)

    def dev_score(self) -> tuple[float, dict[str, float]]:
        parts = {part: held_out.bits_per_byte(self.model) for part, held_out in self.dev.items()}
        return sum(SCORE[part] * bits for part, bits in parts.items()), {part: round(bits, 4) for part, bits in parts.items()}

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def write(self, **fields: object) -> None:
        line = json.dumps({"seconds": round(self.seconds(), 1), **fields})
        print(line, flush=True)
        self.log.write(line + "\n")
        self.log.flush()

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        return torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else contextlib.nullcontext()

    def counts(self, weights: dict[str, float]) -> dict[str, int]:
        """Windows of each part in a batch: by size and weight, at least one, what rounding leaves goes to the largest."""
        shares = {part: weights[part] * self.sizes[part] for part in PARTS}
        counts = {part: max(1, round(self.args.batch * share / sum(shares.values()))) for part, share in shares.items()}
        counts[max(shares, key=lambda part: shares[part])] += self.args.batch - sum(counts.values())
        return counts

    def finish(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    # Training

    def scale(self) -> float:
        if self.step >= self.decay_at:
            return (self.steps - self.step) / max(1, self.steps - self.decay_at)
        return min(1.0, (self.step + 1) / self.args.warmup)

    def train(self, last: int, quantised: bool, name: str) -> None:
        """Steps up to `last`, evaluated now and then."""
        self.model.train()
        self.optimiser.show(quantised)
        counts = self.counts(WEIGHTS if name == "stretch" else WEIGHTS_AT_THE_END)
        total, since, clock = torch.zeros((), device=self.device), 0, None
        while self.step < last:
            if self.step == CALIBRATE[0]:
                self.finish()
                clock = time.monotonic()
            inputs, targets = self.batches.next(counts)
            with self.autocast():
                loss = self.compiled(inputs, targets)
            loss.backward()
            self.optimiser.step(self.scale())
            for parameter in self.model.parameters():
                parameter.grad = None
            self.optimiser.show(quantised)
            total += loss.detach()
            since += 1
            self.step += 1
            if self.step == CALIBRATE[1] and clock is not None:
                self.finish()
                self.fit_into_budget((time.monotonic() - clock) / (CALIBRATE[1] - CALIBRATE[0]))
                last = min(last, self.decay_at) if name == "stretch" else last
            if self.step % 20 == 0 or self.step == last:
                self.write(step=self.step, phase=name, loss=round(total.item() / since, 4), rate=round(self.scale(), 4))
                total, since = total * 0, 0
            if self.step % EVALUATE_EVERY == 0 or self.step == last:
                if self.evaluate(name, quantised) and name == "stretch":
                    return
                self.optimiser.show(quantised)
            if self.seconds() > self.limit:
                self.write(note="out of time", step=self.step)
                self.evaluate(name, quantised)
                return

    def fit_into_budget(self, step_seconds: float) -> None:
        """Fewer steps if there is not the time: first the comparison is left out, then the schedule shrinks."""
        tokens = self.args.batch * self.args.length
        self.write(step_seconds=round(step_seconds, 4), tokens_per_second=round(tokens / step_seconds))
        left = self.limit - self.seconds()
        if not math.isfinite(left):
            return
        # Rounding and evaluations cost something too.
        affordable = int(left / (step_seconds * 1.15 + EVALUATION / EVALUATE_EVERY))
        wanted, decay = self.steps - self.step, self.steps - self.decay_at
        if self.reference and wanted + decay > affordable:
            self.reference = False
            self.write(note="no time for the second decay")
        if wanted > affordable:
            self.steps = self.step + max(affordable, 2)
            self.decay_at = max(self.step, round(self.steps * (1 - self.args.decay)))
            self.write(note="schedule shortened", steps=self.steps, decay_at=self.decay_at)

    def evaluate(self, name: str, quantised: bool) -> bool:
        """Looks at the documents kept for that, keeps the best weights; true where the stretch should end."""
        self.optimiser.show(False)
        plain, _ = self.dev_score()
        self.optimiser.show(True)
        quantised, parts = self.dev_score()
        scores = {"dev": round(plain, 5), "dev_4bit": round(quantised, 5), "dev_parts_4bit": parts}
        self.write(step=self.step, phase=name, **scores, epochs=self.batches.epochs())
        if name != "reference" and quantised < self.best:
            self.best, self.best_step = quantised, self.step
            weights.save(self.args.out, self.optimiser.masters)
        self.since_progress = 0 if plain < self.progress * 0.9995 else self.since_progress + 1
        self.progress = min(self.progress, plain)
        return not quantised and 0 < self.args.patience <= self.since_progress

    def whole(self) -> None:
        self.write(
            config=self.config.params(),
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            arguments={key: value.name if isinstance(value, Path) else value for key, value in vars(self.args).items()},
            rates=asdict(self.rates),
            torch=torch.__version__,
            device=torch.cuda.get_device_name() if self.device.type == "cuda" else "CPU",
            compiled=self.compiled is not self.model,
            tokens=self.sizes,
            windows={"first": self.counts(WEIGHTS), "at the end": self.counts(WEIGHTS_AT_THE_END)},
        )
        self.train(self.decay_at, False, "stretch")
        if self.step < self.decay_at:
            self.steps -= self.decay_at - self.step
            self.decay_at = self.step
            self.write(note="the decay begins early", decay_at=self.decay_at, steps=self.steps)
        fork = (self.optimiser.state(), self.batches.state(), self.step)
        self.train(self.steps, True, "decay")
        last = {name: master.clone() for name, master in self.optimiser.masters.items()}
        results = {**self.report(last), "finished": self.step == self.steps, "steps": self.step, "decay_at": self.decay_at}
        results["epochs"] = self.batches.epochs()
        self.save_results(results)
        if self.reference and results["finished"]:
            optimiser, batches, self.step = fork
            self.optimiser.restore(optimiser)
            self.batches.restore(batches)
            self.train(self.steps, False, "reference")
            if self.step == self.steps:
                results["reference"] = {"steps": self.step, **self.measure(self.optimiser.masters)}
        self.save_results(results)

    # Results

    def measure(self, values: dict[str, torch.Tensor]) -> dict[str, dict[str, float]]:
        """Bits per byte of the test documents, in float32 and quantised to 4 bits."""
        answers: dict[str, dict[str, float]] = {"fp32": {}, "4bit": {}}
        # The masters are taken as they are stored, so that the checkpoint gives these very numbers.
        for name, master in self.optimiser.masters.items():
            master.copy_(values[name].half())
        for kind in answers:
            self.optimiser.show(kind == "4bit")
            for part in PARTS:
                answers[kind][part] = round(self.held_out(part, "test").bits_per_byte(self.model), 5)
        return answers

    def report(self, last: dict[str, torch.Tensor]) -> dict[str, object]:
        answers = self.measure(weights.load(self.args.out))
        write_samples(self.args.out / "samples.txt", self.model.eval(), self.arrays, self.args.length, self.args.seed)
        results: dict[str, object] = {"best_step": self.best_step, "dev_4bit": round(self.best, 5), "test": answers}
        if self.best_step != self.step:
            # Where the last step is not the best by the numbers, its text may still read better: keep both to look at.
            folder = self.args.out / "last"
            folder.mkdir(exist_ok=True)
            weights.save(folder, last)
            results["last"] = {"step": self.step, "test": self.measure(last)}
            write_samples(folder / "samples.txt", self.model.eval(), self.arrays, self.args.length, self.args.seed)
        return results

    def save_results(self, results: dict[str, object]) -> None:
        results |= {"seconds": round(self.seconds()), "params": self.config.params(), "context": self.args.length}
        (self.args.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        self.write(results=results)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("highest")
    Run(arguments()).whole()
