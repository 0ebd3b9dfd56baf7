"""Tries an installed wheel: the command line, the engine, a code node.

`make wheel-test` runs it in an environment that has only the wheel and what it depends on, so it is no test of pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import tidemill

HELLO = Path(os.environ["EXAMPLES"]) / "hello.yml"

CODE = {
    "kind": "app",
    "version": "0.6.0",
    "app": {"name": "Double", "mode": "workflow"},
    "workflow": {
        "graph": {
            "nodes": [
                {
                    "id": "start",
                    "data": {
                        "type": "start",
                        "title": "Start",
                        "variables": [{"variable": "n", "label": "N", "type": "number", "required": True}],
                    },
                },
                {
                    "id": "double",
                    "data": {
                        "type": "code",
                        "title": "Double",
                        "code_language": "python3",
                        "code": "def main(n):\n    return {'result': 2 * n}\n",
                        "variables": [{"variable": "n", "value_selector": ["start", "n"]}],
                        "outputs": {"result": {"type": "number"}},
                    },
                },
                {
                    "id": "end",
                    "data": {
                        "type": "end",
                        "title": "End",
                        "outputs": [{"variable": "n", "value_selector": ["double", "result"]}],
                    },
                },
            ],
            "edges": [{"source": "start", "target": "double"}, {"source": "double", "target": "end"}],
        }
    },
}


def command(*arguments: str) -> str:
    """Runs the command line that the wheel has installed."""
    program = Path(sys.executable).with_name("tidemill")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"tidemill {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def main() -> None:
    assert version("tidemill") in command("--version")
    assert "Ada" in command("run", str(HELLO), "-i", "name=Ada")
    last = json.loads(command("run", str(HELLO), "-i", "name=Ada", "--json").strip().splitlines()[-1])
    assert last, "the run as JSON is empty"
    with tidemill.Engine() as engine:
        outputs = engine.run(HELLO, {"name": "Ada"}).result(timeout=60)
        assert "Ada" in json.dumps(outputs), outputs
        # A code node runs in a helper process: the program of the wheel.
        assert engine.run(CODE, {"n": 21}).result(timeout=60) == {"n": 42}
    assert (Path(tidemill.__file__).parent / "py.typed").is_file()


main()
