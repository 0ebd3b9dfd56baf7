"""Measures the engine in a Python process, beside graphon where a Python for it is found, and prints a table.

`make bench` calls it after its own table. It uses the module that cargo has built in release mode, and
graphon's packages of bench-peers. Without Python 3.12 or 3.13 it says so, and measures Tidemill alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # Leave no files in the source tree.

import install  # noqa: E402
from processes import Failed, run  # noqa: E402

REPOSITORY = install.HERE.parent.parent
SECONDS_MAX = 900
#: Each row: its name, what is run, and by how many times it should be faster than graphon.
ROWS = {
    "pure": ("100 pure nodes, one after the other", 20.0),
    "python": ("100 nodes with a function in Python that does nothing", 5.0),
}


def main() -> int:
    given = arguments()
    target = given.target.resolve()
    interpreter = with_graphon(target) or Path(sys.executable)
    environment = {
        **os.environ,
        "PYTHONPATH": str(package(target)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "BENCH_QUICK": str(int(given.quick)),
    }
    log = target / "bench-python.log"
    printed = run([interpreter, install.HERE / "on_embedded.py"], SECONDS_MAX, log, environment)
    figures = {(figure["workload"], figure["row"]): figure["value"] for figure in map(json.loads, printed.splitlines())}
    lines = [line for name in ROWS for line in rows_of(name, figures)]
    print(f"{'':<28} {'value':>9} {'unit':<8} {'target':<14} what")
    for line in lines:
        print(f"{line['name']:<28} {line['value']:>9.1f} {line['unit']:<8} {verdict(line):<14} {line['about']}")
    out = given.out or target / "bench-python.json"
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    missed = [line["name"] for line in lines if line.get("met") is False]
    return 1 if given.strict and missed else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few runs: does it work?")
    parser.add_argument("--strict", action="store_true", help="fail when a row misses its target")
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target")
    parser.add_argument("--target", type=Path, default=target, help="cargo's target directory")
    parser.add_argument("--out", type=Path, help="file for the figures, one JSON object per line")
    return parser.parse_args()


def with_graphon(target: Path) -> Path | None:
    """Returns the Python that has graphon, or `None` and says why there is none."""
    place = target / "bench-peers"
    place.mkdir(parents=True, exist_ok=True)
    try:
        return Path(install.python_packages("graphon", place))
    except Failed as error:
        print(f"bench: graphon is left out: {error}", file=sys.stderr)
        return None


def package(target: Path) -> Path:
    """Makes a folder with the package as it is in the source tree, but with the module of the release build."""
    built = target / "release" / ("lib_native.dylib" if sys.platform == "darwin" else "lib_native.so")
    if not built.is_file():
        raise Failed(f"{built} is missing: cargo build --release --locked -p tidemill-python")
    folder = target / "bench-python" / "tidemill"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for source in (REPOSITORY / "python" / "src" / "tidemill").iterdir():
        if not source.name.startswith("_native.abi3") and source.name != "__pycache__":
            (folder / source.name).symlink_to(source)
    (folder / "_native.abi3.so").symlink_to(built)
    return folder.parent


def rows_of(name: str, figures: dict[tuple[str, str], float]) -> list[dict[str, object]]:
    """The rows of one workload: our value, graphon's, and the ratio with its target."""
    about, times = ROWS[name]
    rows: list[dict[str, object]] = []
    for row, suffix, unit, what in (
        ("tidemill", "", "us/node", about),
        ("graphon", "/graphon", "us/node", "the same in graphon, in the same process"),
        ("graphon/faster", "/faster", "x", "graphon by Tidemill, median of the rounds"),
        ("graphon-alone", "/graphon-alone", "us/node", "graphon without the time in which it reads the workflow"),
        ("graphon-alone/faster", "/faster-alone", "x", "that by Tidemill, whose time includes it"),
    ):
        if (value := figures.get((name, row))) is not None:
            rows.append({"name": f"embed/{name}{suffix}", "value": value, "unit": unit, "about": what})
            if suffix == "/faster":
                rows[-1].update(target=f">= {times:g}", met=value >= times)
    return rows


def verdict(line: dict[str, object]) -> str:
    return f"{line['target']} {'met' if line['met'] else 'MISSED'}" if "target" in line else ""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
