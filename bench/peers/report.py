"""Formats the figures as a table: for the terminal, and as Markdown for the section Results of docs/benchmarks.md."""

import statistics

WORKLOADS = {"W1": "µs/step", "W2": "steps/s", "W3": "ms"}
BEGIN, END = "<!-- results: written by run.py --markdown -->", "<!-- results end -->"


class Figures:
    """All figures: for each row and workload, a value per round."""

    def __init__(self, samples):
        self.rounds = {}
        for sample in samples:
            self.rounds.setdefault((sample["row"], sample["workload"]), {})[sample["round"]] = sample["value"]

    def has(self, row):
        return any((row, workload) in self.rounds for workload in WORKLOADS)

    def spread(self, row, workload):
        """Returns median, lowest and highest value; None if nothing was measured."""
        values = list(self.rounds.get((row, workload), {}).values())
        return (statistics.median(values), min(values), max(values)) if values else None

    def ratio(self, row, workload, other):
        """Returns the median of the ratios within each round. A slow time of the machine then affects both sides."""
        own, others = (self.rounds.get((name, workload), {}) for name in (row, other))
        ratios = [value / others[number] for number, value in own.items() if number in others]
        return statistics.median(ratios) if ratios else None

    def cells(self, row):
        """Returns for each workload: the value with its spread, the ratio to Tidemill, the ratio to the floor."""
        cells = []
        for workload in WORKLOADS:
            spread = self.spread(row, workload)
            cells.append("{} ({}–{})".format(*map(number, spread)) if spread else "–")
            cells += [number(self.ratio(row, workload, other)) for other in ("tidemill", "floor")]
        return cells


def number(value):
    """Formats a number with as many digits as are meaningful."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def rows_of(table, figures):
    """Returns a line of cells for each row that has figures."""
    heads = ["engine", "durable in"]
    for workload, unit in WORKLOADS.items():
        heads += [f"{workload} {unit}", "to Tidemill", "to floor"]
    body = [[label, durable, *figures.cells(row)] for row, (label, durable) in table.items() if figures.has(row)]
    return heads, body


def text(table, samples, failures):
    """Formats the table for the terminal."""
    heads, body = rows_of(table, Figures(samples))
    widths = [max(len(line[at]) for line in [heads, *body]) for at in range(len(heads))]
    # Names are aligned left, figures right.
    pads = [str.ljust if at < 2 else str.rjust for at in range(len(heads))]
    padded = [[pad(cell, width) for pad, cell, width in zip(pads, line, widths)] for line in [heads, *body]]
    return "\n".join(["  ".join(line).rstrip() for line in padded] + problems(failures)) + "\n"


def markdown(table, facts, samples, failures):
    """Formats the section of the page: facts of the machine, the table, and the failures."""
    heads, body = rows_of(table, Figures(samples))
    rounds = len({sample["round"] for sample in samples})
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    lines += [f"- rounds: {rounds}; median (least–most), ratios within each round", ""]
    lines += ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * 2 + ["---:"] * (len(heads) - 2), *body)]
    return "\n".join(lines + ([""] + [f"- {line}" for line in problems(failures)] if failures else [])) + "\n"


def problems(failures):
    """Returns a line for each peer and reason."""
    seen = {}
    for failure in failures:
        seen.setdefault((failure["peer"], failure["why"]), []).append(failure["round"])
    return [f"{peer}: {'not installed' if rounds == [0] else 'failed in round ' + ', '.join(map(str, rounds))}: {why}"
            for (peer, why), rounds in seen.items()]


def write_section(page, section):
    """Replaces the section of a page."""
    old = page.read_text(encoding="utf-8")
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise ValueError(f"{page} does not have the lines {BEGIN!r} and {END!r}")
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{section}\n{END}{after}", encoding="utf-8")
