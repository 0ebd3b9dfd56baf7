"""The figures as a table: for the terminal, and as the markdown of the section Results in docs/benchmarks.md."""

import statistics

WORKLOADS = {"W1": "µs/step", "W2": "steps/s", "W3": "ms"}
BEGIN, END = "<!-- results: written by run.py --markdown -->", "<!-- results end -->"


class Figures:
    """All that was measured: by row and workload, a value for each round."""

    def __init__(self, samples):
        self.rounds = {}
        for sample in samples:
            self.rounds.setdefault((sample["row"], sample["workload"]), {})[sample["round"]] = sample["value"]

    def has(self, row):
        return any((row, workload) in self.rounds for workload in WORKLOADS)

    def spread(self, row, workload):
        """Median, least and most; none when nothing was measured."""
        values = list(self.rounds.get((row, workload), {}).values())
        return (statistics.median(values), min(values), max(values)) if values else None

    def ratio(self, row, workload, other):
        """The median of the ratios within each round, so that a slow while of the machine is one for both."""
        own, others = (self.rounds.get((name, workload), {}) for name in (row, other))
        ratios = [value / others[number] for number, value in own.items() if number in others]
        return statistics.median(ratios) if ratios else None

    def cells(self, row):
        """For each workload: the value with its spread, the ratio to Tidemill, the ratio to the floor."""
        cells = []
        for workload in WORKLOADS:
            spread = self.spread(row, workload)
            cells.append("{} ({}–{})".format(*map(number, spread)) if spread else "–")
            cells += [number(self.ratio(row, workload, other)) for other in ("tidemill", "floor")]
        return cells


def number(value):
    """With as many digits as mean something."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def rows_of(table, figures):
    """A line of cells for each row that has figures."""
    heads = ["engine", "durable in"]
    for workload, unit in WORKLOADS.items():
        heads += [f"{workload} {unit}", "to Tidemill", "to floor"]
    body = [[label, durable, *figures.cells(row)] for row, (label, durable) in table.items() if figures.has(row)]
    return heads, body


def text(table, samples, failures):
    """For the terminal."""
    heads, body = rows_of(table, Figures(samples))
    widths = [max(len(line[at]) for line in [heads, *body]) for at in range(len(heads))]
    # Names begin at the left, figures end at the right.
    pads = [str.ljust if at < 2 else str.rjust for at in range(len(heads))]
    padded = [[pad(cell, width) for pad, cell, width in zip(pads, line, widths)] for line in [heads, *body]]
    return "\n".join(["  ".join(line).rstrip() for line in padded] + problems(failures)) + "\n"


def markdown(table, facts, samples, failures):
    """For the page: what it was measured on, the table, and what is missing in it."""
    heads, body = rows_of(table, Figures(samples))
    rounds = len({sample["round"] for sample in samples})
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    lines += [f"- rounds: {rounds}; median (least–most), ratios within each round", ""]
    lines += ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * 2 + ["---:"] * (len(heads) - 2), *body)]
    return "\n".join(lines + ([""] + [f"- {line}" for line in problems(failures)] if failures else [])) + "\n"


def problems(failures):
    """A line for each peer and reason."""
    seen = {}
    for failure in failures:
        seen.setdefault((failure["peer"], failure["why"]), []).append(failure["round"])
    return [f"{peer}: {'not installed' if rounds == [0] else 'failed in round ' + ', '.join(map(str, rounds))}: {why}"
            for (peer, why), rounds in seen.items()]


def write_section(page, section):
    """Puts a section in the place of the old one."""
    old = page.read_text(encoding="utf-8")
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise ValueError(f"{page} does not have the lines {BEGIN!r} and {END!r}")
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{section}\n{END}{after}", encoding="utf-8")
