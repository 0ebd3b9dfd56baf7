"""Measures Tidemill and other engines with the same work on the same machine, and prints one table.

`make bench-peers` calls it. docs/benchmarks.md explains what is measured and where the comparison is unfair. Every round
runs every peer once, each in new processes on a new redis-server. Each round begins with another peer, so that a slow time
of the machine does not always affect the same one. If a peer cannot be installed or fails, a line says why, and the exit
code is 1.
"""

import argparse
import contextlib
import functools
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, Tuple

sys.dont_write_bytecode = True  # Leave no files in the source tree.

import install  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
from processes import Failed, Redis, run  # noqa: E402

REPOSITORY = install.HERE.parent.parent
# Longest time for one round of a peer; on a quiet machine a round takes about a minute.
PEER_SECONDS = 600
ALL = ("W1", "W2", "W3")


class Peer(NamedTuple):
    """One process of a round."""

    name: str
    # The packages that it needs: the name of its requirements, or `node`. Tidemill only has to be built.
    kind: str
    on_redis: bool
    # The script and its arguments besides the port of Redis and a directory.
    command: Tuple[str, ...]
    # The rows of the table that it measures, with the workloads of each.
    rows: dict


PEERS = [
    Peer("tidemill", "tidemill", False, (), {"floor": ALL, "tidemill": ALL}),
    Peer("restate", "node", False, ("on_restate.mjs", "fsync"), {"restate": ALL, "restate-calls": ALL}),
    Peer("restate-no-fsync", "node", False, ("on_restate.mjs", "no-fsync"), {"restate-no-fsync": ALL}),
    Peer("bullmq-next", "node", True, ("on_bullmq.mjs", "next"), {"bullmq-next": ("W1", "W2")}),
    Peer("bullmq-flow", "node", True, ("on_bullmq.mjs", "flow"), {"bullmq-flow": ALL}),
    Peer("celery", "celery", True, ("on_celery.py",), {"celery": ALL}),
    Peer("graphon", "graphon", False, ("on_graphon.py",), {"graphon": ALL, "graphon-load": ALL}),
]

# The rows of the table in their order: a description, and where runs are stored.
TABLE = {
    "floor": ("floor: a bare loop, no engine", "Redis, everysec"),
    "tidemill": ("Tidemill", "Redis, everysec"),
    "restate": ("Restate, ctx.run", "own log, fsync"),
    "restate-calls": ("Restate, a call for each step", "own log, fsync"),
    "restate-no-fsync": ("Restate, ctx.run", "own log, no fsync"),
    "bullmq-next": ("BullMQ, each job adds the next", "Redis, everysec"),
    "bullmq-flow": ("BullMQ, FlowProducer", "Redis, everysec"),
    "celery": ("Celery, chain and chord", "Redis, everysec"),
    "graphon": ("graphon, run alone", "nothing"),
    "graphon-load": ("graphon, with loading", "nothing"),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=int(os.environ.get("REPEATS") or 5), help="rounds (REPEATS; 5)")
    only = "peers, such as celery,graphon (ONLY; all); Tidemill always runs"
    parser.add_argument("--only", default=os.environ.get("ONLY"), help=only)
    parser.add_argument("--quick", action="store_true", help="one round with few runs: does it work?")
    parser.add_argument("--redis-server", default="redis-server", help="the redis-server to use")
    parser.add_argument("--target", type=Path, help="cargo's target directory")
    parser.add_argument("--out", type=Path, help="file for the figures, one JSON object per line")
    parser.add_argument("--markdown", type=Path, help="page whose section of results is replaced")
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing, read the figures of this file")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else [peer.name for peer in PEERS]
    unknown = set(wanted) - {peer.name for peer in PEERS}
    if unknown or given.repeats < 1:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}" if unknown else "there is at least one round")
    given.peers = [peer for peer in PEERS if peer.name == "tidemill" or peer.name in wanted]
    return given


def main():
    given = arguments()
    if given.source:
        lines = [json.loads(line) for line in given.source.read_text(encoding="utf-8").splitlines()]
    else:
        # SIGTERM unwinds like Ctrl-C, and so ends the child processes.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        lines = measure(given)
    facts = {name: value for line in lines for name, value in line.get("machine", {}).items()}
    samples = [line for line in lines if "value" in line]
    failures = [line for line in lines if "why" in line]
    if "load after" not in facts:  # The last line of a complete measurement.
        last = max((sample["round"] for sample in samples), default=1)
        failures.append({"round": last, "peer": "all", "why": "stopped before the end, what came after it is missing"})
    print(report.text(TABLE, samples, failures), end="")
    if given.markdown:
        report.write_section(given.markdown, report.markdown(TABLE, facts, samples, failures))
    return 1 if failures else 0


