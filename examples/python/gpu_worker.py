"""A worker of a fleet with a function for the queue `gpu`: python gpu_worker.py redis://localhost:6379

Nodes with `tidemill: {queue: gpu}` in the workflow file wait for a worker like this one. It takes one job
at a time, because there is one GPU. When it is killed, another worker executes the node again. SIGTERM lets
the running node end.
"""

from __future__ import annotations

import sys
import time

from tidemill import NodeContext, Worker

worker = Worker(redis=sys.argv[1], queues=["gpu"], permits=1)


@worker.queue("gpu")
def embed(ctx: NodeContext) -> dict[str, object]:
    """In the place of a large model: the letters of a text as numbers."""
    text = ctx.render("{{#start.text#}}")
    vector: list[float] = []
    for letter in text:
        if ctx.cancelled:  # The run was stopped: the GPU is free for the next job.
            break
        time.sleep(0.001)
        vector.append(ord(letter) / 128)
    return {"output": str(len(vector)), "vector": vector}


if __name__ == "__main__":
    worker.run()
