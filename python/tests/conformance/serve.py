"""An embedded engine in Python that runs the conformance cases.

The program of tests/tests/conformance drives it, and compares what it sees, as it does with a fleet: over the few
requests of the native API that it needs, which this file makes of calls of `tidemill.Engine`. With `--llm` the function
in `model.py` executes the nodes of the type `llm`.

    python serve.py SETTINGS [--llm]

It says `READY host:port`, and ends when its standard input closes.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parent)]

from model import Model  # noqa: E402

from tidemill import Engine, Event, Refused, Run  # noqa: E402


class Server(ThreadingHTTPServer):
    """The engine and its runs."""

    daemon_threads = True

    def __init__(self, settings: str, with_model: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.engine = Engine(settings)
        self.runs: dict[str, Run] = {}
        if with_model:
            self.engine.node("llm")(Model(settings))
        self.engine.start()

    def submit(self, body: dict[str, Any]) -> dict[str, Any]:
        run = self.engine.run(body.pop("workflow"), body.pop("inputs", None), **body)
        self.runs[run.id] = run
        return {"id": run.id, "conversation_id": run.conversation_id}

    def command(self, run: str, body: dict[str, Any]) -> dict[str, Any]:
        if body["command"] == "stop":
            self.runs[run].stop()
        else:
            self.runs[run].resume()
        return {}

    def answer(self, run: str, pause: str, body: dict[str, Any]) -> dict[str, Any]:
        self.runs[run].answer(pause, body)
        return {}

    def advance(self, body: dict[str, Any]) -> dict[str, Any]:
        self.engine.advance(body["seconds"])
        return {}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.0"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        match self.path.strip("/").split("/"):
            case ["advance"]:
                self._say(200, lambda: server.advance(body))
            case ["api", "v1", "runs"]:
                self._say(201, lambda: server.submit(body))
            case ["api", "v1", "runs", run, "commands"]:
                self._say(202, lambda: server.command(run, body))
            case ["api", "v1", "runs", run, "pauses", pause, "answer"]:
                self._say(200, lambda: server.answer(run, pause, body))
            case _:
                self.send_error(404)

    def do_GET(self) -> None:
        match self.path.strip("/").split("/"):
            case ["api", "v1", "runs", run]:
                self._say(200, self.server.runs[run].show)
            case ["api", "v1", "runs", run, "events"]:
                self._stream(self.server.runs[run], int(self.headers.get("last-event-id") or 0))
            case _:
                self.send_error(404)

    def _say(self, status: int, do: Callable[[], dict[str, Any]]) -> None:
        try:
            said = do()
        except Refused as refused:
            status = 422 if refused.diagnostics else 409
            said = {"code": refused.code, "message": refused.message, "diagnostics": refused.diagnostics}
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, run: Run, after: int) -> None:
        """The events of a run after the one with this number."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for event in run:
                if event.seq > after:
                    self.wfile.write(_frame(run, event))
        except OSError:
            # The reader has seen what it waited for.
            return

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _frame(run: Run, event: Event) -> bytes:
    whole = {
        "type": event.type,
        "data": event.data,
        "id": str(event.seq),
        "run_id": run.id,
        "seq": event.seq,
        "ts": int(event.time * 1000),
    }
    return f"id: {event.seq}\nevent: {event.type}\ndata: {json.dumps(whole)}\n\n".encode()


def main() -> None:
    server = Server(sys.argv[1], "--llm" in sys.argv[2:])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"READY 127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
