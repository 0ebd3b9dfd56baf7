"""Celery: chains and chords, broker and results both in the Redis that it is given, one prefork process for each core.

Tasks are acknowledged late, so that they survive a worker as Tidemill's do. Called as: on_celery.py PORT DIRECTORY; Celery's
worker imports this file too, and finds the port in PEER_REDIS_PORT.
"""

import os
import subprocess
import sys
from pathlib import Path

from celery import Celery, chain, chord

from measure import CORES, IN_FLIGHT, IS_QUICK, LONG, SHORT, TEXT, WIDTH, expect, one_by_one, seconds, tell

PORT = os.environ.get("PEER_REDIS_PORT") or (sys.argv[1] if __name__ == "__main__" else "")
# Twice (200 at once, and when they are done 200 again), for Celery's client cannot be told when any one of them ends.
ROUNDS = 1 if IS_QUICK else 2
# For any one result; the driver ends the whole.
SECONDS_MAX = 120
# What the processes of a worker talk about among each other is not work.
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")

app = Celery("bench", broker=f"redis://127.0.0.1:{PORT}/0", backend=f"redis://127.0.0.1:{PORT}/1")
app.conf.update(
    task_acks_late=True,
    # A process fetches ahead, or it waits for Redis after every task.
    worker_prefetch_multiplier=16,
    broker_connection_retry_on_startup=True,
)


@app.task(name="step")
def step(text):
    """Hands the text on."""
    return text


@app.task(name="join")
def join(texts):
    """Hands the text on, when it is the same in all."""
    return TEXT if texts == [TEXT] * WIDTH else f"{len(texts)} texts"


def submit_chain(steps):
    return chain(step.s(TEXT), *(step.s() for _ in range(steps - 1))).apply_async()


def submit_fan():
    return (step.s(TEXT) | chord([step.s() for _ in range(WIDTH)], join.s())).apply_async()


def finish(result):
    expect(result.get(timeout=SECONDS_MAX), TEXT, "result")


def at_once():
    for _ in range(ROUNDS):
        for result in [submit_chain(SHORT) for _ in range(IN_FLIGHT)]:
            finish(result)


def start_worker(directory):
    command = [sys.executable, "-m", "celery", "-A", Path(__file__).stem, "worker", "--pool", "prefork",
               "--concurrency", str(CORES), "--loglevel", "ERROR", *QUIET]
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PEER_REDIS_PORT": PORT, "PYTHONPATH": here}
    with open(Path(directory) / "worker.log", "wb") as log:
        return subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)


def main():
    worker = start_worker(sys.argv[2])
    try:
        finish(submit_chain(2))
        tell("celery", "W1", one_by_one(lambda: finish(submit_chain(LONG))) * 1e6 / LONG)
        tell("celery", "W2", ROUNDS * IN_FLIGHT * SHORT / seconds(at_once))
        tell("celery", "W3", one_by_one(lambda: finish(submit_fan())) * 1e3)
    finally:
        worker.terminate()
        try:
            worker.wait(10)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


if __name__ == "__main__":
    main()
