"""Measures peers written in Python, all in the same way. measure.mjs does the same for JavaScript.

A figure is one JSON line on standard output; the driver takes the medians over its rounds.
"""

import json
import os
import statistics
import time

# The text that every step passes on, as in Tidemill's own workloads: 54 bytes.
TEXT = "x" * 54
IS_QUICK = os.environ.get("BENCH_QUICK") == "1"
# Number of runs one at a time; the median is the figure.
TIMES = 5 if IS_QUICK else 30
# W1 and W2 are chains of so many steps. W3 is a step, WIDTH parallel steps, and a step.
LONG, SHORT, WIDTH = 100, 20, 100
IN_FLIGHT = 200
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tell(row, workload, value):
    """Sends one figure to the driver."""
    print(json.dumps({"row": row, "workload": workload, "value": value}), flush=True)


def seconds(work):
    """Returns how long a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def one_by_one(work, warm_up=3):
    """Returns the median seconds of a run on an otherwise idle system."""
    for _ in range(warm_up):
        work()
    return statistics.median(seconds(work) for _ in range(TIMES))


def expect(found, wanted, what):
    """Ends the program if a result is wrong: a fast but wrong engine is not fast."""
    if found != wanted:
        raise SystemExit(f"{what}: {found!r} in place of {wanted!r}")
