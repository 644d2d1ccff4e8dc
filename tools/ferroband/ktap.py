# SPDX-License-Identifier: GPL-2.0
"""What test programs say (Documentation/dev-tools/ktap.rst)."""
import dataclasses
import re

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
    skip_reason: str | None = None
    faults: list[str] = dataclasses.field(default_factory=list)

    @property
    def outcome(self) -> str:
        """pass, fail or skip."""
        if self.failed or self.faults:
            return "fail"
        return "pass" if self.passed else "skip"


def parse(output: str, status: int, overrun: float | None = None) -> Report:
    """Reads a program's output. A missing plan, a wrong count or a bad exit status is a fault; so is it when the program was ended
    because it ran longer than `overrun` seconds.
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
            report.skip_reason = plan[2] if report.planned == 0 else None
    results = report.passed + report.failed + len(report.skips)
    if overrun is not None:
        report.faults.append(f"it ran out of its time ({overrun:.0f} s)")
    elif report.planned is None:
        report.faults.append(f"it ended without a plan, with status {status}")
    elif report.planned != results:
        report.faults.append(f"{report.planned} checks planned, {results} made")
    elif status != 0 and not report.failed and report.skip_reason is None:
        report.faults.append(f"exit status {status}")
    if results == 0 and report.skip_reason is None and not report.faults:
        report.faults.append("it checked nothing")
    return report
