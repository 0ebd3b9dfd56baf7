"""How a peer written in Python is measured, so that all of them are measured alike. Its twin is measure.mjs.

A figure is one JSON line on standard output; the driver takes the medians over its rounds.
"""

import json
import os
import statistics
import time

# What every step hands on, as in Tidemill's own workloads: 54 bytes.
TEXT = "x" * 54
IS_QUICK = os.environ.get("BENCH_QUICK") == "1"
# One run at a time, this often; the median counts.
TIMES = 5 if IS_QUICK else 30
# W1 and W2 are chains of so many steps, W3 is a step, WIDTH side by side, a step.
LONG, SHORT, WIDTH = 100, 20, 100
IN_FLIGHT = 200
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tell(row, workload, value):
    """Hands one figure to the driver."""
    print(json.dumps({"row": row, "workload": workload, "value": value}), flush=True)


def seconds(work):
    """How long a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def one_by_one(work, warm_up=3):
    """Median seconds of a run when nothing else is going on."""
    for _ in range(warm_up):
        work()
    return statistics.median(seconds(work) for _ in range(TIMES))


def expect(found, wanted, what):
    """A wrong result is not a fast one."""
    if found != wanted:
        raise SystemExit(f"{what}: {found!r} in place of {wanted!r}")
