# SPDX-License-Identifier: GPL-2.0
"""What benchmarks measure: the lines that a guest prints, and the table of medians that becomes of them.

A line is "MIX<tab>RUN<tab>MEASURE<tab>UNIT<tab>VALUE" (tools/testing/bench/lib.sh). The value of a run that failed is
"failed: WHY". Another one, "round<tab>NUMBER<tab>MIX", says that a round begins.
"""
import dataclasses
import statistics
from collections.abc import Iterator

FAILED = "failed: "
# Of a line of the guest.
FIELDS = 5


@dataclasses.dataclass(frozen=True)
class Boot:
    """A machine in which is measured."""

    title: str
    cpus: int
    # Time is the number of instructions.
    counted: bool = False

    @property
    def time_unit(self) -> str:
        return "instructions" if self.counted else "ns"


@dataclasses.dataclass
class Figure:
    """One measure: its values and why there is none, by mix."""

    boot: Boot
    run: str
    measure: str
    unit: str
    # Whether it is a time (or a number of instructions): then less is better.
    is_time: bool
    values: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    failures: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def add(self, mix: str, value: str) -> None:
        try:
            self.values.setdefault(mix, []).append(float(value))
        except ValueError:
            self.failures.setdefault(mix, []).append(value.removeprefix(FAILED))

    def as_json(self) -> dict:
        return {"boot": self.boot.title, "run": self.run, "measure": self.measure, "unit": self.unit, "is_time": self.is_time,
                "values": self.values, "failures": self.failures}


class Figures:
    """All figures, by boot and run, and there in the order in which they were measured first."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str, str], Figure] = {}
        # How many were begun, by the title of the boot.
        self.rounds: dict[str, int] = {}

    def __iter__(self) -> Iterator[Figure]:
        parts = list(dict.fromkeys(name[:2] for name in self._by_name))
        return iter(sorted(self._by_name.values(), key=lambda figure: parts.index((figure.boot.title, figure.run))))

    def take(self, boot: Boot, line: str) -> bool:
        """Takes a line of the guest; False when it is of another kind."""
        words = line.split("\t")
        if words[0] == "round":
            self.rounds[boot.title] = int(words[1])
            return True
        if len(words) != FIELDS:
            return False
        mix, run, measure, unit, value = words
        name = (boot.title, run, measure)
        if name not in self._by_name:
            self._by_name[name] = Figure(boot, run, measure, unit or boot.time_unit, not unit)
        self._by_name[name].add(mix, value)
        return True


def number(value: float) -> str:
    """Three digits of a small number, all of a large one."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cell(figure: Figure, mix: str, rounds: int) -> str:
    """A median, and the least and the greatest value; and how many of the rounds have none."""
    values = figure.values.get(mix, [])
    missing = rounds - len(values)
    failed = f"{missing} of {rounds} FAILED" if missing > 0 else ""
    if not values:
        return failed
    spread = f" ({number(min(values))} to {number(max(values))})" if min(values) < max(values) else ""
    return f"{number(statistics.median(values))}{spread} {failed}".rstrip()


def relation(figure: Figure, mix: str, yardstick: str) -> str:
    """How a time's median relates to that of another mix."""
    mine, other = figure.values.get(mix), figure.values.get(yardstick)
    if not figure.is_time or not mine or not other or statistics.median(other) == 0:
        return "-"
    return f"{statistics.median(mine) / statistics.median(other):.2f}"


def table(figures: Figures, mixes: dict[str, str]) -> str:
    """One table of all figures. `mixes` are the names of the mixes and what to call them; the first one is the yardstick."""
    yardstick, *others = mixes
    head = ["", "unit", mixes[yardstick]]
    for mix in others:
        head += [mixes[mix], f"/ {mixes[yardstick]}"]
    rows, part = [head], ""
    for figure in figures:
        rounds = figures.rounds[figure.boot.title]
        if part != f"{figure.run}, {figure.boot.title}":
            part = f"{figure.run}, {figure.boot.title}"
            rows += [[], [f"{part}, medians of {rounds}"]]
        row = [figure.measure, figure.unit, cell(figure, yardstick, rounds)]
        for mix in others:
            row += [cell(figure, mix, rounds), relation(figure, mix, yardstick)]
        rows.append(row)
    return aligned(rows)


def aligned(rows: list[list[str]]) -> str:
    """Rows as text. One with a single cell is a heading."""
    widths = [max(len(row[column]) for row in rows if len(row) > 1) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [text.ljust(width) if column < 2 else text.rjust(width) for column, (text, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip() if len(row) > 1 else "".join(row))
    return "\n".join(lines) + "\n"


def complaints(figures: Figures, mixes: list[str]) -> list[str]:
    """What could not be measured, a line each."""
    found = []
    for figure in figures:
        rounds = figures.rounds[figure.boot.title]
        for mix in mixes:
            missing = rounds - len(figure.values.get(mix, []))
            if missing <= 0:
                continue
            why = figure.failures.get(mix, ["it ended before"])[0]
            found.append(f"{figure.run}, {figure.boot.title}: {figure.measure}, {mix}: {missing} of {rounds} failed: {why}")
    return found
