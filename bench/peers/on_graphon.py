"""graphon, the engine inside Dify: a library without storage. Uses the same workflow files as Tidemill, default settings.

An engine is created for each run, from the text of the workflow. `graphon` measures only the run, `graphon-load` both, which
is the cost for a process that keeps only the text. Runs are spread over one process per core, because threads of one process
would only wait for each other. Called as: on_graphon.py
"""

import logging
import statistics
from concurrent.futures import ProcessPoolExecutor

from graphon.dsl import loads

from measure import CORES, IN_FLIGHT, IS_QUICK, LONG, SHORT, TEXT, TIMES, WIDTH, expect, seconds, tell
from on_graphon_files import chain, fan

# Runs of W2 go to the next free process, so many together as one parcel.
PARCEL = 5
RUNS = IN_FLIGHT if IS_QUICK else 2 * IN_FLIGHT
SECONDS_MAX = 240


def run(text, steps):
    """Returns the seconds of loading and of running."""
    engine = None

    def load():
        nonlocal engine
        engine = loads(text, start_inputs={"text": TEXT})

    loading = seconds(load)
    events = []
    running = seconds(lambda: events.extend(engine.run()))
    names = [type(event).__name__ for event in events]
    expect(names[-1], "GraphRunSucceededEvent", "last event")
    expect(events[-1].outputs["text"], TEXT, "result")
    expect(names.count("NodeRunSucceededEvent"), steps + 2, "steps with start and end")
    return loading, running


def parcel(text):
    """Returns the seconds of loading and of running a parcel of runs."""
    return tuple(map(sum, zip(*(run(text, SHORT) for _ in range(PARCEL)))))


def one_by_one(text, steps):
    """Returns the median seconds of only running, and of loading and running."""
    for _ in range(3):
        run(text, steps)
    times = [run(text, steps) for _ in range(TIMES)]
    return statistics.median(running for _, running in times), statistics.median(map(sum, times))


def at_once():
    """Returns steps per second of only running (without the time of loading), and of loading and running."""
    text = chain(SHORT)
    with ProcessPoolExecutor(CORES) as processes:
        list(processes.map(parcel, [text] * 2 * CORES, timeout=SECONDS_MAX))
        spent = []
        took = seconds(lambda: spent.extend(processes.map(parcel, [text] * (RUNS // PARCEL), timeout=SECONDS_MAX)))
    steps = RUNS * SHORT
    share_of_running = sum(running for _, running in spent) / sum(map(sum, spent))
    return steps / (took * share_of_running), steps / took


def main():
    logging.disable(logging.CRITICAL)
    alone, whole = one_by_one(chain(LONG), LONG)
    tell("graphon", "W1", alone * 1e6 / LONG)
    tell("graphon-load", "W1", whole * 1e6 / LONG)
    alone, whole = at_once()
    tell("graphon", "W2", alone)
    tell("graphon-load", "W2", whole)
    alone, whole = one_by_one(fan(WIDTH), WIDTH + 2)
    tell("graphon", "W3", alone * 1e3)
    tell("graphon-load", "W3", whole * 1e3)


if __name__ == "__main__":
    main()