def measure(given):
    """Runs all rounds and returns the lines of the file of figures."""
    target = given.target or target_directory()
    place = target / "bench-peers"
    place.mkdir(parents=True, exist_ok=True)
    lines = []
    with open(given.out or place / "results.jsonl", "w", encoding="utf-8") as out:

        def keep(line):
            lines.append(line)
            print(json.dumps(line), file=out, flush=True)

        homes = {"tidemill": target / "release", **installed(given.peers, place, keep)}
        keep({"machine": {**machine.facts(given.redis_server), "peers": install.versions(homes)}})
        if given.quick:
            keep({"machine": {"extent": "quick: few runs, which say nothing about speed"}})
        present = [peer for peer in given.peers if peer.kind in homes]
        for number in range(1, 2 if given.quick else given.repeats + 1):
            first = (number - 1) % len(present)
            for peer in present[first:] + present[:first]:
                say(f"round {number}: {peer.name}")
                work = functools.partial(figures_of, peer, homes[peer.kind], given, place)
                for sample in attempt(keep, peer.name, number, work) or []:
                    keep({"round": number, **sample})
        keep({"machine": {"load after": machine.load()}})
    return lines


def installed(peers, place, keep):
    """Returns the place of the packages of each kind, without the kinds that cannot be installed."""
    homes = {}
    for kind in dict.fromkeys(peer.kind for peer in peers if peer.kind != "tidemill"):
        names = ", ".join(peer.name for peer in peers if peer.kind == kind)
        home = attempt(keep, names, 0, functools.partial(home_of, kind, place))
        homes.update({kind: home} if home else {})
    return homes


def attempt(keep, name, number, work):
    """Returns the result of some work. A failure is recorded and printed, and the other peers continue."""
    try:
        return work()
    except Failed as failure:
        say(f"{name}: {failure}")
        keep({"round": number, "peer": name, "why": str(failure)})
        return None


def home_of(kind, place):
    """Installs the packages that peers of a kind need, and returns their place."""
    say(f"looking for the packages of {kind}, installing them where they are missing")
    return install.node_packages(place) if kind == "node" else install.python_packages(kind, place)


def figures_of(peer, home, given, place):
    """Runs one round of one peer. It must give every figure of its rows exactly once."""
    log = place / f"{peer.name}.log"
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as directory:
        if peer.kind == "tidemill":
            printed = figures_of_tidemill(home, given, directory, log)
        else:
            printed = figures_of_script(peer, home, given, directory, log)
    try:
        samples = [json.loads(line) for line in printed.splitlines()]
        measured = sorted((sample["row"], sample["workload"]) for sample in samples if sample["value"] > 0)
    except (ValueError, KeyError, TypeError):
        raise Failed(f"no figures, but the output {printed[:200]!r}") from None
    promised = sorted((row, workload) for row, workloads in peer.rows.items() for workload in workloads)
    if measured != promised:
        raise Failed(f"figures of {measured} instead of {promised}")
    return samples


def figures_of_script(peer, home, given, directory, log):
    """Runs a script with a directory for its data, and a Redis if it needs one; returns its output."""
    program, folder = ("node", home) if peer.kind == "node" else (home, install.HERE)
    environment = {**os.environ, "BENCH_QUICK": str(int(given.quick)), "PYTHONDONTWRITEBYTECODE": "1"}
    work = Path(directory, "work")
    work.mkdir()
    with Redis(given.redis_server, directory) if peer.on_redis else contextlib.nullcontext() as redis:
        command = [program, folder / peer.command[0], redis.port if redis else 0, work, *peer.command[1:]]
        return run(command, PEER_SECONDS, log, environment)


def figures_of_tidemill(home, given, directory, log):
    """Runs Tidemill's own benchmark, which starts its own servers and also measures the floor; returns its output."""
    out = Path(directory, "figures.jsonl")
    options = ["--repeats", "1", "--only", ",".join(ALL), "--no-build", *(["--quick"] if given.quick else [])]
    own = [home / "tidemill-bench", *options, "--redis-server", given.redis_server, "--out", out]
    run(own, PEER_SECONDS, log)
    values = {row["name"]: row["value"] for row in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    lines = []
    for row, prefix in (("floor", "floor "), ("tidemill", "")):
        named = [(workload, prefix + workload) for workload in ALL if prefix + workload in values]
        lines += [json.dumps({"row": row, "workload": workload, "value": values[name]}) for workload, name in named]
    return "\n".join(lines)


def target_directory():
    """Returns the folder in which cargo builds."""
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"]
    told = install.answer_of([*metadata, REPOSITORY / "Cargo.toml"])
    return Path(json.loads(told)["target_directory"])


def say(line):
    print(f"bench-peers: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("stopped; what was measured is in results.jsonl")
        sys.exit(130)
    except (Failed, OSError, ValueError) as error:
        say(str(error))
        sys.exit(2)
