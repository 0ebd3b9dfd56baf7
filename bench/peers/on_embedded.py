"""The engine in a Python process beside graphon, in the same process: a run of 100 nodes, one after the other.

`pure`: template nodes, evaluated by each engine. `python`: the same nodes, executed by a function in Python that does
nothing, so it is the cost of a call from the engine to Python; graphon's node gets such a method. The time runs from
the text of the workflow until the last event of its run has been read. `graphon-alone` leaves out the time in which
graphon makes an engine from the text. Rounds take turns, and a ratio is taken within a round.

Called by embedded.py, with the packages `tidemill` and, if there is one for this Python, `graphon`. Prints one JSON
line for each figure.
"""

from __future__ import annotations

import gc
import logging
import statistics
from collections.abc import Callable

import tidemill

from measure import IS_QUICK, LONG, TEXT, expect, seconds, tell
from on_graphon_files import chain

try:
    from graphon.dsl import loads
    from graphon.enums import WorkflowNodeExecutionStatus
    from graphon.node_events.base import NodeRunResult
    from graphon.nodes.template_transform.template_transform_node import TemplateTransformNode
except ImportError:
    loads = None

ROUNDS = 2 if IS_QUICK else 15
WARM_UP = 1 if IS_QUICK else 5
#: Runs a file once, and returns the seconds of the whole, and of the run without loading if they are known.
Run = Callable[[], tuple[float, ...]]


def of_tidemill(engine: tidemill.Engine, file: str) -> Run:
    def once() -> tuple[float, ...]:
        events: list[tidemill.Event] = []
        took = seconds(lambda: events.extend(engine.run(file, {"text": TEXT})))
        kinds = [event.type for event in events]
        expect(kinds[-1], "graph_run_succeeded", "last event of Tidemill")
        expect(events[-1].data["outputs"]["text"], TEXT, "result of Tidemill")
        expect(kinds.count("node_run_succeeded"), LONG + 2, "nodes of Tidemill with start and end")
        return (took,)

    return once


def of_graphon(file: str) -> Run:
    def once() -> tuple[float, ...]:
        engines = []
        loading = seconds(lambda: engines.append(loads(file, start_inputs={"text": TEXT})))
        events: list[object] = []
        running = seconds(lambda: events.extend(engines[0].run()))
        kinds = [type(event).__name__ for event in events]
        expect(kinds[-1], "GraphRunSucceededEvent", "last event of graphon")
        expect(events[-1].outputs["text"], TEXT, "result of graphon")
        expect(kinds.count("NodeRunSucceededEvent"), LONG + 2, "nodes of graphon with start and end")
        return loading + running, running

    return once


def nothing(_: object) -> object:
    """The method of graphon's node that does nothing."""
    return NodeRunResult(status=WorkflowNodeExecutionStatus.SUCCEEDED, outputs={"output": TEXT})


def compare(name: str, ours: Run, theirs: Run | None) -> None:
    """Measures both in turns, and prints the medians and the medians of the ratios."""
    runs = [run for run in (ours, theirs) if run]
    for run in runs:
        for _ in range(WARM_UP):
            run()
    rounds: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        found: tuple[float, ...] = ()
        for run in runs:
            gc.collect()
            found += run()
        rounds.append(found)
    for row, taken in zip(("tidemill", "graphon", "graphon-alone"), zip(*rounds, strict=True), strict=False):
        tell(row, name, statistics.median(taken) * 1e6 / LONG)
        if row != "tidemill":
            own = [found[0] for found in rounds]
            tell(f"{row}/faster", name, statistics.median(b / a for a, b in zip(own, taken, strict=True)))


def main() -> None:
    logging.disable(logging.CRITICAL)
    file = chain(LONG)
    with tidemill.Engine() as engine:
        compare("pure", of_tidemill(engine, file), of_graphon(file) if loads else None)
    engine = tidemill.Engine()
    engine.node("template-transform")(lambda _: {"output": TEXT})
    if loads:
        TemplateTransformNode._run = nothing
    with engine:
        compare("python", of_tidemill(engine, file), of_graphon(file) if loads else None)


if __name__ == "__main__":
    main()
