#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draws the figures of tools/bench: plot.py BENCH.JSON BENCH.SVG. Runs in a root of its own, which has matplotlib: IN_ROOT=plot.

Times and instructions are drawn in relation to the median of the first mix, others as they are. A dot is a median, a bar goes
from the least to the greatest value.
"""
import itertools
import json
import statistics
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

# Inches.
ROW, MARGIN, WIDTH, NAMES = 0.24, 0.8, 11.0, 4.6
COLOURS = ("#777777", "#0072b2", "#d55e00", "#009e73", "#cc79a7")


def panels(figures: list[dict], rounds: dict[str, int]) -> list[tuple[str, list[dict]]]:
    """Figures that are drawn together, and a title."""
    found = []
    for (boot, run, is_time), group in itertools.groupby(figures, lambda figure: (figure["boot"], figure["run"], figure["is_time"])):
        title = f"{run}, {boot}, {rounds[boot]} rounds" + (", relation: less is better" if is_time else "")
        found.append((title, list(group)))
    return found


def spans(figure: dict, mixes: list[str]) -> dict[str, tuple[float, float, float]]:
    """By mix: the least value, the median, the greatest value, as they are drawn."""
    values = {mix: figure["values"].get(mix, []) for mix in mixes}
    unit = 1.0
    if figure["is_time"]:
        unit = statistics.median(values[mixes[0]]) if values[mixes[0]] else 0
    if not unit:
        return {}
    return {mix: (min(found) / unit, statistics.median(found) / unit, max(found) / unit) for mix, found in values.items() if found}


def draw_panel(axes, title: str, figures: list[dict], mixes: dict[str, str]) -> None:
    is_time = figures[0]["is_time"]
    names = list(mixes)
    for index, mix in enumerate(names):
        colour = COLOURS[index % len(COLOURS)]
        shift = (index - (len(names) - 1) / 2) * 0.3
        for row, figure in enumerate(figures):
            span = spans(figure, names).get(mix)
            if span:
                axes.hlines(row + shift, span[0], span[2], color=colour, linewidth=2)
                axes.plot(span[1], row + shift, "o", color=colour, markersize=4)
        axes.plot([], [], "o-", color=colour, label=mixes[mix])
    axes.set_yticks(range(len(figures)), [figure["measure"] for figure in figures], fontsize=8)
    axes.set_ylim(len(figures) - 0.4, -0.6)
    axes.set_title(title, fontsize=9, loc="left")
    axes.grid(axis="x", which="both", color="#dddddd", linewidth=0.5)
    if is_time:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.axvline(1, color="#000000", linewidth=0.6)
    else:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis="x", labelsize=8)
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(names), frameon=False, borderpad=0)


def draw(data: dict, target: str) -> None:
    found = panels(sorted_figures(data["figures"]), data["rounds"])
    heights = [len(figures) * ROW for _, figures in found]
    total = sum(heights) + MARGIN * (len(found) + 0.5)
    whole = plt.figure(figsize=(WIDTH, total))
    top = total - MARGIN * 0.8
    for (title, figures), height in zip(found, heights):
        axes = whole.add_axes((NAMES / WIDTH, (top - height) / total, (WIDTH - NAMES - 0.4) / WIDTH, height / total))
        draw_panel(axes, title, figures, data["mixes"])
        top -= height + MARGIN
    title = f"commit {data['commit']}, medians, least to greatest; {data['ended']}"
    whole.text(0.01, 1 - 0.2 / total, title, fontsize=8, va="top")
    plt.rcParams["svg.hashsalt"] = "bench"
    whole.savefig(target, metadata={"Date": None})


def sorted_figures(figures: list[dict]) -> list[dict]:
    """In the order of boots and runs, of each run the times first."""
    order = list(dict.fromkeys((figure["boot"], figure["run"]) for figure in figures))
    return sorted(figures, key=lambda figure: (order.index((figure["boot"], figure["run"])), not figure["is_time"]))


def main() -> int:
    source, target = sys.argv[1:]
    with open(source) as file:
        data = json.load(file)
    draw(data, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
