"""Memory: many runs in one process end where they began."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest
from flows import chain, llm, template

from tidemill import Engine, Event, NodeContext, Run

RUNS = 1_000
#: What the allocator may keep beside what was there after the first runs, in bytes.
GROWTH_MAX = 12 << 20


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def held() -> int:
    gc.collect()
    return sum(isinstance(one, (Run, Event, NodeContext)) for one in gc.get_objects())


# A quarter of a minute alone; other tests may have the processors.
@pytest.mark.timeout(600)
def test_a_thousand_runs_end_where_they_began() -> None:
    flow = chain(template("greet"), llm(), outputs={"text": "llm.text"})
    with Engine() as engine:

        @engine.node("llm")
        def model(ctx: NodeContext) -> dict[str, Any]:
            return {"text": ctx.inputs["start.q"]}

        def some(count: int) -> None:
            for _ in range(count):
                run = engine.run(flow, {"q": "x" * 1_000})
                assert sum(1 for _ in run) > 8
                assert run.result() == {"text": "x" * 1_000}

        # What is made once, and the runs that the engine keeps for those who ask later.
        some(300)
        objects, memory = held(), resident()
        some(RUNS)
        assert held() <= objects
        assert resident() - memory < GROWTH_MAX
