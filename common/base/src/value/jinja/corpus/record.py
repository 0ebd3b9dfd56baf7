#!/usr/bin/env python3
"""Records Jinja2's results for the templates of the corpus.

    pip install jinja2==3.1.6 && python3 record.py [--check]

Each JSON file in this folder is a list of cases, one per line. A case has a template and its result with the inputs of
inputs.json: its text, or the last line of its error. "strict" is the result with strict undefined names, where it
differs. To add a case, write {"template": "..."} and run this script. --check only reports whether a file would change.
"""

import json
import pathlib
import platform
import sys

import jinja2

JINJA2 = "3.1.6"
PYTHON = "3.11"  # The error messages differ slightly between versions.
HERE = pathlib.Path(__file__).parent


def outcome(template: str, inputs: str, undefined: type) -> dict:
    try:
        return {"text": jinja2.Template(template, undefined=undefined).render(**json.loads(inputs))}
    except Exception as error:
        # Makes a syntax error during a render print its message only, without the position.
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
