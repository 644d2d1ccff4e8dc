# SPDX-License-Identifier: GPL-2.0
"""What test programs say (Documentation/dev-tools/ktap.rst)."""
import dataclasses
import pathlib
import re

from .environment import REPO

# How many checks each test makes at least.
CHECKS = REPO / "tools/testing/checks.tsv"
RESULT = re.compile(r"^(ok|not ok) \d+ ?(.*)$")
SKIP = re.compile(r"^(.*?) ?# SKIP\b")
PLAN = re.compile(r"^1\.\.(\d+)(?: # SKIP ?(.*))?$")


@dataclasses.dataclass
class Report:
    """The outcome of a test program: its single checks, and what is wrong with it as a whole."""

    passed: int = 0
    failed: int = 0
    # The checks that were skipped, by name.
    skips: list[str] = dataclasses.field(default_factory=list)
    planned: int | None = None
    plans: int = 0
    skip_reason: str | None = None
    faults: list[str] = dataclasses.field(default_factory=list)

    @property
    def made(self) -> int:
        """How many checks there were."""
        return self.passed + self.failed + len(self.skips)

    @property
    def outcome(self) -> str:
        """pass, fail or skip."""
        if self.failed or self.faults:
            return "fail"
        return "pass" if self.passed else "skip"


def parse(output: str, status: int, overrun: float | None = None, announced: int = 0) -> Report:
    """Reads a program's output. A missing plan, a wrong count, fewer checks than were announced or a bad exit status is a fault; so is
    it when the program was ended because it ran longer than `overrun` seconds.
    """
    report = Report()
    for line in output.splitlines():
        if result := RESULT.match(line):
            skipped = SKIP.match(result[2]) if result[1] == "ok" else None
            if skipped:
                report.skips.append(skipped[1])
            report.failed += result[1] == "not ok"
            report.passed += result[1] == "ok" and not skipped
        elif plan := PLAN.match(line):
            report.planned = int(plan[1])
            report.plans += 1
            report.skip_reason = plan[2] if report.planned == 0 else None
    if overrun is not None:
        report.faults.append(f"it ran out of its time ({overrun:.0f} s)")
    elif report.planned is None:
        report.faults.append(f"it ended without a plan, with status {status}")
    elif report.plans > 1:
        report.faults.append(f"it has {report.plans} plans")
    elif report.planned != report.made:
        report.faults.append(f"{report.planned} checks planned, {report.made} made")
    elif report.made < announced and report.skip_reason is None:
        report.faults.append(f"{announced} checks announced ({CHECKS.name}), {report.made} made")
    elif status != 0 and not report.failed and report.skip_reason is None:
        report.faults.append(f"exit status {status}")
    if report.made == 0 and report.skip_reason is None and not report.faults:
        report.faults.append("it checked nothing")
    return report


def announced(path: pathlib.Path = CHECKS) -> dict[tuple[str, str], int]:
    """The checks of each test, by kernel and name of the test."""
    lines = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")] if path.exists() else []
    return {(kernel, test): int(count) for kernel, test, count in lines}


def announce(made: dict[tuple[str, str], int], path: pathlib.Path = CHECKS) -> None:
    """Writes down how many checks tests have made."""
    counts = announced(path) | made
    head = "# The checks that a test makes at least, with all modules of ours: kernel, test, number (make check RECORD_CHECKS=yes).\n"
    path.write_text(head + "".join(f"{kernel}\t{test}\t{count}\n" for (kernel, test), count in sorted(counts.items())))
