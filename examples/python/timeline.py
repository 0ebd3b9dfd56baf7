"""Draws the timeline of a run as an SVG: python examples/python/timeline.py [FILE.svg]

A script in cells (`# %%`), as notebooks and editors read them. It needs nothing besides tidemill; the
models are functions that sleep, so the picture shows what ran at the same time.
"""

# %% A run, with models that take some time
from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tidemill import Engine, NodeContext

HERE = Path(__file__).parent
SECONDS = {"Sort": 0.15, "Write": 0.3, "Summary": 0.4}

engine = Engine()


@engine.node("llm")
def model(ctx: NodeContext) -> dict[str, str]:
    time.sleep(SECONDS[ctx.title])
    return {"text": "no" if ctx.title == "Sort" else f"The text of {ctx.title}"}


with engine:
    run = engine.run(HERE / "letter.yml", {"letter": "How does a tide mill work?"})
    events = list(run)

# %% From events to bars: a node begins with node_run_started, and ends with the event of the same execution


@dataclass
class Bar:
    """One node on the timeline, in milliseconds since the first node began."""

    title: str
    begin: float
    end: float
    status: str


def bars_of() -> list[Bar]:
    started = [event.data for event in events if event.type == "node_run_started"]
    zero = min(data["start_at"] for data in started)
    bars = {
        data["id"]: Bar(data["node_title"], milliseconds(data["start_at"] - zero), 0.0, "running") for data in started
    }
    for event in events:
        if event.type in ("node_run_succeeded", "node_run_failed"):
            bar = bars[event.data["id"]]
            bar.end, bar.status = (
                milliseconds(event.data["finished_at"] - zero),
                event.type[len("node_run_") :],
            )
    return list(bars.values())


def milliseconds(seconds: float) -> float:
    return seconds * 1000


# %% From bars to a picture

ROW, LEFT, WIDTH, GAP = 26, 110, 640, 8
COLORS = {"succeeded": "#3a86a8", "failed": "#c8553d", "running": "#999999"}


def svg(bars: list[Bar]) -> str:
    longest = max((bar.end for bar in bars), default=1.0) or 1.0
    lines: list[str] = []
    for row, bar in enumerate(bars):
        x = LEFT + WIDTH * bar.begin / longest
        width = max(2.0, WIDTH * (bar.end - bar.begin) / longest)
        y = GAP + row * ROW
        lines += [
            f'<text x="{LEFT - GAP}" y="{y + 14}" text-anchor="end">{escape(bar.title)}</text>',
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - GAP}" fill="{COLORS[bar.status]}">'
            f"<title>{escape(bar.title)}: {bar.end - bar.begin:.0f} ms</title></rect>",
        ]
    height = 3 * GAP + len(bars) * ROW + 12
    scale = f'<text x="{LEFT + WIDTH}" y="{height - GAP}" text-anchor="end">{longest:.0f} ms</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + GAP}" height="{height}"'
    return "\n".join([head + ' font-family="sans-serif" font-size="12">', *lines, scale, "</svg>"]) + "\n"


# %% The picture

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "timeline.svg")
picture.write_text(svg(bars_of()), encoding="utf-8")
for bar in bars_of():
    print(f"{bar.title:<10} {bar.begin:7.1f} ms to {bar.end:7.1f} ms  {bar.status}")
print(f"wrote {picture}")
