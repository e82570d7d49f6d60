"""The loss curve as a picture, drawn without a plotting library."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 880, 300, 62, 28, 34, 40
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #333 } .title { font-weight: 600 } .paper { fill: #fff }
  .grid { stroke: #ddd } .mark { stroke: #999; stroke-dasharray: 4 4 }
  path { fill: none; stroke-width: 1.8 } .a { stroke: #2a6fb0 } .b { stroke: #d1622b } .c { stroke: #5a9a4a }
  @media (prefers-color-scheme: dark) {
    text { fill: #ccc } .paper { fill: #111 } .grid { stroke: #333 } .mark { stroke: #777 }
    .a { stroke: #6db3f2 } .b { stroke: #f2965c } .c { stroke: #8fd07c }
  }
"""
Points = Sequence[tuple[float, float]]


def draw(log: Path, picture: Path) -> None:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    train = [(line["step"], line["loss"]) for line in lines if "loss" in line and line["phase"] != "reference"]
    evaluations = [line for line in lines if "dev" in line]
    own = [line for line in evaluations if line["phase"] != "reference"]
    begin = next((line["step"] for line in lines if line.get("phase") == "decay"), None)
    decay = max((line["step"] for line in own if line["phase"] == "stretch"), default=begin)
    panels = [
        _panel(0, "Training loss, nats per token", [("a", "training text", train)], decay),
        _panel(
            HEIGHT,
            "Held-out text (dev), bits per byte: all parts, weighted",
            [
                ("a", "float32", [(line["step"], line["dev"]) for line in own]),
                ("b", "4 bits", [(line["step"], line["dev_4bit"]) for line in own]),
                (
                    "c",
                    "float32, never quantised",
                    [(e["step"], e["dev"]) for e in evaluations if e["phase"] == "reference"],
                ),
            ],
            decay,
        ),
    ]
    picture.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * HEIGHT}" role="img" '
        f'aria-label="Loss while training"><style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>'
        + "".join(panels)
        + "</svg>\n"
    )


def _panel(y: int, title: str, curves: Sequence[tuple[str, str, Points]], decay: float | None) -> str:
    curves = [(style, name, [p for p in points if math.isfinite(p[1])]) for style, name, points in curves if points]
    everything = [point for _, _, points in curves for point in points]
    last = max(x for x, _ in everything)
    # The first steps' fall would flatten all the rest.
    late = [value for x, value in everything if x > 0.05 * last] or [value for _, value in everything]
    low, high, step = _nice(min(late), max(late))

    def place(x: float, value: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / last
        up = (value - low) / (high - low)
        return across, y + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up

    out = [f'<text class="title" x="{LEFT}" y="{y + 20}">{title}</text>']
    frame = f'x="{LEFT}" y="{y + TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    out.append(f'<clipPath id="frame{y}"><rect {frame}/></clipPath>')
    for value in _steps(low, high, step):
        _, at = place(0, value)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for value in _steps(0, last, _nice(0, last)[2]):
        at, _ = place(value, low)
        out.append(f'<text x="{at:.1f}" y="{y + HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:.0f}</text>')
    if decay is not None:
        at, _ = place(decay, low)
        out.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{y + TOP}" y2="{y + HEIGHT - BOTTOM}"/>')
        out.append(f'<text x="{at - 6:.1f}" y="{y + TOP + 14}" text-anchor="end">decay, 4-bit weights →</text>')
    for number, (style, name, points) in enumerate(curves):
        path = " ".join(f"{'L' if i else 'M'}{px:.1f} {py:.1f}" for i, (px, py) in enumerate(place(*p) for p in points))
        out.append(f'<path class="{style}" clip-path="url(#frame{y})" d="{path}"/>')
        x, line = WIDTH - RIGHT - 190, y + TOP + 16 + 20 * number
        out.append(f'<path class="{style}" d="M{x} {line - 4} h22"/><text x="{x + 28}" y="{line}">{name}</text>')
    return "".join(out)


def _nice(low: float, high: float) -> tuple[float, float, float]:
    """Round bounds and a round step, about five of them."""
    rough = max(high - low, 1e-9) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * min((1, 2, 2.5, 5, 10), key=lambda factor: abs(factor - rough / size))
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def _steps(low: float, high: float, step: float) -> Iterable[float]:
    return (low + step * i for i in range(int((high - low) / step + 1.001)))
