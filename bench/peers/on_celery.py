"""Celery: chains and chords, with broker and results in the given Redis, and one prefork process per core.

Tasks are acknowledged late, so that they survive the end of a worker, as in Tidemill. Celery's worker also imports this
file, and finds the port in PEER_REDIS_PORT. Called as: on_celery.py PORT DIRECTORY
"""

import os
import subprocess
import sys
from pathlib import Path

from celery import Celery, chain, chord

from measure import CORES, IN_FLIGHT, IS_QUICK, LONG, SHORT, TEXT, WIDTH, expect, one_by_one, seconds, tell

PORT = os.environ.get("PEER_REDIS_PORT") or (sys.argv[1] if __name__ == "__main__" else "")
# 200 at once, twice, because Celery's client has no way to wait for whichever run ends next.
ROUNDS = 1 if IS_QUICK else 2
# Longest wait for one result. The driver limits the total time.
SECONDS_MAX = 120
# Messages between the processes of a worker are not part of the work.
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")

app = Celery("bench", broker=f"redis://127.0.0.1:{PORT}/0", backend=f"redis://127.0.0.1:{PORT}/1")
app.conf.update(
    task_acks_late=True,
    # A process fetches tasks ahead, so that it does not wait for Redis after every task.
    worker_prefetch_multiplier=16,
    broker_connection_retry_on_startup=True,
)


@app.task(name="step")
def step(text):
    """Passes the text on."""
    return text


@app.task(name="join")
def join(texts):
    """Passes the text on, if all texts are the same."""
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
