#!/usr/bin/env python3
"""Writes into the corpus what Jinja2 makes of its templates.

    pip install jinja2==3.1.6 && python3 record.py [--check]

Each file beside this one is a list of cases, one a line. A case has a template and what becomes of it with the inputs
of inputs.json: its text, or the last line of its error. "strict" has the same for strict undefined names, where that
differs. To add a case, write {"template": "..."} and run this; --check only says whether something would change.
"""

import json
import pathlib
import platform
import sys

import jinja2

JINJA2 = "3.1.6"
PYTHON = "3.11"  # Its texts of errors differ a little from version to version.
HERE = pathlib.Path(__file__).parent


def outcome(template: str, inputs: str, undefined: type) -> dict:
    try:
        return {"text": jinja2.Template(template, undefined=undefined).render(**json.loads(inputs))}
    except Exception as error:
        # A syntax error that comes out of a render is told without the place, which stands above in the traceback.
        error.translated = True
        lines = str(error).splitlines() or [type(error).__name__]
        return {"error": lines[-1]}


def recorded(template: str, inputs: str) -> dict:
    empty = outcome(template, inputs, jinja2.Undefined)
    strict = outcome(template, inputs, jinja2.StrictUndefined)
    return {"template": template} | empty | ({"strict": strict} if strict != empty else {})


def main() -> int:
    if jinja2.__version__ != JINJA2 or not platform.python_version().startswith(PYTHON + "."):
        sys.exit(f"the corpus is recorded with Jinja2 {JINJA2} on Python {PYTHON}")
    inputs = (HERE / "inputs.json").read_text()
    changed = False
    for path in sorted(HERE.glob("*.json")):
        if path.name in ("inputs.json", "accepted.json"):
            continue
        before = path.read_text()
        cases = [recorded(case["template"], inputs) for case in json.loads(before)]
        after = "[\n" + ",\n".join(" " + json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n"
        if before != after:
            changed = True
            print(path.name, "differs")
        if "--check" not in sys.argv:
            path.write_text(after)
    return int(changed and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
